"""Holds a training corpus as word numbers: four bytes a word, sixteen a sentence pair, and each distinct word."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner import _native
from pipelines.aligner.model import Parameters
from pipelines.aligner.words import Encoder, Vocabulary

Ints = NDArray[np.int64]

_BLOCK = 1 << 16  # words that are renumbered or counted at once: NumPy wants eight bytes for each


class NumberedPairs:
    """Sentence pairs to train on, given as words. `train` empties this object.

    >>> pairs = NumberedPairs([(["Anna", "lives"], ["Anna", "sống"])])
    >>> pairs.append(["She"], ["Cô", "ấy"])
    >>> len(pairs)
    2
    """

    def __init__(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]] = ()) -> None:
        self._clear()
        for pair in pairs:
            self.append(*pair)

    def __len__(self) -> int:
        return len(self._offsets[0]) - 1

    def append(self, source_words: Sequence[str], target_words: Sequence[str]) -> None:
        for words, offsets, sentence in zip(self._words, self._offsets, (source_words, target_words), strict=True):
            words.extend(map(self._encoder.__getitem__, sentence))
            offsets.append(len(words))

    def keep(self, rows: Ints) -> None:
        """Drops all pairs except these rows, which are ascending."""
        for words, offsets in zip(self._words, self._offsets, strict=True):
            lengths = _lengths(offsets)
            is_kept = np.zeros(len(lengths), np.bool_)
            is_kept[rows] = True
            kept = np.frombuffer(words, np.int32)[np.repeat(is_kept, lengths)]
            np.frombuffer(words, np.int32)[: len(kept)] = kept
            np.frombuffer(offsets, np.int64)[1 : len(rows) + 1] = np.cumsum(lengths[rows])
            del words[len(kept) :], offsets[len(rows) + 1 :]

    def take(self, max_words: int, known_words: Iterable[str] = ()) -> tuple[_native.Corpus, Parameters]:
        """Returns the pairs with 1 to `max_words` words on either side, and initial parameters; empties this object.

        The parameters have the words of these pairs, with their frequencies, and the known words.
        """
        lengths = [_lengths(offsets) for offsets in self._offsets]
        is_fit = (np.minimum(*lengths) > 0) & (np.maximum(*lengths) <= max_words)
        if not is_fit.all():
            self.keep(np.flatnonzero(is_fit))
        del lengths, is_fit
        sides = [np.frombuffer(side, np.int32) for side in self._words]
        offsets = [np.frombuffer(side, np.int64) for side in self._offsets]
        new_words = list(self._encoder.new_words)
        self._clear()

        used = np.flatnonzero(_frequencies(sides[0], len(new_words)) + _frequencies(sides[1], len(new_words)))
        used_words = [new_words[number] for number in used.tolist()]
        vocabulary = Vocabulary([*used_words, *known_words])
        number_of_new = np.zeros(len(new_words), np.int32)
        number_of_new[used] = np.array([vocabulary.number(word) for word in used_words], np.int32)
        del new_words, used_words
        for side in sides:
            for start in range(0, len(side), _BLOCK):
                side[start : start + _BLOCK] = number_of_new[side[start : start + _BLOCK]]
        corpus = _native.Corpus(
            source_words=sides[0],
            source_offsets=offsets[0],
            target_words=sides[1],
            target_offsets=offsets[1],
            stem_of_word=vocabulary.stem_of_word_W.astype(np.int32),
        )
        source_frequency_W, target_frequency_W = (_frequencies(side, len(vocabulary.words)) for side in sides)
        return corpus, Parameters(vocabulary, source_frequency_W, target_frequency_W)

    def _clear(self) -> None:
        self._encoder = Encoder(Vocabulary([]))  # numbers words in the order of their appearance
        self._words = array("i"), array("i")
        self._offsets = array("q", [0]), array("q", [0])


def _lengths(offsets: array[int]) -> Ints:
    found = np.frombuffer(offsets, np.int64)
    return found[1:] - found[:-1]


def _frequencies(words: NDArray[np.int32], size: int) -> Ints:
    total = np.zeros(size, np.int64)
    for start in range(0, len(words), _BLOCK):
        np.add.at(total, words[start : start + _BLOCK], 1)
    return total
