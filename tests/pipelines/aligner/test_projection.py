from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.aligner.links import Link
from pipelines.aligner.projection import alignment_score, is_consistent, project, words_of
from schemas.spans import CharSpan, TokenSpan

TOKENS = [CharSpan(0, 4), CharSpan(5, 10), CharSpan(11, 13), CharSpan(13, 14)]  # "Anna lives in."


@pytest.mark.parametrize(
    "links, expected",
    [
        ([Link(1, 0)], TokenSpan(0, 1)),
        ([Link(1, 0), Link(1, 2)], TokenSpan(0, 3)),  # the gap is filled
        ([Link(0, 0), Link(2, 3)], None),
        ([], None),
    ],
)
def test_project_takes_first_to_last_linked_word(links, expected):
    assert project(TokenSpan(1, 2), links) == expected


@pytest.mark.parametrize(
    "span, expected",
    [
        (CharSpan(0, 4), TokenSpan(0, 1)),
        (CharSpan(5, 13), TokenSpan(1, 3)),
        (CharSpan(0, 14), TokenSpan(0, 4)),
        (CharSpan(0, 3), None),  # ends inside a word
        (CharSpan(6, 10), None),  # begins inside a word
        (CharSpan(4, 5), None),  # white space
    ],
)
def test_words_of_a_span_are_whole_words(span, expected):
    assert words_of(span, TOKENS) == expected


def test_an_answer_word_linked_to_the_outside_is_inconsistent():
    links = [Link(1, 0), Link(1, 2), Link(3, 1)]
    assert not is_consistent(TokenSpan(1, 2), TokenSpan(0, 3), links)
    assert is_consistent(TokenSpan(1, 4), TokenSpan(0, 3), links)
    assert is_consistent(TokenSpan(1, 2), TokenSpan(0, 1), links)  # the foreign link is outside the answer


def test_score_counts_unlinked_words_of_both_sides_as_zero():
    assert alignment_score(TokenSpan(0, 1), TokenSpan(0, 1), [Link(0, 0, 0.8)]) == pytest.approx(0.8)
    half_of_the_mention = alignment_score(TokenSpan(0, 2), TokenSpan(0, 1), [Link(0, 0, 0.9)])
    assert half_of_the_mention == pytest.approx((0.9 + 0 + 0.9) / 3)
    with_gap = alignment_score(TokenSpan(0, 1), TokenSpan(0, 3), [Link(0, 0, 0.9), Link(0, 2, 0.5)])
    assert with_gap == pytest.approx((0.9 + 0.9 + 0 + 0.5) / 4)


@given(
    st.lists(st.builds(Link, st.integers(0, 5), st.integers(0, 5), st.floats(0, 1)), max_size=12),
    st.tuples(st.integers(0, 5), st.integers(1, 3)).map(lambda x: TokenSpan(x[0], x[0] + x[1])),
)
def test_projection_is_the_smallest_span_that_holds_every_linked_word(links, mention):
    answer = project(mention, links)
    linked = {link.target for link in links if link.source in mention}
    if answer is None:
        assert not linked
    else:
        assert {answer.start, answer.end - 1} <= linked and all(target in answer for target in linked)
        assert 0 <= alignment_score(mention, answer, links) <= 1
