"""Links the words of lines, block by block, and writes the links."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

from pipelines.align.config import LinksConfig
from pipelines.align.inputs import BadLine, Texts, Tokenize, Words
from pipelines.align.outputs import open_output
from pipelines.align.pharaoh import format_links
from pipelines.align.progress import PROGRESS_S, rate, seconds_since
from pipelines.aligner import AlignmentModel
from pipelines.aligner.links import Link
from pipelines.aligner.symmetrize import align_symmetrized
from schemas.errors import ConfigError, InputError

BLOCK_PAIRS = 2000  # aligned at once: bounds the memory, and is enough for full speed

WordPair = tuple[Words, Words]

logger = logging.getLogger(__name__)


def write_links(
    texts: Texts, model: AlignmentModel, tokenizers: tuple[Tokenize, Tokenize], config: LinksConfig
) -> None:
    """Writes a line of links for each line of text, block by block, and logs the number of lines and the speed."""
    bad: Counter[str] = Counter()
    with closing(texts), open_output(config.output) as stream:
        started = logged = time.monotonic()
        lines = 0
        while block := list(islice(texts, BLOCK_PAIRS)):
            stream.writelines(line.encode() + b"\n" for line in align_block(block, model, tokenizers, config, bad))
            lines += len(block)
            if time.monotonic() - logged > PROGRESS_S:
                logged = time.monotonic()
                logger.info("[%5.0f s] %s", logged - started, rate(lines, logged - started))
        stream.flush()
    logger.info("Aligned %s", rate(lines, seconds_since(started)))
    if bad:
        counts = ", ".join(f"{reason} {number:,}" for reason, number in sorted(bad.items()))
        logger.info("Lines that got no link because they are unfit: %s", counts)


def align_block(
    block: Sequence[tuple[str, str] | BadLine],
    model: AlignmentModel,
    tokenizers: tuple[Tokenize, Tokenize],
    config: LinksConfig,
    bad: Counter[str],
) -> Iterator[str]:
    """Yields the line to write for each line of a block. `bad` counts the lines that cannot be linked, by reason."""
    pairs: list[WordPair] = []
    for texts in block:
        words: WordPair = ([], [])
        if isinstance(texts, BadLine):
            bad[texts.reason] += 1
        else:
            words = tokenizers[0](texts[0]), tokenizers[1](texts[1])
            bad.update(["too_long"] * (max(map(len, words)) > model.config.max_words))
        pairs.append(words)
    threads = number_of_threads(config.threads)
    links: list[list[Link]]
    try:
        if config.symmetrize == "posterior":
            links = model.align_batch(pairs, threads=threads)
        else:
            links = align_symmetrized(model, pairs, config.symmetrize, threads=threads)
    except MemoryError:
        longest = max(max(map(len, words)) for words in pairs)
        raise InputError(
            f"Too little memory to link lines of up to {longest:,} words with {threads} threads. Try --threads 1, or a "
            "model of fewer --aligner.max-words."
        ) from None
    for (source, target), pair_links in zip(pairs, links, strict=True):
        text = format_links(pair_links, config.scores)
        yield f"{' '.join(source)} ||| {' '.join(target)} ||| {text}".rstrip(" ") if config.words else text


def number_of_threads(wanted: int) -> int:
    if wanted < 0:
        raise ConfigError(f"--threads {wanted}: expected 1 or more, or 0 for as many as there are cores.")
    return wanted or os.cpu_count() or 1
