"""Drawing by hash: reproducible, uniform, and the same however the mentions are parted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.anchor_mrc.hash_draws import SAMPLE, WORDS_BEFORE, below, best_of_each, hashed


def test_hashes_are_these_on_every_machine() -> None:
    assert hashed(7, SAMPLE, np.array([0, 1]), np.array([2, 2])).tolist() == [4180254533562482859, 12008219645821726008]


def test_seed_purpose_and_every_number_count() -> None:
    one, two = np.array([1]), np.array([2])
    found = {
        int(hashes[0])
        for hashes in (
            hashed(0, SAMPLE, one, two),
            hashed(0, SAMPLE, two, one),
            hashed(0, WORDS_BEFORE, one, two),
            hashed(1, SAMPLE, one, two),
            hashed(-1, SAMPLE, one, two),
        )
    }
    assert len(found) == 5


def test_numbers_below_a_limit_are_equally_likely() -> None:
    drawn = below(hashed(0, WORDS_BEFORE, np.arange(201_000)), 201)
    counts = np.bincount(drawn, minlength=201)
    assert len(counts) == 201
    assert abs(((counts - 1000) ** 2 / 1000).sum() - 200) < 4 * np.sqrt(2 * 200)  # χ² of 200 degrees of freedom


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=60), st.integers(1, 4), st.integers(0, 60))
def test_the_best_of_parts_are_the_best_of_the_whole(rows: list[tuple[int, int]], count: int, cut: int) -> None:
    def best(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
        groups, ranks = np.array(rows, np.int64).reshape(-1, 2).T
        return [rows[row] for row in best_of_each(groups, ranks.astype(np.uint64), count)]

    expected = [row for group in range(4) for row in sorted(row for row in rows if row[0] == group)[:count]]
    assert best(rows) == expected
    assert best(best(rows[:cut]) + best(rows[cut:])) == expected
