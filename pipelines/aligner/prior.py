"""Counts of an older model, to which training adds the counts of a new corpus.

Training leaves out what a cell itself added to the counts. That stays right only if the new pairs were not among those
that the older model was trained on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.model import AlignmentModel, Ints
from pipelines.aligner.words import Vocabulary
from schemas.errors import InputError

_MOST = 2.0**50  # so that training's sums, in whole numbers of 64 bits, hold the prior's too


class Counts(NamedTuple):
    """Holds a sparse table of K pairs of words or stems. The keys, (source << 32) + target, are ascending."""

    keys_K: Ints
    counts_K: Ints  # in units of 1 / ONE

    def plus(self, other: Counts) -> Counts:
        if not len(other.keys_K):
            return self
        return added_up(np.concatenate([self.keys_K, other.keys_K]), np.concatenate([self.counts_K, other.counts_K]))


class Prior(NamedTuple):
    """An older model's counts, indexed by a vocabulary of W words that contains all of its words."""

    source_frequency_W: Ints
    target_frequency_W: Ints
    links: Counts  # of words
    stem_links: Counts
    jumps: NDArray[np.float64]  # (2, 2 * MAX_JUMP + 1)
    fertilities_WF: NDArray[np.float32]  # (2, W, F), in units of 1


NO_COUNTS = Counts(np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_PRIOR = Prior(
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    NO_COUNTS,
    NO_COUNTS,
    np.zeros((2, 1)),
    np.zeros((2, 1, 1), np.float32),
)
"""This prior adds nothing to the counts of any vocabulary."""


def added_up(keys: Ints, counts: Ints) -> Counts:
    """Adds up the counts of each key. The keys may be in any order."""
    order = np.argsort(keys, kind="stable")  # which merges what ascends
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return Counts(keys[starts], np.add.reduceat(counts[order], starts) if len(keys) else counts)


def prior_of(model: AlignmentModel | None, vocabulary: Vocabulary, weight: float) -> Prior:
    """Returns the model's counts times `weight`, renumbered for `vocabulary`; whole numbers where training has them."""
    if model is None:
        return NO_PRIOR
    older, W = model.parameters, len(vocabulary.words)
    # Ascending, as both vocabularies are: so what is sorted stays so.
    number_of_older = np.array([vocabulary.number(word) for word in older.vocabulary.words], np.int64)

    older_frequencies = np.stack([older.source_frequency_W, older.target_frequency_W])
    frequencies = np.zeros((2, W), np.int64)
    frequencies[:, number_of_older] = np.rint(np.minimum(older_frequencies * weight, 2 * _MOST))
    weighted_K = np.rint(np.minimum(older.counts_K * weight, 2 * _MOST)).astype(np.int64)
    if max(frequencies.sum(dtype=np.float64), weighted_K.sum(dtype=np.float64), older.jump_weights.max()) > _MOST:
        raise InputError("The older model's counts are too large to add to. Name another as prior, or train it again.")
    kept = weighted_K > 0
    source_K, target_K = (number_of_older[part[kept]] for part in (older.keys_K >> 32, older.keys_K & 0xFFFFFFFF))
    links = Counts((source_K << 32) + target_K, weighted_K[kept])
    stem_of_word_W = vocabulary.stem_of_word_W
    stem_links = added_up((stem_of_word_W[source_K] << 32) + stem_of_word_W[target_K], links.counts_K)

    # The model has smoothed weights and distributions; what smoothing added is taken off.
    smoothing, all_words_F = np.float32(model.config.fertility_smoothing), older.fertilities[:, -1:]
    occurrences_W1 = older_frequencies[:, :, None].astype(np.float32)  # each has counted once
    counts_WF = older.fertilities[:, :-1] * (occurrences_W1 + smoothing) - smoothing * all_words_F
    fertilities_WF = np.zeros((2, W, counts_WF.shape[-1]), np.float32)
    fertilities_WF[:, number_of_older] = np.maximum(counts_WF, np.float32(0.0)) * np.float32(weight)
    # Two decimals: training rounds its sums to as many, and the prior must not put them halfway between.
    jumps = np.round(np.maximum(older.jump_weights - model.config.jump_smoothing, 0.0) * weight, 2)
    return Prior(frequencies[0], frequencies[1], links, stem_links, jumps, fertilities_WF)
