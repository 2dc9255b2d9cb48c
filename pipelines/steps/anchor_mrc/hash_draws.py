"""Draws random numbers from hashes, so that they are the same on any machine and in any order.

Each number is drawn from a 64-bit hash of (seed, purpose, the record's own numbers), thousands at a time. Arrays are
NumPy's; every `…_M` has one entry for each of M mentions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]

# The purposes of a draw: the same record gets different numbers for each.
SAMPLE, WORDS_BEFORE, UNRELATED = 1, 2, 3


def hashed(seed: int, purpose: int, *columns: Ints | Hashes) -> Hashes:
    """Returns one hash per row of `columns`, of `seed`, `purpose` and the row's numbers.

    The mixing is SplitMix64's (Steele et al., 2014). `training/runtime/stateless_random.py` has a copy: the two
    packages share only `schemas`, which does not import NumPy.
    """
    size = len(columns[0])
    state = np.full(size, (seed * 0x9E3779B97F4A7C15 + purpose) % 2**64, np.uint64)
    for column in columns:
        state ^= column.astype(np.uint64)
        state += np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def below(hashes: Hashes, limits: Ints | int) -> Ints:
    """Maps each hash to an integer in [0, limit), all equally likely. Limits are below 2**32."""
    return (((hashes >> np.uint64(32)) * np.asarray(limits, np.uint64)) >> np.uint64(32)).astype(np.int64)


def best_of_each(groups_M: Ints, hashes_M: Hashes, count: int) -> Ints:
    """Returns the rows of the `count` lowest hashes of each group, by group and hash.

    Taking the best of parts and then the best of those gives the same as taking the best of the whole.
    """
    order = np.lexsort((hashes_M, groups_M))
    return order[position_in_group(groups_M[order]) < count]


def position_in_group(sorted_groups_M: Ints) -> Ints:
    """Numbers the entries of each run of equal numbers: 0, 1, 2 …

    >>> position_in_group(np.array([4, 4, 9])).tolist()
    [0, 1, 0]
    """
    starts = np.flatnonzero(np.diff(sorted_groups_M, prepend=-1))
    return np.arange(len(sorted_groups_M)) - np.repeat(starts, np.diff(starts, append=len(sorted_groups_M)))
