"""The model of the built-in word aligner: parameters, look-up tables, links."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner import _native, model_file
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.links import Link
from pipelines.aligner.text import TrainingText
from pipelines.aligner.words import Encoder, Vocabulary
from schemas.errors import InputError
from schemas.runtime.new_file import replacing

Words = Sequence[str]
Ints = NDArray[np.int64]


NO_COUNTS = np.zeros(0, np.int64)
SAME_JUMPS = np.ones((2, 2 * _native.MAX_JUMP + 1))
NO_FERTILITIES = np.zeros((2, 0, _native.F), np.float32)


@dataclass(frozen=True, eq=False)
class Parameters:
    """What training estimates, for W words and the K pairs of words that are ever linked.

    Where an array has a first axis of 2, row 0 is for target words given source words, row 1 for the reverse.
    """

    vocabulary: Vocabulary
    source_frequency_W: Ints
    target_frequency_W: Ints
    keys_K: Ints = field(default_factory=lambda: NO_COUNTS)  # (source << 32) + target, ascending
    counts_K: Ints = field(default_factory=lambda: NO_COUNTS)  # in units of 1 / ONE
    jump_weights: NDArray[np.float64] = field(default_factory=lambda: SAME_JUMPS)  # (2, 2 * MAX_JUMP + 1)
    fertilities: NDArray[np.float32] = field(default_factory=lambda: NO_FERTILITIES)  # (2, W + 1, F), or none yet

    def tables(self, *, by_stem: bool = False) -> _native.Model:
        """Returns the tables that the compiled part reads. Raises `ValueError` if the arrays do not fit together."""
        fertilities = self.fertilities if self.fertilities.size else None
        return _native.Model(self._arrays(by_stem), jumps=self.jump_weights, fertilities=fertilities)

    def model(self, config: AlignerConfig) -> AlignmentModel:
        arrays = self._arrays(False) | {"jumps": self.jump_weights, "fertilities": self.fertilities}
        return AlignmentModel(Tables(self.vocabulary, arrays), config)

    def _arrays(self, by_stem: bool) -> dict[str, NDArray[Any]]:
        return _native.tables(
            stem_of_word=self.vocabulary.stem_of_word,
            stems=len(self.vocabulary.stems),
            source_frequency=self.source_frequency_W,
            target_frequency=self.target_frequency_W,
            keys=self.keys_K,
            counts=self.counts_K,
            by_stem=by_stem,
        )

    def without_counts(self) -> Parameters:
        return replace(self, keys_K=NO_COUNTS, counts_K=NO_COUNTS)


@dataclass(frozen=True, eq=False)
class Tables:
    """The look-up tables, as the file holds them. Inconsistent tables raise `ValueError` when they are first used."""

    vocabulary: Vocabulary
    arrays: Mapping[str, NDArray[Any]]  # of `_TABLE_TYPES`

    @cached_property
    def native(self) -> _native.Model:
        arrays = dict(self.arrays)
        native = _native.Model(arrays, jumps=arrays["jumps"], fertilities=arrays["fertilities"])
        if (native.words, native.stems) != (len(self.vocabulary.words), len(self.vocabulary.stems)):
            raise ValueError("expected tables of the vocabulary's own words")
        return native

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "native"}  # made again

    def parameters(self) -> Parameters:
        """Returns the parameters that these tables were made of."""
        arrays, words = self.arrays, len(self.vocabulary.words)
        buckets_W = np.diff(arrays["word_starts"])
        source_N = np.append(np.full(4, -1), np.repeat(np.arange(words), 4 * buckets_W))
        used_N = arrays["word_targets"] != _native.EMPTY
        keys_K = (source_N[used_N] << 32) + arrays["word_targets"][used_N].astype(np.int64)
        order_K = np.argsort(keys_K)
        counts_K = np.rint(np.minimum(arrays["word_counts"][used_N] * _native.ONE, 2.0**62)).astype(np.int64)
        return Parameters(
            self.vocabulary,
            arrays["source_word_frequency"][:-1].astype(np.int64),
            arrays["target_word_frequency"][:-1].astype(np.int64),
            keys_K[order_K],
            counts_K[order_K],
            arrays["jumps"],
            arrays["fertilities"],
        )


def native_settings(config: AlignerConfig) -> _native.Settings:
    return _native.Settings(
        diagonal_tension=config.diagonal_tension,
        empty_probability=config.empty_probability,
        backoff=config.backoff,
        identical=config.identical,
    )


@dataclass(frozen=True)
class AlignmentModel:
    """Links the words of sentence pairs. The same model gives the same links in any batch, on any machine."""

    tables: Tables
    config: AlignerConfig
    text: TrainingText | None = None
    """The text that the model was trained on, if that is known."""

    def align(self, source_words: Words, target_words: Words) -> list[Link]:
        """Returns the links, sorted by source and target word; none if a side is empty or has more than `max_words`."""
        return self.align_batch([(source_words, target_words)])[0]

    def align_batch(self, pairs: Sequence[tuple[Words, Words]], *, threads: int = 1) -> list[list[Link]]:
        """Returns the links of each pair. This is faster than `align`, best with a thousand pairs or more at once."""
        found = self.tables.native.align(
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
        """Returns per pair the links of its target words, then of its source words, to their most probable partner.

        Of equally probable partners a word gets the first. It gets none if having none is at least as probable. Scores
        are those of `align`, and so are the pairs without links. Links are sorted by the word whose partner they give.
        """
        found = self.tables.native.align_directed(
            self._encoded(pairs), native_settings(self.config), max_words=self.config.max_words, threads=threads
        )
        lists = _link_lists(*found)
        return list(zip(lists[::2], lists[1::2], strict=True))

    def _encoded(self, pairs: Sequence[tuple[Words, Words]]) -> _native.Corpus:
        encoder = Encoder(self.tables.vocabulary)
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
            stem_of_word=encoder.stem_of_word(),
        )

    def save(self, file: str | BinaryIO) -> None:
        """Writes to a path or a binary file object. The same model always gives the same bytes.

        An existing file is replaced, not overwritten, because another process may have it mapped into memory.
        """
        if isinstance(file, str):
            with replacing(file) as stream:
                self.save(stream)
        else:
            model_file.write(file, self._content())

    @classmethod
    def load(cls, file: str | IO[bytes], *, copy: bool | None = None, name: str = "") -> AlignmentModel:
        """Loads what `save` wrote, from a local path or a binary file object. Raises `InputError`, which calls a file
        object by `name`.

        With `copy=False`, a local file is mapped into memory, which all processes that load it share. A mapped file
        must only be replaced, as `save` and `mv` do. Overwriting it, as `cp` does, kills the processes that use it, so
        `copy=None` maps a file only if no other user owns it or may write to it.
        """
        if isinstance(file, str):
            where, data = file, model_file.read(file, copy)
        else:
            where, data = name or str(getattr(file, "name", "the aligner's model")), file.read()
        arrays, about = model_file.decode(data, where, _VOCABULARY_TYPES | _TABLE_TYPES)
        try:
            if about.keys() != {"config", "text"}:
                raise ValueError("expected its header to have arrays, config and text")
            config = AlignerConfig.from_json(about["config"])
            text = TrainingText.from_json(about["text"]) if about["text"] is not None else None
            vocabulary = Vocabulary.of_arrays(*(arrays[name] for name in _VOCABULARY_TYPES))
            tables = Tables(vocabulary, {name: arrays[name] for name in _TABLE_TYPES})
            _ = tables.native  # kept
        except ValueError as error:
            raise InputError(f"{where}: the aligner's model contradicts itself: {error}. Train it again.") from None
        return cls(tables, config, text)

    @property
    def parameters(self) -> Parameters:
        """The parameters that training estimated, computed from the tables at each access."""
        return self.tables.parameters()

    def fingerprint(self) -> str:
        """Returns the checksum on the second line of the model's file: thirty-two hexadecimal digits, which change with
        anything that decides a link or how words are found."""
        return model_file.checksum(self._content())

    def _content(self) -> model_file.Content:
        vocabulary = self.tables.vocabulary
        arrays = dict(zip(_VOCABULARY_TYPES, vocabulary.arrays, strict=True))
        arrays |= {name: self.tables.arrays[name] for name in _TABLE_TYPES}
        config = asdict(replace(self.config, model=""))
        return model_file.Content(arrays, {"config": config, "text": self.text.to_json() if self.text else None})


def _link_lists(
    counts: Ints, source: NDArray[np.int32], target: NDArray[np.int32], scores: NDArray[np.float64]
) -> list[list[Link]]:
    ends = np.cumsum(counts).tolist()
    with _no_garbage_search():
        links = list(map(Link, source.tolist(), target.tolist(), scores.tolist()))
        return [links[end - count : end] for count, end in zip(counts.tolist(), ends, strict=True)]


@contextmanager
def _no_garbage_search() -> Iterator[None]:
    """Disables the garbage collector while tens of thousands of links are made. It would search all objects of the
    process, which can take as long as the alignment itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_VOCABULARY_TYPES = {"words": "|u1", "word_offsets": "<i8", "stem_of_word": "<i4"}
_TABLE_TYPES = {
    "source_word_frequency": "<f8",  # (W + 1), and so on: one for each word (stem), and for those that are not known
    "source_stem_frequency": "<f8",
    "source_word_links": "<f8",
    "source_stem_links": "<f8",
    "target_word_frequency": "<f8",
    "target_stem_frequency": "<f8",
    "target_word_links": "<f8",
    "target_stem_links": "<f8",
    "word_starts": "<i8",  # a hash table for each source word: native/tables.hpp
    "word_targets": "<u4",
    "word_counts": "<f8",
    "stem_starts": "<i8",
    "stem_targets": "<u4",
    "stem_counts": "<f8",
    "jumps": "<f8",
    "fertilities": "<f4",
}
