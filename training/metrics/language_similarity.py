"""Measures how far apart the representations of several languages are (X-Mixup, section 3 and appendix B).

N records, each in L languages; D size of a representation. Row i of every language is record i.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from training.metrics.cka import cka


class Similarity(NamedTuple):
    """How the languages of one model compare with the source language."""

    cka: dict[str, float]  # language → CKA with the source language, 0 to 1; nan for constant representations
    distance: dict[str, float]  # language → distance between its centroid and the source's, in units of the spread
    centroids: dict[str, tuple[float, float]]  # the first two principal components, in the same units
    explained: float  # share of the centroids' variance that the two components hold, 0 to 1


def similarity(representations: Mapping[str, np.ndarray], source: str) -> Similarity:
    """Compares languages. `representations`: language → (N, D), of which `source` is one.

    A centroid is the mean over a language's records. The spread is the root mean square distance of all records to the
    centroid of their language. Distances in units of it can be compared between models.
    """
    rows = {lang: np.asarray(rows_ND, np.float64) for lang, rows_ND in representations.items()}
    centroids_LD = np.stack([rows_ND.mean(axis=0) for rows_ND in rows.values()])
    spread = _spread(list(rows.values()), centroids_LD)
    source_D = centroids_LD[list(rows).index(source)]
    points_L2, explained = principal_components(centroids_LD / spread)
    distances_L = np.linalg.norm(centroids_LD - source_D, axis=1) / spread
    return Similarity(
        {lang: cka(rows[source], rows_ND) for lang, rows_ND in rows.items()},
        dict(zip(rows, distances_L.tolist(), strict=True)),
        {lang: (x, y) for lang, (x, y) in zip(rows, points_L2.tolist(), strict=True)},
        explained,
    )


def principal_components(points_LD: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the first two principal components, (L, 2), and their share of the variance. The entry of a component
    that is largest in absolute value is positive, so that the same points always give the same picture."""
    centred_LD = points_LD - points_LD.mean(axis=0)
    left_LK, scales_K, _ = np.linalg.svd(centred_LD, full_matrices=False)
    found_L2 = np.zeros((len(points_LD), 2))
    kept = min(2, len(scales_K))
    found_L2[:, :kept] = left_LK[:, :kept] * scales_K[:kept]
    for column in found_L2.T:
        if column[np.abs(column).argmax()] < 0:
            column *= -1
    variance = float((scales_K**2).sum())
    return found_L2, float((scales_K[:2] ** 2).sum() / variance) if variance else 1.0


def _spread(rows: list[np.ndarray], centroids_LD: np.ndarray) -> float:
    squares = [((own - centroid) ** 2).sum(axis=1).mean() for own, centroid in zip(rows, centroids_LD, strict=True)]
    return float(np.sqrt(np.mean(squares))) or 1.0
