from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from schemas.errors import ConfigError
from tests.training.data.made import clism_dataset
from training.data.collators import ClismCollator
from training.data.datasets import ShardRows, open_datasets
from training.data.features import Limits
from training.data.loader import Batches, StepBatches
from training.data.masking import mlm_for
from training.data.plan import Plan, plan_for
from training.methods.pretraining_tasks import CLISM
from training.runtime.errors import TrainingError

ROWS = 40


@pytest.fixture
def rows(tmp_path: Path) -> ShardRows:
    return open_datasets([clism_dataset(tmp_path / "one", {"vi": 20, "zh": 10, "ar": 10})], CLISM.texts)


@pytest.fixture
def plan(rows: ShardRows) -> Plan:
    return plan_for(rows, 16, seed=3)


@pytest.fixture
def collator(encoder) -> ClismCollator:
    return ClismCollator(encoder, Limits(), mlm_for(encoder), seed=3)


def first(number: int, batches: Batches, step: int = 0) -> list[StepBatches]:
    return [each._replace(seconds_waited=0.0) for each in islice(batches.starting(step), number)]


def ids_of(step: StepBatches) -> list[str]:
    return [name for batch in step.micro_batches for name in batch.example_ids]


def test_workers_make_the_same_batches(rows, plan, collator):
    alone = first(6, Batches(rows, plan, collator, micro_batches=2))
    helped = first(6, Batches(rows, plan, collator, micro_batches=2, workers=2, prefetch=2))
    assert str(alone) == str(helped)  # every tensor in full: they are small
    assert [each.step for each in helped] == [0, 1, 2, 3, 4, 5]


def test_iteration_starts_at_any_step_and_crosses_epochs(rows, plan, collator):
    batches = Batches(rows, plan, collator)
    assert str(first(6, batches)[4:]) == str(first(2, batches, step=4))
    assert Counter(itertools.chain(*map(ids_of, first(5, batches)))) == Counter(
        {rows[at]["id"]: 2 for at in range(ROWS)}  # 5 steps of 16: two epochs
    )


@dataclass(frozen=True)
class OfItsStep:
    """Its batches are (step, ids)."""

    of: ClismCollator
    step: int = -1

    def at_step(self, step: int) -> OfItsStep:
        return replace(self, step=step)

    def features(self, row: Mapping[str, Any]) -> Any:
        return self.of.features(row)

    def batch(self, examples: Any, keys: Any) -> Any:
        return self.step, [example.id for example in examples]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collator_may_know_the_step_which_is_the_same_after_a_resume_and_on_any_rank(rows, plan, collator, workers):
    for rank in (0, 1):
        batches = Batches(
            rows, plan, OfItsStep(collator), rank=rank, world_size=2, micro_batches=2, workers=workers, prefetch=1
        )
        steps = [[step for step, _ in each.micro_batches] for each in first(4, batches)]
        assert steps == [[0, 0], [1, 1], [2, 2], [3, 3]]
        assert first(4, batches)[2:] == first(2, batches, step=2)


def test_the_same_example_has_other_masks_in_its_next_epoch(rows, plan, collator):
    seen: dict[str, list[list[int]]] = {}
    for step in first(5, Batches(rows, plan, collator, micro_batches=16)):
        for batch in step.micro_batches:
            seen.setdefault(batch.example_ids[0], []).append(batch.masked_M.tolist())
    assert sum(one != two for one, two in seen.values()) > ROWS * 0.9


def test_two_rows_of_one_text_have_masks_of_their_own(collator, tmp_path):
    rows = open_datasets([clism_dataset(tmp_path / "zh", {"zh": 24})], CLISM.texts)
    twins = [at for at in range(24) if rows[at]["target_text"] == rows[0]["target_text"]]
    examples = [collator.features(rows[at]) for at in twins]
    first_row, second_row = (collator.batch([example], [(at, 0)]) for example, at in zip(examples, twins, strict=True))
    assert torch.equal(first_row.sources.ids_T, second_row.sources.ids_T)
    assert not torch.equal(first_row.masked_M, second_row.masked_M)


def test_an_example_is_the_same_on_any_number_of_ranks(rows, plan, collator):
    def of(ranks: int) -> dict[str, str]:
        parts = [
            Batches(rows, plan, collator, rank=rank, world_size=ranks, micro_batches=16 // ranks)
            for rank in range(ranks)
        ]
        batches = [batch for part in parts for batch in first(1, part)[0].micro_batches]
        return {batch.example_ids[0]: str(batch) for batch in batches if len(batch.example_ids) == 1}

    assert len(of(1)) == 16 and of(1) == of(2) == of(4)


def test_micro_batches_divide_a_share_into_about_as_many_tokens_each(rows, plan, collator):
    [step] = first(1, Batches(rows, plan, collator, micro_batches=4))
    tokens = [batch.inputs.tokens for batch in step.micro_batches]
    assert len(tokens) == 4 and max(tokens) < 1.15 * min(tokens)
    smaller = first(1, Batches(rows, plan, collator, micro_batches=1, most_tokens=60))[0].micro_batches
    assert len(smaller) > 4 and sorted(ids_of(step)) == sorted(name for each in smaller for name in each.example_ids)


def test_the_global_generator_is_left_alone(rows, plan, collator):
    torch.manual_seed(0)
    expected = torch.rand(3)
    for workers in (0, 1):
        torch.manual_seed(0)
        first(1, Batches(rows, plan, collator, workers=workers))
        assert torch.equal(torch.rand(3), expected)


@dataclass(frozen=True)
class Choosy(ClismCollator):
    """Refuses Chinese, and raises on Arabic if `fails`."""

    fails: bool = False

    def features(self, row: Mapping[str, Any]) -> Any:
        if row["target_lang"] == "zh":
            return "no_chinese"
        if self.fails and row["target_lang"] == "ar":
            raise KeyError("surprise")
        found = super().features(row)
        return found._replace(notes=("noted",)) if row["target_lang"] == "ar" else found


@pytest.mark.parametrize("workers", [0, 1])
def test_refused_rows_are_counted_and_left_out(workers, rows, plan, collator):
    choosy = Choosy(collator.encoder, collator.limits, collator.mlm, collator.seed)
    steps = first(5, Batches(rows, plan, choosy, workers=workers))
    assert sum((Counter(step.refused) for step in steps), Counter()) == {"no_chinese": 20}
    assert sum((Counter(step.notes) for step in steps), Counter()) == {"noted": 20}
    assert sum(len(ids_of(step)) for step in steps) == 60


def test_a_share_of_refused_rows_leaves_empty_micro_batches(rows, collator, tmp_path):
    chinese = open_datasets([clism_dataset(tmp_path / "zh", {"zh": 4})], CLISM.texts)
    choosy = Choosy(collator.encoder, collator.limits, collator.mlm, collator.seed)
    [step] = first(1, Batches(chinese, plan_for(chinese, 4, 0), choosy, micro_batches=2))
    assert [batch.example_ids for batch in step.micro_batches] == [(), ()] and step.refused == {"no_chinese": 4}


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_names_the_example_and_its_file(workers, rows, plan, collator):
    failing = Choosy(collator.encoder, collator.limits, collator.mlm, collator.seed, fails=True)
    with pytest.raises(
        TrainingError, match=r"part-0000\d-of-00002.arrow, row \d+: example 0{18}\w\w of step 0.*surprise"
    ):
        first(5, Batches(rows, plan, failing, workers=workers))


def test_too_small_a_batch_is_refused(rows, plan, collator):
    with pytest.raises(ConfigError, match="16 examples cannot be divided over 4 ranks and 5 micro-batches"):
        Batches(rows, plan, collator, world_size=4, micro_batches=5)


def test_waiting_is_reported(rows, plan, collator):
    assert next(Batches(rows, plan, collator).starting(0)).seconds_waited > 0
