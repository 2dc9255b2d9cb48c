"""Computes the posteriors of the word-alignment HMM (Vogel et al. 1996) for a batch of sentence pairs.

One language emits the words of the other. Shapes: B pairs, S words of the emitting side (the states), T words of the
emitted side (the time steps), both padded to the longest of the batch. M = S + 1 counts memories: position 0 is "before
the first word", position s + 1 is word s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_JUMP = 50


class Posteriors(NamedTuple):
    states_STB: Floats  # p(word t is emitted by word s | both sentences), 0 on padding
    empty_TB: Floats  # p(word t is emitted by no word | both sentences), 0 on padding
    jump_counts: Floats  # expected number of jumps by -MAX_JUMP..MAX_JUMP words, all pairs together
    log_likelihood_B: Floats  # ln p(words of the emitted side | words of the emitting side), before any reweighting


def posteriors(
    emission_STB: Floats,
    empty_emission_TB: Floats,
    state_lengths_B: Ints,
    time_lengths_B: Ints,
    jump_weights: Floats,
    empty_probability: float,
) -> Posteriors:
    """Runs forward-backward. The empty states remember the last position (Och and Ney 2003, section 2.1.2).

    `emission_STB[s, t, b]` is p(word t | word s) and `empty_emission_TB` p(word t | no word), both 0 on padding.
    `jump_weights` (2 * MAX_JUMP + 1) need no norm: those of one memory are normalised over the sentence's words.
    """
    S, T, B = emission_STB.shape
    jump_of_MS = np.clip(np.arange(S) - np.arange(-1, S)[:, None], -MAX_JUMP, MAX_JUMP) + MAX_JUMP
    jump_MS = jump_weights[jump_of_MS]
    is_memory_MB = np.arange(S + 1)[:, None] <= state_lengths_B  # False on padding
    weight_MB = np.cumsum(jump_MS, axis=1)[:, np.maximum(state_lengths_B, 1) - 1]
    leave_MB = np.where(is_memory_MB, (1.0 - empty_probability) / weight_MB, 0.0)
    stay_TB = empty_probability * empty_emission_TB
    moves_MSB = np.empty((S + 1, S, B))  # kept: most of the time goes into filling it

    memory_MB = np.zeros((S + 1, B))
    memory_MB[0] = 1.0
    before_TMB = np.empty((T, S + 1, B))  # p(memory before word t, words before t), up to a factor
    moved_TSB = np.empty((T, S, B))  # p(word s emits word t, words up to t), up to the same factor
    for t in range(T):
        before_TMB[t] = memory_MB
        np.multiply(jump_MS[:, :, None], (memory_MB * leave_MB)[:, None, :], out=moves_MSB)
        moved_TSB[t] = moves_MSB.sum(axis=0) * emission_STB[:, t]
        memory_MB = memory_MB * stay_TB[t]
        memory_MB[1:] += moved_TSB[t]
        memory_MB /= _positive(memory_MB.max(axis=0))

    states_STB = np.empty((S, T, B))
    jump_counts = np.zeros(len(jump_weights))
    log_likelihood_B = np.zeros(B)
    after_MB = np.ones((S + 1, B))  # p(words after t | memory after word t), up to a factor
    for t in range(T - 1, -1, -1):
        after_MB = np.where(t < time_lengths_B - 1, after_MB, is_memory_MB)
        arrive_SB = emission_STB[:, t] * after_MB[1:]
        np.multiply(jump_MS[:, :, None], arrive_SB, out=moves_MSB)
        here_MB = moves_MSB.sum(axis=1) * leave_MB + stay_TB[t] * after_MB
        scale_B = _positive((before_TMB[t] * here_MB).sum(axis=0))
        states_STB[:, t] = moved_TSB[t] * after_MB[1:] / scale_B
        # The one product of matrices: its last bits differ between processors, those of the posteriors do not.
        moves_MS = jump_MS * ((before_TMB[t] * leave_MB / scale_B) @ arrive_SB.T)
        jump_counts += np.bincount(jump_of_MS.ravel(), moves_MS.ravel(), minlength=len(jump_weights))
        norm_B = _positive(here_MB.max(axis=0)) if t else scale_B  # all of the likelihood is here in the end
        after_MB = here_MB / norm_B
        log_likelihood_B += np.where(t < time_lengths_B, np.log(norm_B), 0.0)
    empty_TB = np.where(np.arange(T)[:, None] < time_lengths_B, np.maximum(1.0 - states_STB.sum(axis=0), 0.0), 0.0)
    return Posteriors(states_STB, empty_TB, jump_counts, log_likelihood_B)


def _positive(values: Floats) -> Floats:
    """The values as divisors: padding, where everything is 0, stays 0."""
    return np.where(values > 0.0, values, 1.0)
