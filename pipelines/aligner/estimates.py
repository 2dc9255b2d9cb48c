"""Computes the parameters of the next pass from expected counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def smoothed_jumps(counts: Floats, smoothing: float) -> Floats:
    """Returns the weights of jumps by -MAX_JUMP..MAX_JUMP words, from expected counts of any shape."""
    # Two decimals: jumps are the only sum of real numbers, whose last bits may differ between processors.
    return np.round(counts, 2) + smoothing


def smoothed_fertilities(counts_WF: NDArray[Any], smoothing: float) -> NDArray[np.float32]:
    """Returns p(fertility | word) (W + 1, F) from expected counts and `smoothing` counts of all words' distribution.

    The last row, for unknown words, is the distribution of all words.
    """
    all_words_F = counts_WF.sum(axis=0) + 0.5
    all_words_F /= all_words_F.sum()
    counts_WF = np.vstack([counts_WF, np.zeros((1, counts_WF.shape[1]))])
    fertilities_WF = (counts_WF + smoothing * all_words_F) / (counts_WF.sum(axis=1, keepdims=True) + smoothing)
    return np.asarray(fertilities_WF, np.float32)
