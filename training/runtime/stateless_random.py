"""Random bits and permutations as pure functions of a few integers.

They are the same after a resume, in any worker and on any rank. The algorithms (SplitMix64, a Feistel network) are
written out here because NumPy's generators may draw other numbers in another release.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's increment
_ALL = 2**64 - 1
_ROUNDS = 8


def key(*numbers: int) -> int:
    """Hashes a sequence of integers to a 64-bit key. The order matters: (1, 2) and (2, 1) have different keys."""
    state = 0
    for number in (*numbers, len(numbers)):
        # The same as `_mixed`, for one number: NumPy would take ten times as long.
        state = ((state ^ number) + _GOLDEN) & _ALL
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _ALL
        state ^= state >> 31
    return state


def bits(key: int, count: int) -> np.ndarray:
    """Returns the first `count` numbers of SplitMix64 started at `key`, as uint64."""
    return _mixed(np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN))


def uniforms(key: int, count: int) -> np.ndarray:
    """Returns `count` float64 in [0, 1), of 53 random bits each."""
    return (bits(key, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permuted(places: np.ndarray, size: int, key: int) -> np.ndarray:
    """Returns the images of `places` under a random permutation of range(size), as int64.

    The permutation is not stored: a Feistel network permutes range(2^k) for the least 2^k >= size, and an image outside
    of range(size) goes through the network again ("cycle walking"). So the cost depends on the number of places only.

        size 5, so 2^3 = 8; for some key:  1 → 6 (outside) → 3,  2 → 0
    """
    right = (size - 1).bit_length() // 2
    left = (size - 1).bit_length() - right
    keys = bits(key, _ROUNDS)
    images = np.array(places, np.uint64)
    outside = np.arange(len(images))
    while len(outside):
        images[outside] = _feistel(images[outside], left, right, keys)
        outside = outside[images[outside] >= size]
    return images.astype(np.int64)


def _feistel(values: np.ndarray, left_bits: int, right_bits: int, keys: np.ndarray) -> np.ndarray:
    left_mask, right_mask, shift = (np.uint64(n) for n in ((1 << left_bits) - 1, (1 << right_bits) - 1, right_bits))
    left, right = values >> shift, values & right_mask
    for number in range(0, _ROUNDS, 2):
        left = left ^ (_mixed(right ^ keys[number : number + 1]) & left_mask)
        right = right ^ (_mixed(left ^ keys[number + 1 : number + 2]) & right_mask)
    return (left << shift) | right


def _mixed(values: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's finaliser (Steele, Lea and Flood 2014): each output bit depends on all input bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
