"""Computes confidence intervals by resampling examples (Efron's percentile bootstrap).

R resamples, N examples, K columns whose sums over the examples give a statistic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from training.runtime import stateless_random


def sums(columns_NK: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Returns the sum of each column in each resample of N examples with replacement: float64, (R, K).

    The draws depend only on (seed, resample, N), so that parallel test sets of one size are resampled alike.
    """
    count = len(columns_NK)
    values_KN = np.ascontiguousarray(columns_NK.T, dtype=np.float64)
    sums_RK = np.empty((resamples, len(values_KN)))
    for resample in range(resamples):
        drawn = stateless_random.bits(stateless_random.key(seed, resample), count) >> np.uint64(32)
        indices = (drawn * np.uint64(count)) >> np.uint64(32)  # 0 to count - 1, uniform up to 2**-32
        sums_RK[resample] = values_KN @ np.bincount(indices.astype(np.int64), minlength=count)
    return sums_RK


def interval(values_R: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the interval with the middle share `confidence` of a statistic's values over the resamples."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values_R, [tail, 1 - tail])
    return float(low), float(high)


def figures(sums_RK: np.ndarray, statistic: Callable[..., float]) -> np.ndarray:
    """Returns the statistic of each resample, (R,)."""
    return np.array([statistic(*row) for row in sums_RK.tolist()])
