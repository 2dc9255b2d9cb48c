"""Normalises and numbers the aligner's words. Only here are words normalised; texts are never changed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner import _native

STEM_CHARS = 4
_UNWRITTEN = dict.fromkeys([0x0640, 0x0670, *range(0x064B, 0x0653)])  # Arabic tatweel and vowel signs


@lru_cache(maxsize=1 << 18)
def normalise(word: str) -> str:
    """Returns the word in NFKC, case folded, without Arabic vowel signs, with decimal digits in ASCII.

    >>> normalise("Straße"), normalise("१२"), normalise("كِتَاب")
    ('strasse', '12', 'كتاب')
    """
    folded = unicodedata.normalize("NFKC", word).casefold().translate(_UNWRITTEN)
    if not folded.isascii():
        folded = "".join(str(unicodedata.decimal(char, char)) for char in folded)
    return folded or word


def stem(normalised_word: str) -> str:
    """Returns the first four code points: crude, but language-independent, and enough to pool most inflected forms."""
    return normalised_word[:STEM_CHARS]


class Vocabulary:
    """Numbers the normalised words of both languages together, in code point order, so equal words have equal numbers.

    W words have the numbers 0..W-1 and S stems 0..S-1. Unknown words and stems get numbers from W and S on, which are
    valid for one call of `encode`; tables by word or stem have one last row for all unknown ones.

    `arrays` are those of a model's file: the concatenated words in UTF-8, which sorts as code points do; the offset of
    each word, and the end of the last one (W + 1); the stem number of each word (W).
    """

    def __init__(self, words: Iterable[str]) -> None:
        encoded, ends, stem_numbers = [], [0], []
        last, number = None, -1
        for word in sorted(set(words)):
            encoded.append(_utf8(word))
            ends.append(ends[-1] + len(encoded[-1]))
            if stem(word) != last:
                last, number = stem(word), number + 1
            stem_numbers.append(number)
        text = np.frombuffer(b"".join(encoded), np.uint8)
        self._hold(text, np.array(ends, np.int64), np.array(stem_numbers, np.int32))

    @classmethod
    def of_arrays(
        cls, text: NDArray[np.uint8], offsets: NDArray[np.int64], stem_of_word: NDArray[np.int32]
    ) -> Vocabulary:
        """Makes a vocabulary of its three arrays. Raises `ValueError` if they do not fit together."""
        made = cls.__new__(cls)
        made._hold(text, offsets, stem_of_word)
        try:
            text.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError("expected words in UTF-8") from None
        starts = offsets[:-1][offsets[:-1] < len(text)]
        if (text[starts] & 0xC0 == 0x80).any():
            raise ValueError("expected words of whole characters")
        return made

    def _hold(self, *arrays: NDArray[Any]) -> None:
        self.arrays = text, offsets, self.stem_of_word = arrays
        self._native = _native.Words(*arrays)
        self.words = _Words(text, offsets)
        self.stems = range(self._native.stems)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary.of_arrays, self.arrays

    @property
    def stem_of_word_W(self) -> NDArray[np.int64]:
        """The stem number of every word, in 64 bits, to make keys of."""
        return self.stem_of_word.astype(np.int64)

    def number(self, normalised_word: str) -> int | None:
        found = self._native.find(_utf8(normalised_word))
        return None if found < 0 else found

    def stem_number(self, prefix: str) -> int | None:
        # Words of one stem are adjacent; a word of fewer characters is a stem of its own.
        found = self._native.find(_utf8(prefix), prefix=len(prefix) == STEM_CHARS)
        return None if found < 0 else int(self.stem_of_word[found])

    def encode(self, sentences: Iterable[Sequence[str]]) -> tuple[list[list[int]], NDArray[np.int64]]:
        """Returns the numbers of each sentence's words, and the stem number of every word number, also of new ones."""
        encoder = Encoder(self)
        numbers = [[*map(encoder.__getitem__, sentence)] for sentence in sentences]
        return numbers, encoder.stem_of_word().astype(np.int64)


class _Words(Sequence[str]):
    """The words of a vocabulary, decoded on access."""

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._text, self._offsets = text, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[str]:
        text = self._text.tobytes()
        for start, end in pairwise(self._offsets.tolist()):
            yield text[start:end].decode("utf-8", "surrogatepass")

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        start, end = self._offsets[number : number + 2]
        return self._text[start:end].tobytes().decode("utf-8", "surrogatepass")


def _utf8(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


class Encoder(dict[str, int]):
    """Maps words as written to numbers, for one batch of sentences. Each spelling is normalised only once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.new_words: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        normalised = normalise(word)
        number = self.vocabulary.number(normalised)
        if number is None:
            number = len(self.vocabulary.words) + self.new_words.setdefault(normalised, len(self.new_words))
        self[word] = number
        return number

    def stem_of_word(self) -> NDArray[np.int32]:
        """Returns the stem number of every word number, also of new ones."""
        new_stems: dict[str, int] = {}
        stem_of_new = []
        for prefix in map(stem, self.new_words):
            number = self.vocabulary.stem_number(prefix)
            if number is None:
                number = len(self.vocabulary.stems) + new_stems.setdefault(prefix, len(new_stems))
            stem_of_new.append(number)
        if not stem_of_new:
            return self.vocabulary.stem_of_word
        return np.append(self.vocabulary.stem_of_word, np.array(stem_of_new, np.int32))
