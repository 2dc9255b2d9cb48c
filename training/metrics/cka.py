"""Linear centred kernel alignment: how alike two sets of representations are (X-Mixup, equation 1).

N sentences, D and E sizes of the two representations.
"""

from __future__ import annotations

import numpy as np


def cka(x_ND: np.ndarray, y_NE: np.ndarray) -> float:
    """0..1 for representations of the same N parallel sentences; 1 if one is the other rotated, scaled and moved.

    ||YᵀX||² / (||XᵀX|| ||YᵀY||), Frobenius norms of centred columns (Kornblith et al. 2019, which the paper cites). The
    paper prints the denominator's norms squared too, which no scaling would leave alone. nan if one side is constant.
    """
    if len(x_ND) != len(y_NE):
        raise ValueError(f"expected as many rows on both sides, found {len(x_ND)} and {len(y_NE)}")
    x = np.asarray(x_ND, np.float64) - np.mean(x_ND, axis=0, dtype=np.float64)
    y = np.asarray(y_NE, np.float64) - np.mean(y_NE, axis=0, dtype=np.float64)
    norms = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / norms) if norms else float("nan")
