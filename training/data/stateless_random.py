"""Randomness without state: bits and permutations that follow from a few integers alone.

Whatever is drawn here is a pure function of its key, so it is the same after a resume, in any worker, on any rank. It
is written out (SplitMix64, a Feistel network) because what NumPy's generators draw may change between its releases.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's increment
_ALL = 2**64 - 1
_ROUNDS = 8


def key(*numbers: int) -> int:
    """One 64-bit key for a tuple of integers; (1, 2) and (2, 1) have different ones."""
    state = 0
    for number in (*numbers, len(numbers)):
        # `_mixed` of one number: NumPy would take ten times as long.
        state = ((state ^ number) + _GOLDEN) & _ALL
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _ALL
        state ^= state >> 31
    return state


def bits(key: int, count: int) -> np.ndarray:
    """The first `count` numbers of SplitMix64 started at `key`: uint64."""
    return _mixed(np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN))


def uniforms(key: int, count: int) -> np.ndarray:
    """`count` float64 in [0, 1), of 53 bits each."""
    return (bits(key, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permuted(places: np.ndarray, size: int, key: int) -> np.ndarray:
    """Where a random permutation of range(size) puts `places`: int64.

    No permutation is held: a Feistel network permutes the next power of two, and what falls outside `size` goes through
    it again. So a few places of a billion rows cost what a few places of ten cost.
    """
    right = (size - 1).bit_length() // 2
    left = (size - 1).bit_length() - right
    keys = bits(key, _ROUNDS)
    found = np.array(places, np.uint64)
    outside = np.arange(len(found))
    while len(outside):
        found[outside] = _feistel(found[outside], left, right, keys)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _feistel(values: np.ndarray, left_bits: int, right_bits: int, keys: np.ndarray) -> np.ndarray:
    left_mask, right_mask, shift = (np.uint64(n) for n in ((1 << left_bits) - 1, (1 << right_bits) - 1, right_bits))
    left, right = values >> shift, values & right_mask
    for at in range(0, _ROUNDS, 2):
        left = left ^ (_mixed(right ^ keys[at : at + 1]) & left_mask)
        right = right ^ (_mixed(left ^ keys[at + 1 : at + 2]) & right_mask)
    return (left << shift) | right


def _mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014): each bit that comes out depends on all that go in."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
