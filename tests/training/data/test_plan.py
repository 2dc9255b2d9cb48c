from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tests.training.data.made import clism_dataset
from training.data.datasets import open_datasets
from training.data.features import Limits, clism_features
from training.data.plan import Mix, Plan, balanced, measure_bytes_per_token, plan_for
from training.methods.pretraining_tasks import CLISM


def drawn_in(plan: Plan, steps: range) -> list[tuple[int, int]]:
    return [pair for step in steps for pair in zip(*map(np.ndarray.tolist, plan.batch(step)), strict=True)]


def natural(sizes: list[int], batch_size: int, seed: int = 0, bucket_batches: int = 1) -> Plan:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    lengths = (np.arange(len(groups)) * 37 % 101 + 1).astype(np.float32)
    return Plan(groups, [float(size) for size in sizes], lengths, batch_size, seed, bucket_batches)


plans = st.builds(
    natural,
    st.lists(st.integers(0, 25), min_size=1, max_size=4).filter(any),
    st.integers(1, 40),
    st.integers(0, 5),
    st.sampled_from([1, 2, 3, 1_000]),
)


@given(plans)
def test_every_epoch_holds_every_row_once(plan):
    steps = plan.rows * 3 // math.gcd(plan.rows * 3, plan.batch_size)  # a whole number of epochs
    drawn = drawn_in(plan, range(steps))
    epochs = len(drawn) // plan.rows
    assert Counter(drawn) == Counter((row, time) for row in range(plan.rows) for time in range(epochs))
    for epoch in range(epochs):  # and each epoch alone, although it ends within a step
        rows = [row for row, _ in drawn[epoch * plan.rows : (epoch + 1) * plan.rows]]
        assert sorted(rows) == list(range(plan.rows))


@given(plans, st.integers(0, 1_000))
def test_a_step_does_not_depend_on_the_steps_before_it(plan, step):
    there = drawn_in(plan, range(step, step + 3))
    fresh = Plan(np.repeat(np.arange(len(plan.quotas)), plan.quotas), plan.quotas.tolist(), plan._lengths,
                 plan.batch_size, plan.seed, plan.bucket_batches)  # fmt: skip
    assert drawn_in(fresh, range(step + 2, step + 3)) == there[2 * plan.batch_size :]


@given(plans, st.integers(1, 6), st.integers(0, 50))
def test_ranks_divide_the_same_step_whatever_their_number(plan, ranks, step):
    shares = [plan.share(step, rank, ranks) for rank in range(ranks)]
    together = [pair for share in shares for pair in zip(share.rows.tolist(), share.passes.tolist(), strict=True)]
    assert sorted(together) == sorted(drawn_in(plan, range(step, step + 1)))


def test_the_order_is_another_in_every_epoch_and_for_every_seed():
    plan = natural([60, 40], 100)
    orders = [plan.batch(0).rows, plan.batch(1).rows, natural([60, 40], 100, seed=1).batch(0).rows]
    assert len({tuple(rows.tolist()) for rows in orders}) == 3
    first_half = (plan.batch(0).rows[:50] < 60).sum()
    assert 20 <= first_half <= 40  # groups are interleaved, not one after the other


@pytest.mark.parametrize("weights, expected", [([1, 1], [500, 500]), ([0, 1], [0, 1_000]), ([30, 10], [750, 250])])
def test_groups_are_drawn_in_proportion_to_their_weights(weights, expected):
    groups = np.repeat([0, 1], [900, 100])
    plan = Plan(groups, weights, np.ones(1_000, np.float32), 100, seed=0)
    for epoch in range(3):
        drawn = drawn_in(plan, range(10 * epoch, 10 * (epoch + 1)))
        assert np.bincount([groups[row] for row, _ in drawn], minlength=2).tolist() == expected
    drawn = drawn_in(plan, range(30))
    assert max(Counter(drawn).values()) == 1
    times = np.bincount([row for row, _ in drawn], minlength=1_000)
    for group in (0, 1):  # nothing comes again before all of its group was there
        assert np.ptp(times[groups == group]) <= 1


def test_a_group_of_little_weight_is_not_forgotten():
    plan = Plan(np.array([0] * 9 + [1]), [1.0, 1e-9], np.ones(10, np.float32), 10, seed=0)
    assert plan.quotas.tolist() == [9, 1]


def test_buckets_hold_examples_of_like_length_in_a_random_order_of_steps():
    plan, plain = natural([1_000], 10, bucket_batches=50), natural([1_000], 10)
    lengths = [plan._lengths[plan.batch(step).rows] for step in range(100)]
    assert np.mean([np.ptp(each) for each in lengths]) < 5
    assert np.mean([np.ptp(plain._lengths[plain.batch(step).rows]) for step in range(100)]) > 70
    means = np.array([each.mean() for each in lengths[:50]])
    assert abs(np.corrcoef(means, np.arange(50))[0, 1]) < 0.4


def test_shares_have_about_as_many_tokens_each():
    plan = natural([1_000], 64)
    for step in range(10):
        tokens = [plan._lengths[plan.share(step, rank, 4).rows].sum() for rank in range(4)]
        assert max(tokens) - min(tokens) < 0.03 * max(tokens)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 8))
@example([0, 0], 2)
def test_balanced_parts_hold_every_place_once_and_none_is_empty_needlessly(lengths, parts):
    found = balanced(np.array(lengths, np.float32), parts)
    assert sorted(place for part in found for place in part.tolist()) == list(range(len(lengths)))
    assert sum(len(part) > 0 for part in found) == min(parts, len(lengths))


def test_micro_batches_keep_below_the_most_tokens():
    plan = natural([100], 50)
    count = plan.micro_batches(0, 2, most_tokens=200)
    lengths = plan._lengths[plan.batch(0).rows]
    assert max(lengths[part].sum() for part in balanced(lengths, 2 * count)) <= 200
    assert count <= np.ceil(lengths.sum() / 400) + 1
    assert plan.micro_batches(0, 2, most_tokens=1) <= 25  # each longer example is a part of its own


def test_a_plan_for_datasets_weighs_them_and_their_languages(tmp_path):
    one = clism_dataset(tmp_path / "one", {"vi": 80, "zh": 20})
    two = clism_dataset(tmp_path / "two", {"vi": 100}, first_id=1_000)
    rows = open_datasets([one, two], CLISM.texts)

    def shares(mix: Mix) -> dict[tuple[int, str], int]:
        drawn = plan_for(rows, 200, 0, mix).batch(0).rows.tolist()
        return dict(Counter((int(rows.dataset_of_row[row]), rows.langs[rows.lang_of_row[row]]) for row in drawn))

    assert shares(Mix()) == {(0, "en-vi"): 80, (0, "en-zh"): 20, (1, "en-vi"): 100}
    assert shares(Mix(weights=(1, 4))) == {(0, "en-vi"): 32, (0, "en-zh"): 8, (1, "en-vi"): 160}
    assert shares(Mix(exponent=0.5)) == {(0, "en-vi"): 76, (0, "en-zh"): 38, (1, "en-vi"): 86}  # √80 : √20 : √100
    assert shares(Mix(exponent=0, weights=(2, 1))) == {(0, "en-vi"): 80, (0, "en-zh"): 80, (1, "en-vi"): 40}


@pytest.mark.parametrize(
    "batch_size, mix, expected",
    [
        (0, Mix(), "1 or more examples, found 0"),
        (4, Mix(weights=(1, 2)), "weight for each of 1 datasets, found 2"),
        (4, Mix(weights=(0,)), "not all of them 0"),
        (4, Mix(weights=(-1,)), "weights of 0 or more"),
        (4, Mix(weights=(math.nan,)), "weights of 0 or more"),
        (4, Mix(exponent=1.5), "mix exponent from 0"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(batch_size, mix, expected, tmp_path):
    rows = open_datasets([clism_dataset(tmp_path / "one", {"vi": 3})], CLISM.texts)
    with pytest.raises(ConfigError, match=expected):
        plan_for(rows, batch_size, 0, mix)


def test_lengths_follow_the_tokenizer_in_every_language(tmp_path, encoder):
    rows = open_datasets([clism_dataset(tmp_path / "one", {"vi": 30, "th": 30, "zh": 30})], CLISM.texts)
    rates = measure_bytes_per_token(rows, lambda text: len(encoder.encode(text).ids), sample=20)
    estimated = rows.tokens(rates)
    for code, lang in enumerate(rows.langs):
        places = np.flatnonzero(rows.lang_of_row == code).tolist()
        examples = [clism_features(rows[place], encoder, Limits()) for place in places]
        true = sum(len(each.ids) - 4 for each in examples if not isinstance(each, str))
        assert estimated[places].sum() == pytest.approx(true, rel=0.1), lang
    assert rows.tokens(rates, longest=20).max() == 20


def test_the_order_is_that_of_the_first_release():
    # A run that resumes under a later version must see the same batches.
    assert natural([7, 3], 5, seed=1).batch(1_000_000).rows.tolist() == [8, 4, 1, 7, 6]
