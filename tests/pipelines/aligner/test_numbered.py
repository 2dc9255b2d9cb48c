"""A training corpus kept as word numbers."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np

from pipelines.aligner import AlignerConfig, AlignmentModel, NumberedPairs, train

PAIRS = [
    (["Anna", "lives"], ["Anna", "sống"]),
    (["rare"], ["hiếm", "hiếm"]),
    (["lives", "she"], ["sống", "cô", "ấy"]),
    (["she"], ["cô", "ấy"]),
]


def saved(model: AlignmentModel) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def test_the_pairs_that_are_kept_train_as_if_there_had_been_no_others() -> None:
    numbered = NumberedPairs(PAIRS)
    numbered.keep(np.array([0, 2]))
    numbered.append(*PAIRS[3])
    assert len(numbered) == 3
    model = train(numbered, AlignerConfig())
    assert saved(model) == saved(train([PAIRS[0], PAIRS[2], PAIRS[3]], AlignerConfig()))
    assert "rare" not in model.parameters.vocabulary.words  # nor is a word remembered that no pair has any more


def test_training_uses_the_pairs_up() -> None:
    numbered = NumberedPairs(PAIRS)
    train(numbered, AlignerConfig())
    assert len(numbered) == 0
    assert not train(numbered, AlignerConfig()).parameters.vocabulary.words


def test_a_sentence_pair_takes_four_bytes_a_word_and_sixteen_more() -> None:
    words = [f"word {number}" for number in range(50)]
    NumberedPairs([(words, words)])  # what is cached once
    tracemalloc.start()
    numbered = NumberedPairs((words, words) for _ in range(10_000))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used / len(numbered) < 1.25 * (100 * 4 + 16)  # the arrays have room to grow
