"""Computes translation probabilities from expected counts: leave-one-out, with back-off to stems, spelling, frequency.

Shapes are those of `batches`. Tables by word have W + 1 rows and tables by stem S + 1, the last for unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.reference.batches import Batch, Ints, key, key_parts
from pipelines.aligner.words import Vocabulary

Floats = NDArray[np.float64]

ONE = 65535
"""Expected counts are whole numbers, in units of 1 / ONE: their sums are exact, so the order of the corpus, the size of
batches and the last bit of a processor's arithmetic leave no trace in them, and the count of one cell fits 16 bits."""

LEAST = 33
"""Once both directions agree, a cell that would add less (0.0005) adds nothing: most would, and tables stay small."""


class PairCounts(NamedTuple):
    """A sparse table: how often source word (or stem) and target word (or stem) are linked. Keys ascend."""

    keys_K: Ints
    counts_K: Ints  # in units of 1 / ONE

    @staticmethod
    def added_up(parts: Iterable[PairCounts]) -> PairCounts:
        keys, counts = zip(*parts, strict=True)
        keys_K, part_of_K = np.unique(np.concatenate(keys), return_inverse=True)
        counts_K = np.bincount(part_of_K.ravel(), np.concatenate(counts), minlength=len(keys_K))
        return PairCounts(keys_K, counts_K.astype(np.int64))

    def of(self, source_N: Ints, target_N: Ints) -> Floats:
        """Returns counts in units of 1; 0 for pairs that are not in the table."""
        if not len(self.keys_K):
            return np.zeros(len(source_N))
        keys_N = key(source_N, target_N)
        entry_N = np.minimum(np.searchsorted(self.keys_K, keys_N), len(self.keys_K) - 1)
        return np.where(self.keys_K[entry_N] == keys_N, self.counts_K[entry_N], 0) / ONE


class _Side(NamedTuple):
    """The totals of one language's words and stems."""

    frequency_W: Floats
    stem_frequency_S: Floats
    links_W: Floats  # sum of the expected counts of the word's links
    stem_links_S: Floats


class Lexicon:
    """Expected counts of word pairs, which give the probabilities p(target | source) and p(source | target)."""

    def __init__(
        self, vocabulary: Vocabulary, source_frequency_W: Ints, target_frequency_W: Ints, counts: PairCounts
    ) -> None:
        self.vocabulary, self.counts = vocabulary, counts
        self.source_frequency_W, self.target_frequency_W = source_frequency_W, target_frequency_W

    @cached_property
    def stem_counts(self) -> PairCounts:
        source_K, target_K = key_parts(self.counts.keys_K)
        stem_of_W = self.vocabulary.stem_of_word_W
        return PairCounts.added_up([PairCounts(key(stem_of_W[source_K], stem_of_W[target_K]), self.counts.counts_K)])

    @cached_property
    def sides(self) -> tuple[_Side, _Side]:
        """Returns the totals of the source and of the target language."""
        W, S = len(self.vocabulary.words), len(self.vocabulary.stems)
        sides = []
        for frequency_W, word_K, stem_K in zip(
            (self.source_frequency_W, self.target_frequency_W),
            key_parts(self.counts.keys_K),
            key_parts(self.stem_counts.keys_K),
            strict=True,
        ):
            sides.append(
                _Side(
                    np.append(frequency_W, 0).astype(np.float64),
                    np.bincount(self.vocabulary.stem_of_word_W, frequency_W, minlength=S + 1).astype(np.float64),
                    np.bincount(word_K, self.counts.counts_K, minlength=W + 1) / ONE,
                    np.bincount(stem_K, self.stem_counts.counts_K, minlength=S + 1) / ONE,
                )
            )
        return sides[0], sides[1]

    def empty_probabilities(self, batch: Batch) -> tuple[Floats, Floats]:
        """Returns p(target word | no source word) (J, B) and p(source word | no target word) (I, B): frequencies."""
        source, target = (_share(side.frequency_W) for side in self.sides)
        return _at(target, batch.target_JB), _at(source, batch.source_IB)

    def probabilities(
        self,
        batch: Batch,
        stem_of_word: Ints,
        own_IJB: Floats | float,
        config: AlignerConfig,
        *,
        stems_only: bool = False,
    ) -> tuple[Floats, Floats]:
        """Returns p(target word | source word) and p(source word | target word), both (I, J, B), 0 on padding.

        `own_IJB` is what the cell itself adds to the counts. It is left out; otherwise a word seen once would always
        confirm its first estimate. `stem_of_word` is that of `Vocabulary.encode`.
        """
        count_N = self.counts.of(batch.source_N, batch.target_N)
        source_stem_N, target_stem_N = stem_of_word[batch.source_N], stem_of_word[batch.target_N]
        stem_count_N = self.stem_counts.of(source_stem_N, target_stem_N)
        same_word_N, same_stem_N = batch.source_N == batch.target_N, source_stem_N == target_stem_N

        def directed(
            given: _Side, given_N: Ints, given_stem_N: Ints, emitted: _Side, emitted_N: Ints, emitted_stem_N: Ints
        ) -> Floats:
            stem_prior_N = _mix(_at(_share(emitted.stem_frequency_S), emitted_stem_N), same_stem_N, config.identical)
            stem_total_N = _at(given.stem_links_S, given_stem_N)
            word_given_stem_N = (_at(emitted.frequency_W, emitted_N) + 0.5) / (
                _at(emitted.stem_frequency_S, emitted_stem_N) + 1.0
            )
            of_cell = batch.pair_IJB
            by_stem_IJB = word_given_stem_N[of_cell] * _leave_one_out(
                stem_count_N[of_cell], stem_total_N[of_cell], own_IJB, stem_prior_N[of_cell], config.backoff
            )
            if stems_only:
                return by_stem_IJB * batch.is_cell_IJB
            prior_IJB = _mix(by_stem_IJB, same_word_N[of_cell], config.identical)
            total_IJB = _at(given.links_W, given_N)[of_cell]
            return batch.is_cell_IJB * _leave_one_out(count_N[of_cell], total_IJB, own_IJB, prior_IJB, config.backoff)

        source = (self.sides[0], batch.source_N, source_stem_N)
        target = (self.sides[1], batch.target_N, target_stem_N)
        return directed(*source, *target), directed(*target, *source)


def _leave_one_out(count: Floats, total: Floats, own: Floats | float, prior: Floats, backoff: float) -> Floats:
    """Returns (c - q + κB) / (c_e - q + κ): `prior` B counts as much as `backoff` κ occurrences."""
    return (count - own + backoff * prior) / (total - own + backoff)


def _mix(prior: Floats, is_same: NDArray[np.bool_], share: float) -> Floats:
    return (1.0 - share) * prior + share * is_same


def _share(frequency: Floats) -> Floats:
    """Returns relative frequencies, after half an occurrence is added to each word, also the unknown one."""
    return np.asarray((frequency + 0.5) / (frequency.sum() + 0.5 * len(frequency)))


def _at(table: Floats, numbers: Ints) -> Floats:
    """Returns the table's rows for these words or stems, the last row for unknown ones."""
    return table[np.minimum(numbers, len(table) - 1)]
