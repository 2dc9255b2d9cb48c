"""The aligner's arithmetic in C++ (native/*.cpp). `ValueError` for arrays that do not fit together.

W words and S stems; K pairs of words (or of stems) with a count; N words of a text. A key is (source << 32) + target,
a count is in units of 1 / ONE. Sentence n of a text is words[offsets[n]:offsets[n + 1]].
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

ONE: int
LEAST: int
MAX_JUMP: int
F: int
EMPTY: int  # no target word's number: a free place of a table

class Settings:
    def __init__(
        self, *, diagonal_tension: float, empty_probability: float, backoff: float, identical: float
    ) -> None: ...

def tables(
    *,
    stem_of_word: NDArray[np.int32],  # (W)
    stems: int,
    source_frequency: NDArray[np.int64],  # (W)
    target_frequency: NDArray[np.int64],  # (W)
    keys: NDArray[np.int64],  # (K), ascending
    counts: NDArray[np.int64],  # (K)
    by_stem: bool,  # the keys are of stems: enough for Model 2
) -> dict[str, NDArray[Any]]:
    """What `Model` looks into: arrays by name."""

class Words:
    """The words of a vocabulary as UTF-8: word w is text[offsets[w]:offsets[w + 1]]. They ascend."""

    stems: int
    def __init__(
        self,
        text: NDArray[np.uint8],
        offsets: NDArray[np.int64],  # (W + 1)
        stem_of_word: NDArray[np.int32],  # (W), ascending
    ) -> None: ...
    def find(self, word: bytes, prefix: bool = False) -> int:
        """The number of the word, or of the first that begins with it; -1 where there is none."""

class Model:
    """Looks into its arrays where they lie, and holds them."""

    words: int
    stems: int
    def __init__(
        self,
        tables: dict[str, NDArray[Any]],
        *,
        jumps: NDArray[np.float64],  # (2, 2 * MAX_JUMP + 1), more than 0
        fertilities: NDArray[np.float32] | None,  # (2, W + 1, F)
    ) -> None: ...
    def align(
        self, corpus: Corpus, settings: Settings, *, min_score: float, max_words: int, threads: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """How many links each sentence pair has; then of each link the source word, the target word, the score."""
    def align_directed(
        self, corpus: Corpus, settings: Settings, *, max_words: int, threads: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """As `align`, but with two counts for each pair: target words' links to their partners, then source words'."""

class Corpus:
    """Sentence pairs, and what each of their cells added to the counts of the last pass."""

    def __init__(
        self,
        *,
        source_words: NDArray[np.int32],  # (N)
        source_offsets: NDArray[np.int64],
        target_words: NDArray[np.int32],
        target_offsets: NDArray[np.int64],
        stem_of_word: NDArray[np.int32],  # of every number in either text
    ) -> None: ...
    def expect(
        self,
        model: Model,
        settings: Settings,
        *,
        hmm: bool,  # else Model 2
        agree: bool,  # counts words by the product of both directions; else stems by their mean
        keep: bool,  # what each cell adds
        before: Model | None,  # the first pass's, if that kept nothing
        threads: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], list[NDArray[np.int64]], float]:
        """One pass: keys and counts of links, (2, 2 * MAX_JUMP + 1) jump counts, two (W, F) fertility counts, and the
        log-likelihood of both sides given each other, by the model as it was."""
