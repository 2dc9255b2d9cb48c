"""Texts are cut into sentences and pieces without losing a character that is not white space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.inference.sentences import fitting_pieces, sentences


def cut(text: str) -> list[str]:
    return [span.of(text) for span in sentences(text)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Anna won. Ben lost!  Who? ", ["Anna won.", "Ben lost!", "Who?"]),
        ("No end", ["No end"]),
        (" \n ", []),
        ('She said "Go." Then she left.', ['She said "Go."', "Then she left."]),
        (
            "Mr. J. R. Smith et al. came on May 3. 2011 and left.",
            ["Mr. J. R. Smith et al. came on May 3. 2011 and left."],
        ),
        ("Nearly 3.5 km at 12:30, e.g. here.", ["Nearly 3.5 km at 12:30, e.g. here."]),
        ("Wait… what? he asked. Yes.", ["Wait… what? he asked.", "Yes."]),
        ("A title\nA line. Another.", ["A title", "A line.", "Another."]),
        ("她住在北京。他呢？“在这里。”好", ["她住在北京。", "他呢？", "“在这里。”", "好"]),
        ("वह यहाँ है। वह कहाँ है?", ["वह यहाँ है।", "वह कहाँ है?"]),
        ("أين تعيش آنا؟ في هانوي.", ["أين تعيش آنا؟", "في هانوي."]),
    ],
)
def test_sentences_end_where_a_reader_sees_their_end(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def words(pieces: list[str]) -> list[int]:
    return [len(piece.split()) for piece in pieces]


def test_a_sentence_that_is_too_long_is_cut_at_the_best_boundary_near_its_middle() -> None:
    text = "One two three four, five six; seven eight, nine ten. Short one."
    (spans,) = fitting_pieces([text], words, 6)
    assert spans is not None
    assert [span.of(text) for span in spans] == [
        "One two three four, five six;",
        "seven eight, nine ten.",
        "Short one.",
    ]
    (spans,) = fitting_pieces([text], words, 4)
    assert spans is not None and max(words([span.of(text) for span in spans])) <= 4
    assert "".join("".join(span.of(text) for span in spans).split()) == "".join(text.split())


def test_a_text_with_a_piece_that_is_too_long_and_has_no_boundary_is_none() -> None:
    assert fitting_pieces(["字" * 9, "短。"], lambda pieces: [len(piece) for piece in pieces], 5) == [None, [(0, 2)]]
    (spans,) = fitting_pieces(["字字字，字字字字"], lambda pieces: [len(piece) for piece in pieces], 5)
    assert spans == [(0, 4), (4, 8)]


@given(st.text(alphabet="aB.!? \n,。，3"), st.integers(1, 6))
def test_pieces_are_in_order_fit_and_lose_nothing(text: str, most: int) -> None:
    (spans,) = fitting_pieces([text], words, most)
    assert spans is not None  # every word is one token
    pieces = [span.of(text) for span in spans]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(count <= most for count in words(pieces)) and all(piece == piece.strip() != "" for piece in pieces)
    assert [*spans] == sorted(spans)
