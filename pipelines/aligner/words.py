"""What the aligner takes for the same word. Words are normalised here only; the text itself is never touched."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

STEM_CHARS = 4
_UNWRITTEN = dict.fromkeys([0x0640, 0x0670, *range(0x064B, 0x0653)])  # Arabic tatweel and vowel signs


@lru_cache(maxsize=1 << 18)
def normalise(word: str) -> str:
    """NFKC, case folded, without Arabic vowel signs, decimal digits in ASCII.

    >>> normalise("Straße"), normalise("१२"), normalise("كِتَاب")
    ('strasse', '12', 'كتاب')
    """
    folded = unicodedata.normalize("NFKC", word).casefold().translate(_UNWRITTEN)
    if not folded.isascii():
        folded = "".join(str(unicodedata.decimal(char, char)) for char in folded)
    return folded or word


def stem(normalised_word: str) -> str:
    """The first four code points: crude, the same for every language, and enough to pool most inflected forms."""
    return normalised_word[:STEM_CHARS]


class Vocabulary:
    """The normalised words of both languages under one numbering, in code point order: equal numbers are equal words.

    W words have the numbers 0..W-1 and S stems 0..S-1. Words and stems that are not in the vocabulary get numbers from
    W and S on, which hold for one call of `encode`; tables by word or stem have one last row for all of them.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = sorted(set(words))
        self.stems = sorted({stem(word) for word in self.words})
        self._word_numbers = {word: number for number, word in enumerate(self.words)}
        self._stem_numbers = {prefix: number for number, prefix in enumerate(self.stems)}
        self.stem_of_word_W = np.array([self._stem_numbers[stem(word)] for word in self.words], np.int64)

    def number(self, normalised_word: str) -> int | None:
        return self._word_numbers.get(normalised_word)

    def stem_number(self, prefix: str) -> int | None:
        return self._stem_numbers.get(prefix)

    def encode(self, sentences: Iterable[Sequence[str]]) -> tuple[list[list[int]], NDArray[np.int64]]:
        """The numbers of each sentence's words, and the stem number of every word number, new ones included."""
        encoder = Encoder(self)
        return [[*map(encoder.__getitem__, sentence)] for sentence in sentences], encoder.stem_of_word()


class Encoder(dict[str, int]):
    """Word as written → number, for one batch of sentences: looked up once for each way in which a word is written."""

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

    def stem_of_word(self) -> NDArray[np.int64]:
        """The stem number of every word number, new ones included."""
        new_stems: dict[str, int] = {}
        stem_of_new = []
        for prefix in map(stem, self.new_words):
            number = self.vocabulary.stem_number(prefix)
            if number is None:
                number = len(self.vocabulary.stems) + new_stems.setdefault(prefix, len(new_stems))
            stem_of_new.append(number)
        return np.append(self.vocabulary.stem_of_word_W, np.array(stem_of_new, np.int64))
