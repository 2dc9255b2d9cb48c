"""Trains the aligner: expectation-maximisation in both directions, which agree on the counts (Liang et al. 2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from pipelines.aligner import _native
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.estimates import smoothed_fertilities, smoothed_jumps
from pipelines.aligner.model import AlignmentModel, native_settings
from pipelines.aligner.numbered import NumberedPairs
from pipelines.aligner.prior import Counts, prior_of


def train(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]] | NumberedPairs,
    config: AlignerConfig,
    progress: Callable[[str], None] | None = None,
    *,
    prior: AlignmentModel | None = None,
    threads: int = 1,
) -> AlignmentModel:
    """Trains a model on sentence pairs, given as words. Their order, the machine and `threads` do not change a byte.

    With an older model as `prior`, the new model also has its words, and its counts times `prior_weight` are added to
    those of `pairs`, which the older model must not have been trained on. So a model can adapt to the text that it
    aligns: `train(pairs, model.config, prior=model).align_batch(pairs)` makes fewer errors than
    `model.align_batch(pairs)` if the text has words that the model does not know.

    `pairs` is read once and stored with four bytes a word; a `NumberedPairs` is empty afterwards. Pairs that have an
    empty side, or more than `max_words` words on a side, are left out. A model trained on no pairs links by position.
    `progress` receives a line of text after every pass.
    """
    if not isinstance(pairs, NumberedPairs):
        pairs = NumberedPairs(pairs)
    corpus, parameters = pairs.take(config.max_words, prior.tables.vocabulary.words if prior else ())
    words = int(parameters.source_frequency_W.sum()), int(parameters.target_frequency_W.sum())
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
        # Estimates are poor before the last initial pass, and later passes never undo an agreement.
        agree = number >= config.initial_passes - 1
        # The first pass adds to nearly every cell: computing the counts again is cheaper than keeping them.
        keep = agree or number > 0
        tables = parameters.tables(by_stem=is_initial)
        parameters = parameters.without_counts()  # the tables hold them now: this bounds the memory
        keys_K, counts_K, jump_counts, fertility_counts, log_likelihood = corpus.expect(
            tables, settings, hmm=not is_initial, agree=agree, keep=keep, before=first_tables, threads=threads
        )
        first_tables = None if keep else tables
        del tables
        if progress:
            links = int(counts_K.sum()) / _native.ONE
            progress(pass_line(number, passes, is_initial, log_likelihood, links, *words))
        keys_K, counts_K = Counts(keys_K, counts_K).plus(older.links if agree else older.stem_links)
        if not is_initial:
            jump_weights = smoothed_jumps(jump_counts + older.jumps, config.jump_smoothing)
            fertilities = [
                smoothed_fertilities(counts_WF / _native.ONE + older_WF, config.fertility_smoothing)
                for counts_WF, older_WF in zip(fertility_counts, older.fertilities_WF, strict=True)
            ]
            parameters = replace(parameters, jump_weights=jump_weights, fertilities=np.stack(fertilities))
        parameters = replace(parameters, keys_K=keys_K, counts_K=counts_K)
        del keys_K, counts_K, fertility_counts
    return parameters.model(config)


def pass_line(
    number: int,
    passes: int,
    is_initial: bool,
    log_likelihood: float,
    links: float,
    source_words: int,
    target_words: int,
) -> str:
    """Formats the progress line of one EM pass: per-word log-likelihood (nats) and expected links per source word.

    The log-likelihood is that of both sides given each other under the model before the pass, each word left out of
    the counts that predict it.

    >>> pass_line(2, 6, False, -1000.0, 50.0, 100, 110)
    'pass 3 of 6 (HMM): log-likelihood -4.7619 a word, 0.500 links a source word'
    """
    return (
        f"pass {number + 1} of {passes} ({'Model 2' if is_initial else 'HMM'}): log-likelihood "
        f"{log_likelihood / max(1, source_words + target_words):.4f} a word, "
        f"{links / max(1, source_words):.3f} links a source word"
    )
