"""Fertility: how many words translate a word. One that has its usual number already is less likely to get another.

Shapes: F fertilities 0..F-1, where the last means F-1 or more; S, T, B are those of `hmm`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.reference.hmm import Floats, Ints, Posteriors

F = 11


def fertility_distribution(states_STB: Floats) -> Floats:
    """Returns p(a state emits n words) (S, B, F) if words choose their states independently (a Poisson binomial)."""
    S, T, B = states_STB.shape
    distribution_FSB = np.zeros((F, S, B))
    distribution_FSB[0] = 1.0
    for t in range(T):
        one_more_FSB = distribution_FSB * states_STB[:, t]
        distribution_FSB -= one_more_FSB
        distribution_FSB[1:] += one_more_FSB[:-1]
        distribution_FSB[-1] += one_more_FSB[-1]
    return np.maximum(np.moveaxis(distribution_FSB, 0, -1), 0.0)


def reweighted(posteriors: Posteriors, states_SB: Ints, fertilities_WF: NDArray[np.float32]) -> Posteriors:
    """Multiplies posteriors by P(n + 1 | word) / P(n | word), for a state that is expected to emit n other words."""
    states_STB, empty_TB = posteriors.states_STB, posteriors.empty_TB
    word_S1B = np.minimum(states_SB, len(fertilities_WF) - 1)[:, None, :]
    others_STB = np.clip(states_STB.sum(axis=1)[:, None, :] - states_STB, 0.0, F - 2)
    n_STB = np.minimum(others_STB.astype(np.int64), F - 3)
    part_STB = others_STB - n_STB  # between two whole numbers of words, probabilities are interpolated
    p0, p1, p2 = (fertilities_WF[word_S1B, n_STB + more] for more in range(3))
    weighted_STB = states_STB * (p1 + part_STB * (p2 - p1)) / (p0 + part_STB * (p1 - p0))
    total_TB = weighted_STB.sum(axis=0) + empty_TB
    total_TB[total_TB == 0.0] = 1.0
    return posteriors._replace(states_STB=weighted_STB / total_TB, empty_TB=empty_TB / total_TB)
