"""Training: expectation-maximisation in both directions at once, which agree on the counts (Liang et al. 2006)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from pipelines.aligner import _native
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.estimates import smoothed_fertilities, smoothed_jumps
from pipelines.aligner.model import AlignmentModel, Parameters, native_settings
from pipelines.aligner.prior import Counts, prior_of
from pipelines.aligner.words import Encoder, Vocabulary


def train(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
    config: AlignerConfig,
    progress: Callable[[str], None] | None = None,
    *,
    prior: AlignmentModel | None = None,
    threads: int = 1,
) -> AlignmentModel:
    """Learns from sentence pairs, given as words. Neither their order nor the machine nor `threads` changes a byte of
    the model.

    With an older model as `prior`, the new one has its words too, and its counts, times `prior_weight`, added to those
    of `pairs`, which should not be what it learnt from. This is also how a model adapts to text that it is to align:
    `train(pairs, model.config, prior=model).align_batch(pairs)` makes fewer errors than `model.align_batch(pairs)`
    where the text has words that the model does not know.

    `pairs` is read once, and kept as four bytes a word. Pairs with an empty side, or with more than `max_words` words
    on one, are left out. A model of no pairs links by position. `progress` is called with a line of text after every
    pass.
    """
    corpus, parameters = _numbered(pairs, config.max_words, prior.parameters.vocabulary.words if prior else ())
    older = prior_of(prior, parameters.vocabulary, config.prior_weight)
    parameters = replace(
        parameters,
        source_frequency_W=parameters.source_frequency_W + older.source_frequency_W,
        target_frequency_W=parameters.target_frequency_W + older.target_frequency_W,
        keys_K=older.stem_links.keys_K,
        counts_K=older.stem_links.counts_K,
    )
    settings = native_settings(config)
    first_tables = None
    passes = config.initial_passes + config.hmm_passes
    for number in range(passes):
        is_initial = number < config.initial_passes
        # Until the last initial pass little is known, and agreeing on it early is never undone.
        agree = number >= config.initial_passes - 1
        # The first pass would have a count of nearly every cell to keep: to find them again takes less.
        keep = agree or number > 0
        tables = parameters.tables(by_stem=is_initial)
        parameters = parameters.without_counts()  # the tables hold them now: this bounds the memory
        keys_K, counts_K, jump_counts, fertility_counts = corpus.expect(
            tables, settings, hmm=not is_initial, agree=agree, keep=keep, before=first_tables, threads=threads
        )
        first_tables = None if keep else tables
        del tables
        keys_K, counts_K = Counts(keys_K, counts_K).plus(older.links if agree else older.stem_links)
        if progress:
            links = int(counts_K.sum()) / _native.ONE / max(1, int(parameters.source_frequency_W.sum()))
            progress(f"pass {number + 1} of {passes} ({'Model 2' if is_initial else 'HMM'}): {links:.3f} links a word")
        if not is_initial:
            jump_weights = smoothed_jumps(jump_counts + older.jumps, config.jump_smoothing)
            fertilities = [
                smoothed_fertilities(counts_WF / _native.ONE + older_WF, config.fertility_smoothing)
                for counts_WF, older_WF in zip(fertility_counts, older.fertilities_WF, strict=True)
            ]
            parameters = replace(parameters, jump_weights=jump_weights, fertilities=np.stack(fertilities))
        parameters = replace(parameters, keys_K=keys_K, counts_K=counts_K)
        del keys_K, counts_K, fertility_counts
    return AlignmentModel(parameters, config)


def _numbered(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]], max_words: int, known_words: Sequence[str]
) -> tuple[_native.Corpus, Parameters]:
    """The corpus as numbers, and parameters that have its words and the known ones, its frequencies, and no more."""
    encoder = Encoder(Vocabulary([]))  # numbers words in the order of their appearance
    words, offsets = (array("i"), array("i")), (array("q", [0]), array("q", [0]))
    for pair in pairs:
        if min(map(len, pair)) > 0 and max(map(len, pair)) <= max_words:
            for side in range(2):
                words[side].extend(map(encoder.__getitem__, pair[side]))
                offsets[side].append(len(words[side]))
    vocabulary = Vocabulary([*known_words, *encoder.new_words])
    number_of_new = np.array([vocabulary.number(word) for word in encoder.new_words], np.int32)
    del encoder
    source_words, target_words = (number_of_new[np.frombuffer(side, np.int32)] for side in words)
    corpus = _native.Corpus(
        source_words=source_words,
        source_offsets=np.frombuffer(offsets[0], np.int64),
        target_words=target_words,
        target_offsets=np.frombuffer(offsets[1], np.int64),
        stem_of_word=vocabulary.stem_of_word_W.astype(np.int32),
    )
    source_frequency_W, target_frequency_W = (
        np.bincount(side, minlength=len(vocabulary.words)) for side in (source_words, target_words)
    )
    return corpus, Parameters(vocabulary, source_frequency_W, target_frequency_W)
