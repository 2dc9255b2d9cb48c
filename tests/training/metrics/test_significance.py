"""Tests significance against exact values, simulations and a slow version of the bootstrap."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import numpy as np
import pytest

from training.metrics import bootstrap
from training.metrics.significance import (
    LangScores,
    holm,
    mean_of,
    paired_bootstrap,
    permutation_p,
    resampled_means,
)
from training.runtime import stateless_random


def accuracy(right: float, count: float) -> float:
    return 100.0 * right / count


def scores(correct: np.ndarray, clusters: list[str] | None = None) -> LangScores:
    return LangScores(np.array([correct, np.ones(len(correct))]).T.astype(float), accuracy, clusters)


def draws(count: int, share: float, seed: int) -> np.ndarray:
    return stateless_random.uniforms(stateless_random.key(seed), count) < share


def test_holms_correction_by_hand() -> None:
    # Sorted .01, .02, .03, .2: times 4, 3, 2, 1, and never below the one before
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_permutation_test_counts_all_divisions_of_the_runs() -> None:
    assert permutation_p([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(2 / 20)  # this division and its mirror
    assert permutation_p([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]) == 1.0
    values = [3.0, 5.5, 1.0, 7.0, 2.5, 4.0, 9.0]
    differences = [
        abs(np.mean(group) - np.mean([value for value in values if value not in group]))
        for group in itertools.combinations(values, 3)
    ]
    expected = np.mean([each >= differences[0] - 1e-9 for each in differences])
    assert permutation_p(values[:3], values[3:]) == pytest.approx(expected)
    assert permutation_p([1.0, 2.0], [3.0, 4.0, 5.0]) is None  # too few runs to say anything


def test_equal_methods_do_not_differ_and_unequal_ones_do() -> None:
    weak = scores(draws(400, 0.5, 1))
    strong = scores(draws(400, 0.7, 1))  # right wherever the weak one is
    same = paired_bootstrap([[weak]], [[weak]], 200)
    assert (same.difference, same.interval, same.p) == (0.0, (0.0, 0.0), 1.0)
    found = paired_bootstrap([[weak]], [[strong]], 200)
    assert found.difference == pytest.approx(mean_of([strong]) - mean_of([weak]))
    assert found.interval[0] > 0 and found.p == pytest.approx(1 / 201)
    back = paired_bootstrap([[strong]], [[weak]], 200)
    assert (back.difference, back.p) == (-found.difference, found.p)


def test_p_is_uniform_where_methods_do_not_differ() -> None:
    def f1_of(seed: int) -> LangScores:
        return scores(stateless_random.uniforms(stateless_random.key(seed), 100))

    found = [paired_bootstrap([[f1_of(at)]], [[f1_of(at + 500)]], 200, seed=at).p for at in range(300)]
    for level in (0.05, 0.2, 0.5):
        share = np.mean([p <= level for p in found])
        assert abs(share - level) < 3 * (level * (1 - level) / 300) ** 0.5


def test_translations_of_one_question_are_drawn_together() -> None:
    """Ten copies of a language say no more than one: without clusters, the interval would be √10 times as narrow."""
    ids = [str(number) for number in range(300)]
    one, other = draws(300, 0.5, 5), draws(300, 0.55, 6)

    def width(copies: int, clusters: list[str] | None) -> float:
        run = [[scores(each, clusters)] * copies for each in (one, other)]
        low, high = paired_bootstrap([run[0]], [run[1]], 400).interval
        return high - low

    assert width(10, ids) == pytest.approx(width(1, ids))
    assert width(10, None) < 0.5 * width(1, None)


def test_resampled_means_are_those_of_a_loop_over_drawn_questions() -> None:
    first = scores(np.array([1, 0, 1]), ["a", "b", "c"])
    second = scores(np.array([0, 1]), ["c", "a"])  # fewer questions, in another order
    numbers: dict[Hashable, int] = {"a": 0, "b": 1, "c": 2}
    found = resampled_means([first, second], numbers, 20, 3)
    for resample in range(20):
        weights = bootstrap.sums(np.eye(3), 20, 3)[resample]  # how often each question is drawn
        a, b, c = weights
        means = [100 * (a + c) / (a + b + c), 100 * a / (a + c) if a + c else 0.0]
        assert found[resample] == pytest.approx(np.mean(means))


def test_runs_are_averaged() -> None:
    low, high = scores(draws(100, 0.4, 9)), scores(draws(100, 0.8, 9))
    found = paired_bootstrap([[low], [high]], [[high], [high]], 50)
    assert found.difference == pytest.approx((mean_of([high]) - mean_of([low])) / 2)
