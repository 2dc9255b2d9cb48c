from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.metrics import bootstrap


def accuracy_interval(correct: list[int], seed: int = 1, resamples: int = 500) -> tuple[float, float]:
    columns = np.array([correct, [1] * len(correct)]).T
    values = bootstrap.figures(bootstrap.sums(columns, resamples, seed), lambda right, count: 100 * right / count)
    return bootstrap.interval(values)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    correct = [1, 0, 1, 1, 0, 0, 1] * 11
    assert accuracy_interval(correct) == accuracy_interval(correct)
    assert accuracy_interval(correct, seed=2) != accuracy_interval(correct)


def test_draws_do_not_change_with_libraries() -> None:
    """Pinned: intervals of one release can be compared with those of another."""
    assert bootstrap.sums(np.eye(4), resamples=3, seed=1).tolist() == [[0, 1, 2, 1], [1, 0, 2, 1], [2, 1, 1, 0]]


def test_every_resample_draws_as_many_examples_as_there_are() -> None:
    drawn = bootstrap.sums(np.eye(20), resamples=200, seed=3)
    assert (drawn.sum(axis=1) == 20).all()
    assert drawn.mean(axis=0) == pytest.approx(np.ones(20), abs=0.25)  # each about once


def test_the_width_is_that_of_the_normal_approximation() -> None:
    error = 100 * (0.5 * 0.5 / 1000) ** 0.5
    expected = (50 - 1.96 * error, 50 + 1.96 * error)
    assert accuracy_interval([1, 0] * 500, resamples=2000) == pytest.approx(expected, abs=0.4)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=30))
def test_the_interval_lies_around_what_it_can_be(correct: list[int]) -> None:
    low, high = accuracy_interval(correct, resamples=50)
    assert 0 <= low <= high <= 100
    if len(set(correct)) == 1:
        assert low == high == 100 * correct[0]
