"""Linear centred kernel alignment measures the similarity of two sets of representations (X-Mixup, equation 1).

N is the number of sentences; D and E are the sizes of the two representations.
"""

from __future__ import annotations

import numpy as np


def cka(x_ND: np.ndarray, y_NE: np.ndarray) -> float:
    """Returns 0 to 1 for representations of the same N parallel sentences; rotation, scale and shift change nothing.

    ||YᵀX||² / (||XᵀX|| ||YᵀY||), Frobenius norms of centred columns (Kornblith et al. 2019, which the paper cites). The
    paper also squares the norms of the denominator, which would make the value depend on scale. The value is nan if one
    side is constant.
    """
    if len(x_ND) != len(y_NE):
        raise ValueError(f"expected as many rows on both sides, found {len(x_ND)} and {len(y_NE)}")
    x = np.asarray(x_ND, np.float64) - np.mean(x_ND, axis=0, dtype=np.float64)
    y = np.asarray(y_NE, np.float64) - np.mean(y_NE, axis=0, dtype=np.float64)
    norms = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / norms) if norms else float("nan")
