from __future__ import annotations

import pytest

from pipelines.aligner.words import Vocabulary, normalise


@pytest.mark.parametrize(
    "word, expected",
    [
        ("Straße", "strasse"),
        ("Ｆｕｌｌ", "full"),
        ("१२", "12"),  # Devanagari digits
        ("٣", "3"),  # Arabic-Indic digits
        ("كِتَاب", "كتاب"),  # vowel signs
        ("كـتاب", "كتاب"),  # tatweel
        ("ـ", "ـ"),  # nothing would be left
        ("की", "की"),  # Devanagari vowel signs stay
    ],
)
def test_normalise(word: str, expected: str) -> None:
    assert normalise(word) == expected


def test_the_same_word_has_one_number_in_both_languages_known_or_not() -> None:
    vocabulary = Vocabulary(["anna", "haus"])
    (source, target), stem_of_word = vocabulary.encode([["Haus", "Hanoi", "x"], ["Hanoi", "ANNA", "Hanover"]])
    assert source[0] == 1 and target[1] == 0
    assert source[1] == target[0] >= 2
    assert len({*source, *target}) == 5
    assert stem_of_word[source[1]] == stem_of_word[target[2]]  # hano-
    assert stem_of_word[source[2]] not in (stem_of_word[source[0]], stem_of_word[source[1]])
