"""Confidence intervals by resampling examples (Efron's percentile bootstrap).

R resamples, N examples, K columns that a statistic adds up over examples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from training.data import stateless_random


def sums(columns_NK: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """What each column adds up to in each resample of N examples with replacement: float64, (R, K).

    The draws follow from (seed, resample) alone: data of the same size, as parallel test sets are, is resampled alike.
    """
    count = len(columns_NK)
    values_KN = np.ascontiguousarray(columns_NK.T, dtype=np.float64)
    found = np.empty((resamples, len(values_KN)))
    for at in range(resamples):
        drawn = stateless_random.bits(stateless_random.key(seed, at), count) >> np.uint64(32)
        places = (drawn * np.uint64(count)) >> np.uint64(32)  # 0 .. count-1, evenly up to 2**-32
        found[at] = values_KN @ np.bincount(places.astype(np.int64), minlength=count)
    return found


def interval(values_R: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """The middle `confidence` of a statistic's values over resamples."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values_R, [tail, 1 - tail])
    return float(low), float(high)


def figures(sums_RK: np.ndarray, statistic: Callable[..., float]) -> np.ndarray:
    """`statistic(*sums)` of each resample."""
    return np.array([statistic(*row) for row in sums_RK.tolist()])
