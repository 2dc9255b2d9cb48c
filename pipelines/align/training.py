"""Trains the aligner: on the sentence pairs that the CLISM job would train on, or on the lines to be linked."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from pipelines.align.config import AlignApplyConfig, AlignTrainConfig
from pipelines.align.inputs import BadLine, LinesFile, Tokenize, read_texts, tokenizers_of
from pipelines.align.progress import PROGRESS_S, log_since, seconds_since
from pipelines.aligner import AlignmentModel, NumberedPairs
from pipelines.aligner import train as train_model
from pipelines.aligner.text import TrainingText
from pipelines.steps.bitext.filters import SeenTexts, filter_pair, text_digest
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import read_bitext
from pipelines.steps.common.hash_sample import sample_by_hash
from pipelines.steps.common.sentence_pairs import SentencePair
from schemas.errors import InputError
from schemas.rejects import Reject

logger = logging.getLogger(__name__)


def trained_model(
    text: TrainingText,
    files: Sequence[BitextFile | LinesFile],
    config: AlignTrainConfig,
    threads: int,
    prior: AlignmentModel | None,
) -> tuple[AlignmentModel, int, float]:
    """Returns the model of one language pair, the number of sentence pairs that trained it, and the seconds it took."""
    pair = text.pair
    rejects: Counter[str] = Counter()
    corpus = training_corpus(files, tokenizers_of(text), config, rejects)
    size = len(corpus)
    refused = ", ".join(f"{reason} {number:,}" for reason, number in sorted(rejects.items())) or "none"
    if not size:
        raise InputError(
            f"{pair}: no sentence pair of {', '.join(file.corpus for file in files)} is left to train on. "
            f"Refused: {refused}."
        )
    logger.info("%s: training on %s sentence pairs (refused: %s)", pair, f"{size:,}", refused)
    started = time.monotonic()
    model = train_model(corpus, config.aligner, log_since(started), prior=prior, threads=threads)
    return replace(model, text=text), size, seconds_since(started)


def training_corpus(
    files: Iterable[BitextFile | LinesFile],
    tokenizers: tuple[Tokenize, Tokenize],
    config: AlignTrainConfig,
    rejects: Counter[str],
) -> NumberedPairs:
    """Collects the words of the sentence pairs that the CLISM job would train on; `rejects` counts the refused ones.

    Most pairs of a corpus that is larger than `training_pairs` are neither filtered nor counted. Memory: four bytes a
    word of the sample, and if duplicates are dropped at most eighteen bytes for every sentence pair read.
    """
    corpus = NumberedPairs()
    seen = SeenTexts()

    def records() -> Iterator[tuple[SentencePair, bool]]:
        """Yields each pair, and whether the same texts occurred earlier."""
        read, started = 0, time.monotonic()
        logged = started
        for file in files:
            for record in read_bitext(file) if isinstance(file, BitextFile) else file.records():
                read += 1
                if time.monotonic() - logged > PROGRESS_S:
                    logged = time.monotonic()
                    logger.info("[%5.0f s] read %s sentence pairs", logged - started, f"{read:,}")
                if isinstance(record, Reject):
                    rejects[record.reason] += 1
                    continue
                yield record, config.filters.drop_duplicates and not seen.add(text_digest(record))

    def add(item: tuple[SentencePair, bool]) -> bool:
        record, is_duplicate = item
        words = filter_pair(record, is_duplicate, tokenizers, config.filters)
        if isinstance(words, str):
            rejects[words] += 1
            return False
        corpus.append(*words)
        return True

    sample_by_hash(records(), config.aligner.training_pairs, config.seed, lambda item: item[0].id, add, corpus.keep)
    return corpus


def adapted(model: AlignmentModel, config: AlignApplyConfig, text: TrainingText, threads: int) -> AlignmentModel:
    """Trains the model further on a sample of the input, which is held in memory."""
    tokenizers = tokenizers_of(text)
    sample = NumberedPairs()

    def add(texts: tuple[str, str] | BadLine) -> bool:
        if isinstance(texts, BadLine):
            return False
        source, target = tokenizers[0](texts[0]), tokenizers[1](texts[1])
        lengths = len(source), len(target)
        if min(lengths) == 0 or max(lengths) > model.config.max_words:
            return False
        sample.append(source, target)
        return True

    with closing(read_texts(config, text.pair)) as lines:
        sample_by_hash(lines, model.config.training_pairs, 0, "\0".join, add, sample.keep)
    logger.info("Adapting to %s sentence pairs", f"{len(sample):,}")
    return train_model(sample, model.config, log_since(time.monotonic()), prior=model, threads=threads)
