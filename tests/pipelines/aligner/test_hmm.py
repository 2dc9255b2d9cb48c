"""Forward-backward against a sum over every alignment of a small sentence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pipelines.aligner.reference.hmm import MAX_JUMP, posteriors

EMPTY = 0.1


def by_enumeration(emission_ST: Any, empty_T: Any, jump_weights: Any) -> tuple[Any, Any, float]:
    """Posteriors (S, T), expected jump counts and the probability of the words, from all (S + 1) ** T alignments."""
    S, T = emission_ST.shape
    states_ST, jumps, total = np.zeros((S, T)), np.zeros(len(jump_weights)), 0.0
    for alignment in itertools.product([None, *range(S)], repeat=T):
        probability, position, taken = 1.0, -1, []
        for t, s in enumerate(alignment):
            if s is None:  # the position stays what it was
                probability *= EMPTY * empty_T[t]
                continue
            norm = sum(jump_weights[other - position + MAX_JUMP] for other in range(S))
            probability *= (1 - EMPTY) * jump_weights[s - position + MAX_JUMP] / norm * emission_ST[s, t]
            taken.append(s - position + MAX_JUMP)
            position = s
        total += probability
        for t, s in enumerate(alignment):
            if s is not None:
                states_ST[s, t] += probability
        for jump in taken:
            jumps[jump] += probability
    return states_ST / total, jumps / total, total


@pytest.mark.parametrize("S, T", [(1, 1), (3, 3), (2, 4), (4, 2)])
def test_posteriors_and_jumps_are_those_of_all_alignments(S: int, T: int) -> None:
    random = np.random.default_rng(S * 10 + T)
    emission, empty, jump_weights = random.random((S, T)), random.random(T), random.random(2 * MAX_JUMP + 1)
    states_ST, jumps, probability = by_enumeration(emission, empty, jump_weights)
    lengths = np.array([S]), np.array([T])
    found = posteriors(emission[:, :, None], empty[:, None], *lengths, jump_weights, EMPTY)
    np.testing.assert_allclose(found.states_STB[:, :, 0], states_ST, rtol=1e-10)
    np.testing.assert_allclose(found.empty_TB[:, 0], 1.0 - states_ST.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.jump_counts, jumps, rtol=1e-10)
    np.testing.assert_allclose(np.exp(found.log_likelihood_B), [probability], rtol=1e-10)


def test_padding_changes_nothing_to_the_last_bit() -> None:
    random = np.random.default_rng(0)
    emission, empty, jump_weights = random.random((3, 2, 2)), random.random((2, 2)), random.random(2 * MAX_JUMP + 1)
    lengths = np.array([3, 3]), np.array([2, 2])
    alone = posteriors(emission, empty, *lengths, jump_weights, EMPTY)
    padded_emission, padded_empty = random.random((6, 7, 4)), random.random((7, 4))
    padded_emission[:, :, :2], padded_empty[:, :2] = 0.0, 0.0
    padded_emission[:3, :2, :2], padded_empty[:2, :2] = emission, empty
    lengths = np.array([3, 3, 6, 5]), np.array([2, 2, 7, 7])
    padded = posteriors(padded_emission, padded_empty, *lengths, jump_weights, EMPTY)
    assert (padded.states_STB[:3, :2, :2] == alone.states_STB).all()
    assert (padded.empty_TB[:2, :2] == alone.empty_TB).all()
    assert (padded.log_likelihood_B[:2] == alone.log_likelihood_B).all()
    assert not padded.states_STB[3:, :, :2].any() and not padded.states_STB[:, 2:, :2].any()
    assert not padded.empty_TB[2:, :2].any()


def test_long_jumps_are_counted_with_the_farthest() -> None:
    emission = np.zeros((80, 2, 1))
    emission[0, 0] = emission[79, 1] = 1.0
    lengths = np.array([80]), np.array([2])
    found = posteriors(emission, np.zeros((2, 1)), *lengths, np.ones(2 * MAX_JUMP + 1), EMPTY)
    assert found.jump_counts[MAX_JUMP + 1] == pytest.approx(1.0)
    assert found.jump_counts[-1] == pytest.approx(1.0)


def test_a_word_that_nothing_can_emit_gives_no_posterior_and_no_nan() -> None:
    lengths = np.array([2]), np.array([2])
    found = posteriors(np.zeros((2, 2, 1)), np.zeros((2, 1)), *lengths, np.ones(2 * MAX_JUMP + 1), EMPTY)
    assert not found.states_STB.any()
    assert np.isfinite(found.jump_counts).all() and np.isfinite(found.log_likelihood_B).all()
