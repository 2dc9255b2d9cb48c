"""From expected counts to the parameters of the next pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def smoothed_jumps(counts: Floats, smoothing: float) -> Floats:
    """Weights of jumps by -MAX_JUMP..MAX_JUMP words, of any shape, from their expected counts."""
    # Two decimals: jumps are the one sum of real numbers, and what lies beyond may differ between processors.
    return np.round(counts, 2) + smoothing


def smoothed_fertilities(counts_WF: NDArray[Any], smoothing: float) -> NDArray[np.float32]:
    """p(fertility | word) (W + 1, F) from expected counts: `smoothing` counts of all words' distribution are added.

    The last row, of words that are not known, is that distribution.
    """
    all_words_F = counts_WF.sum(axis=0) + 0.5
    all_words_F /= all_words_F.sum()
    counts_WF = np.vstack([counts_WF, np.zeros((1, counts_WF.shape[1]))])
    fertilities_WF = (counts_WF + smoothing * all_words_F) / (counts_WF.sum(axis=1, keepdims=True) + smoothing)
    return np.asarray(fertilities_WF, np.float32)
