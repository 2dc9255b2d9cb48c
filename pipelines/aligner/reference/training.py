"""Trains the aligner: expectation-maximisation in both directions, which agree on the counts (Liang et al. 2006)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.estimates import smoothed_fertilities, smoothed_jumps
from pipelines.aligner.model import AlignmentModel, Parameters
from pipelines.aligner.prior import Prior, prior_of
from pipelines.aligner.reference import model2
from pipelines.aligner.reference.alignment import Estimates, posteriors_both_ways
from pipelines.aligner.reference.batches import Batch, Ints, batch_positions, key, make_batch
from pipelines.aligner.reference.fertility import F, fertility_distribution
from pipelines.aligner.reference.hmm import MAX_JUMP, Posteriors
from pipelines.aligner.reference.lexicon import LEAST, ONE, Floats, Lexicon, PairCounts
from pipelines.aligner.training import pass_line
from pipelines.aligner.words import Vocabulary, normalise

LIKELIHOOD_UNIT = 1.0 / (1 << 20)
PENDING_COUNTS = 1 << 22
"""Number of word pairs whose counts are collected before they are added up. This bounds the memory."""


def train(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
    config: AlignerConfig,
    progress: Callable[[str], None] | None = None,
    *,
    prior: AlignmentModel | None = None,
) -> AlignmentModel:
    """Trains a model on sentence pairs, given as words, and an older model's counts. Neither the order of the pairs nor
    the machine changes a byte of the model.

    Pairs that have an empty side, or more than `max_words` words on a side, are left out. A model trained on no pairs
    links by position. `progress` receives a line of text after every pass.
    """
    corpus = sorted(
        (tuple(map(normalise, source)), tuple(map(normalise, target)))
        for source, target in pairs
        if min(len(source), len(target)) > 0 and max(len(source), len(target)) <= config.max_words
    )
    frequencies = [Counter(word for pair in corpus for word in pair[side]) for side in range(2)]
    vocabulary = Vocabulary([*frequencies[0], *frequencies[1], *(prior.tables.vocabulary.words if prior else ())])
    older = prior_of(prior, vocabulary, config.prior_weight)
    encoded, stem_of_word = vocabulary.encode([words for pair in corpus for words in pair])
    encoded_pairs = list(zip(encoded[::2], encoded[1::2], strict=True))
    groups = list(batch_positions([(len(source), len(target)) for source, target in corpus], config.max_words))

    uniform_jumps = np.ones(2 * MAX_JUMP + 1)
    frequency_W = [np.array([counter[word] for word in vocabulary.words], np.int64) for counter in frequencies]
    words = [int(frequency.sum()) for frequency in frequency_W]
    frequency_W = [frequency_W[0] + older.source_frequency_W, frequency_W[1] + older.target_frequency_W]
    parameters = Estimates(
        Lexicon(vocabulary, frequency_W[0], frequency_W[1], PairCounts(*older.links)),
        (uniform_jumps, uniform_jumps),
        None,
    )
    own: list[NDArray[np.uint16]] = [np.zeros((1, 1, 1), np.uint16)] * len(groups)  # what each cell adds to the counts
    passes = config.initial_passes + config.hmm_passes
    for number in range(passes):
        is_initial = number < config.initial_passes
        expected = _Expected(len(vocabulary.words), older)
        for index, positions in enumerate(groups):
            batch = make_batch(encoded_pairs, positions)
            own_IJB = own[index] / ONE
            if is_initial:
                both = _initial_posteriors(parameters, batch, stem_of_word, own_IJB, config)
            else:
                found = posteriors_both_ways(parameters, batch, stem_of_word, own_IJB, config)
                expected.add_ways(batch, *found)
                both = [(way.states_STB, way.log_likelihood_B) for way in found]
            (forward_IJB, _), (backward_JIB, _) = both
            backward_IJB = backward_JIB.swapaxes(0, 1)
            expected.log_likelihood += sum(int(np.rint(found_B / LIKELIHOOD_UNIT).sum()) for _, found_B in both)
            # Until the last initial pass little is known, and agreeing on it early is never undone.
            agree = number >= config.initial_passes - 1
            shared_IJB = forward_IJB * backward_IJB if agree else (forward_IJB + backward_IJB) / 2.0
            own[index] = np.rint(shared_IJB * ONE).astype(np.uint16)
            if agree:
                own[index][own[index] < LEAST] = 0
            expected.add_links(batch, own[index])
        parameters = expected.parameters(parameters, config, with_ways=not is_initial)
        if progress:
            links = int(parameters.lexicon.counts.counts_K.sum() - older.links.counts_K.sum()) / ONE
            log_likelihood = expected.log_likelihood * LIKELIHOOD_UNIT
            progress(pass_line(number, passes, is_initial, log_likelihood, links, *words))
    learnt = Parameters(
        vocabulary,
        frequency_W[0],
        frequency_W[1],
        parameters.lexicon.counts.keys_K,
        parameters.lexicon.counts.counts_K,
        np.stack(parameters.jump_weights),
        np.stack(parameters.fertilities or ()),
    )
    return learnt.model(config)


def _initial_posteriors(
    parameters: Estimates, batch: Batch, stem_of_word: Ints, own_IJB: Floats, config: AlignerConfig
) -> list[tuple[Floats, Floats]]:
    """Returns Model 2's posteriors (I, J, B) and log-likelihood (B), then those of the reverse, (J, I, B) and (B)."""
    forward_IJB, backward_IJB = parameters.lexicon.probabilities(batch, stem_of_word, own_IJB, config, stems_only=True)
    empty_JB, empty_IB = parameters.lexicon.empty_probabilities(batch)
    lengths = batch.source_lengths_B, batch.target_lengths_B
    settings = config.diagonal_tension, config.empty_probability
    return [
        model2.posteriors(forward_IJB, empty_JB, *lengths, *settings),
        model2.posteriors(backward_IJB.swapaxes(0, 1), empty_IB, *lengths[::-1], *settings),
    ]


class _Expected:
    """Returns the expected counts of one pass over the corpus, to be added to the older ones."""

    def __init__(self, words: int, older: Prior) -> None:
        self.older = older
        self.links = [PairCounts(*older.links)]
        self.jumps = [np.zeros(2 * MAX_JUMP + 1), np.zeros(2 * MAX_JUMP + 1)]
        self.log_likelihood = 0  # in units of LIKELIHOOD_UNIT
        self.fertilities_WF = [np.zeros((words, F)), np.zeros((words, F))]  # in units of 1 / ONE

    def add_links(self, batch: Batch, count_IJB: NDArray[np.uint16]) -> None:
        count_N = np.bincount(batch.pair_IJB.ravel(), count_IJB.ravel(), minlength=len(batch.source_N))
        kept = count_N > 0
        self.links.append(PairCounts(key(batch.source_N[kept], batch.target_N[kept]), count_N[kept].astype(np.int64)))
        if sum(len(part.keys_K) for part in self.links[1:]) > PENDING_COUNTS:
            self.links = [PairCounts.added_up(self.links)]

    def add_ways(self, batch: Batch, *both: Posteriors) -> None:
        for way, (directed, found) in enumerate(zip((batch, batch.reversed()), both, strict=True)):
            self.jumps[way] += found.jump_counts
            distribution_SBF = np.rint(fertility_distribution(found.states_STB) * ONE)
            is_word_SB = np.arange(len(directed.source_IB))[:, None] < directed.source_lengths_B
            np.add.at(self.fertilities_WF[way], directed.source_IB[is_word_SB], distribution_SBF[is_word_SB])

    def parameters(self, before: Estimates, config: AlignerConfig, *, with_ways: bool) -> Estimates:
        counts = PairCounts.added_up(self.links)
        lexicon = Lexicon(
            before.lexicon.vocabulary, before.lexicon.source_frequency_W, before.lexicon.target_frequency_W, counts
        )
        if not with_ways:
            return Estimates(lexicon, before.jump_weights, None)
        jumps = [
            smoothed_jumps(counts + more, config.jump_smoothing)
            for counts, more in zip(self.jumps, self.older.jumps, strict=True)
        ]
        fertilities = [
            smoothed_fertilities(counts_WF / ONE + more_WF, config.fertility_smoothing)
            for counts_WF, more_WF in zip(self.fertilities_WF, self.older.fertilities_WF, strict=True)
        ]
        return Estimates(lexicon, (jumps[0], jumps[1]), (fertilities[0], fertilities[1]))
