"""IBM Model 2 over word stems, with a prior for the diagonal instead of learnt positions (Dyer et al. 2013)."""

from __future__ import annotations

import numpy as np

from pipelines.aligner.reference.hmm import Floats, Ints


def posteriors(
    emission_STB: Floats,
    empty_emission_TB: Floats,
    state_lengths_B: Ints,
    time_lengths_B: Ints,
    tension: float,
    empty_probability: float,
) -> tuple[Floats, Floats]:
    """Returns p(word t is emitted by word s | both sentences) (S, T, B), 0 on padding, and the log-likelihood (B).

    The arguments are those of `hmm.posteriors`.
    """
    S, T, _ = emission_STB.shape
    state_SB = (np.arange(S)[:, None] + 0.5) / np.maximum(state_lengths_B, 1)
    time_TB = (np.arange(T)[:, None] + 0.5) / np.maximum(time_lengths_B, 1)
    # Nine decimals: the last bit of an exponential differs between processors.
    prior_STB = np.round(np.exp(-tension * np.abs(state_SB[:, None, :] - time_TB)), 9)
    prior_STB *= (np.arange(S)[:, None] < state_lengths_B)[:, None, :]
    prior_STB *= (1.0 - empty_probability) / np.maximum(prior_STB.sum(axis=0), 1e-9)
    states_STB = prior_STB * emission_STB
    total_TB = states_STB.sum(axis=0) + empty_probability * empty_emission_TB
    total_TB = np.where(total_TB > 0.0, total_TB, 1.0)
    is_time_TB = np.arange(T)[:, None] < time_lengths_B
    return states_STB / total_TB, np.where(is_time_TB, np.log(total_TB), 0.0).sum(axis=0)
