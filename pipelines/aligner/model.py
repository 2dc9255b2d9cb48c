"""A trained word aligner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner import _native, model_file
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.words import Encoder, Vocabulary
from pipelines.steps.records import InputError, Link

Words = Sequence[str]
Ints = NDArray[np.int64]


NO_COUNTS = np.zeros(0, np.int64)
SAME_JUMPS = np.ones((2, 2 * _native.MAX_JUMP + 1))
NO_FERTILITIES = np.zeros((2, 0, _native.F), np.float32)


@dataclass(frozen=True, eq=False)
class Parameters:
    """What training estimates: W words, K pairs of words that are ever linked.

    The first of two is for target words given source words, the second the reverse.
    """

    vocabulary: Vocabulary
    source_frequency_W: Ints
    target_frequency_W: Ints
    keys_K: Ints = field(default_factory=lambda: NO_COUNTS)  # (source << 32) + target, ascending
    counts_K: Ints = field(default_factory=lambda: NO_COUNTS)  # in units of 1 / ONE
    jump_weights: NDArray[np.float64] = field(default_factory=lambda: SAME_JUMPS)  # (2, 2 * MAX_JUMP + 1)
    fertilities: NDArray[np.float32] = field(default_factory=lambda: NO_FERTILITIES)  # (2, W + 1, F), or none yet

    def tables(self, *, by_stem: bool = False) -> _native.Model:
        """These parameters as the compiled part looks them up. `ValueError` if they do not fit together."""
        return _native.Model(
            stem_of_word=self.vocabulary.stem_of_word_W,
            stems=len(self.vocabulary.stems),
            source_frequency=self.source_frequency_W,
            target_frequency=self.target_frequency_W,
            keys=self.keys_K,
            counts=self.counts_K,
            by_stem=by_stem,
            jumps=self.jump_weights,
            fertilities=self.fertilities if self.fertilities.size else None,
        )

    def without_counts(self) -> Parameters:
        return replace(self, keys_K=NO_COUNTS, counts_K=NO_COUNTS)

    @cached_property
    def word_tables(self) -> _native.Model:
        return self.tables()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "word_tables"}  # made again


def native_settings(config: AlignerConfig) -> _native.Settings:
    return _native.Settings(
        diagonal_tension=config.diagonal_tension,
        empty_probability=config.empty_probability,
        backoff=config.backoff,
        identical=config.identical,
    )


@dataclass(frozen=True)
class AlignmentModel:
    """Links the words of a sentence pair. The same model gives the same links in any batch, on any machine.

    >>> model = train(pairs, AlignerConfig())
    >>> model.align(["Anna", "lives", "in", "Hanoi"], ["Anna", "sống", "ở", "Hà", "Nội"])
    [Link(source=0, target=0, score=0.98), …]
    """

    parameters: Parameters
    config: AlignerConfig

    def align(self, source_words: Words, target_words: Words) -> list[Link]:
        """The links, by source and target word; none for an empty side, or for one of more than `max_words`."""
        return self.align_batch([(source_words, target_words)])[0]

    def align_batch(self, pairs: Sequence[tuple[Words, Words]], *, threads: int = 1) -> list[list[Link]]:
        """`align` of each pair, faster: give it a thousand or more at once."""
        found = self.parameters.word_tables.align(
            self._encoded(pairs),
            native_settings(self.config),
            min_score=self.config.min_score,
            max_words=self.config.max_words,
            threads=threads,
        )
        return _link_lists(*found)

    def directed_links(
        self, pairs: Sequence[tuple[Words, Words]], *, threads: int = 1
    ) -> list[tuple[list[Link], list[Link]]]:
        """Of each pair the links of target words, then of source words, each to its most probable partner.

        A word has the first of several such partners, and none unless that is more probable than to have none. Scores
        and the pairs without links are those of `align`. Links are by the word whose partner they give.
        """
        found = self.parameters.word_tables.align_directed(
            self._encoded(pairs), native_settings(self.config), max_words=self.config.max_words, threads=threads
        )
        lists = _link_lists(*found)
        return list(zip(lists[::2], lists[1::2], strict=True))

    def _encoded(self, pairs: Sequence[tuple[Words, Words]]) -> _native.Corpus:
        encoder = Encoder(self.parameters.vocabulary)
        numbers, offsets = [], []
        for side in range(2):
            words = [pair[side] for pair in pairs]
            numbers.append(np.fromiter(map(encoder.__getitem__, chain.from_iterable(words)), np.int32))
            offsets.append(np.cumsum([0, *map(len, words)], dtype=np.int64))
        return _native.Corpus(
            source_words=numbers[0],
            source_offsets=offsets[0],
            target_words=numbers[1],
            target_offsets=offsets[1],
            stem_of_word=encoder.stem_of_word().astype(np.int32),
        )

    def save(self, file: str | BinaryIO) -> None:
        """Writes to a path or a binary file object. The same model always gives the same bytes."""
        if isinstance(file, str):
            with open(file, "wb") as stream:
                self.save(stream)
        else:
            model_file.write(file, self._arrays(), self._settings())

    @classmethod
    def load(cls, file: str | BinaryIO) -> AlignmentModel:
        """Reads what `save` wrote, with the configuration of then. `InputError` if that is not what the file holds."""
        if isinstance(file, str):
            try:
                with open(file, "rb") as stream:
                    return cls.load(stream)
            except OSError as error:
                raise InputError(f"{file}: the aligner's model cannot be read: {error.strerror}.") from None
        arrays, settings = model_file.read(file, _ARRAY_TYPES)
        words = json.loads(arrays["words"].tobytes().decode("utf-8", "surrogatepass"))
        parameters = Parameters(
            Vocabulary(words),
            arrays["source_frequency"],
            arrays["target_frequency"],
            arrays["pairs"],
            arrays["counts"],
            arrays["jumps"],
            arrays["fertilities"],
        )
        try:
            _ = parameters.word_tables  # kept
        except ValueError as error:
            where = getattr(file, "name", "the aligner's model")
            raise InputError(f"{where}: the aligner's model contradicts itself: {error}. Train it again.") from None
        return cls(parameters, AlignerConfig(**settings))

    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that change with anything that decides a link."""
        return model_file.checksum(self._arrays(), self._settings())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        learnt = self.parameters
        words = json.dumps(learnt.vocabulary.words, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return {
            "words": np.frombuffer(words, np.uint8),
            "source_frequency": learnt.source_frequency_W,
            "target_frequency": learnt.target_frequency_W,
            "pairs": learnt.keys_K,
            "counts": learnt.counts_K,
            "jumps": learnt.jump_weights,
            "fertilities": learnt.fertilities,
        }

    def _settings(self) -> dict[str, Any]:
        return asdict(replace(self.config, model=""))


def _link_lists(
    counts: Ints, source: NDArray[np.int32], target: NDArray[np.int32], scores: NDArray[np.float64]
) -> list[list[Link]]:
    links = list(map(Link, source.tolist(), target.tolist(), scores.tolist()))
    ends = np.cumsum(counts).tolist()
    return [links[end - count : end] for count, end in zip(counts.tolist(), ends, strict=True)]


_ARRAY_TYPES = {
    "words": "|u1",
    "source_frequency": "<i8",
    "target_frequency": "<i8",
    "pairs": "<i8",
    "counts": "<i8",
    "jumps": "<f8",
    "fertilities": "<f4",
}
