"""Queries: the first words of an article, in which every name of its entity is masked (mPMR, 2.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.anchor_mrc.queries import Query, anonymise, first_words, query_problem, title_names
from pipelines.steps.anchor_mrc.whole_words import Searchable
from pipelines.steps.common.tokenize import tokenizer_for
from schemas.anchor_mrc import MASK_TOKEN
from schemas.languages import language


def anonymised(lang: str, text: str, *names: str) -> str:
    query = anonymise(text, names, tokenizer_for(lang), language(lang).spaced)
    assert [span.of(query.text) for span in query.mask_spans] == [MASK_TOKEN] * len(query.mask_spans)
    return query.text


@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize(
    "lang, text", [("en", "Anna's house, in Hanoi. " * 40), ("ja", "東京は日本の首都である。" * 40)]
)
def test_the_first_words_are_those_of_the_whole_text(lang: str, text: str, count: int) -> None:
    tokenize = tokenizer_for(lang)
    assert first_words(text, count, tokenize) == text[: tokenize(text)[count - 1].end]


def test_a_text_of_fewer_words_is_its_own_query() -> None:
    assert first_words("Two words", 50, tokenizer_for("en")) == "Two words"
    assert first_words("", 50, tokenizer_for("en")) == ""


def test_names_are_masked_whole_and_without_regard_to_case() -> None:
    assert anonymised("en", "OBAMA met Obamas; Obama's.", "Obama") == "[MASK] met Obamas; [MASK]'s."


def test_a_name_within_a_longer_name_leaves_no_half() -> None:
    names = ("Barack Obama", "Obama")
    assert anonymised("en", "Barack Obama, or Obama, is", *names) == "[MASK], or [MASK], is"


def test_overlapping_names_become_one_mask() -> None:
    assert anonymised("en", "the New York City Hall", "New York City", "City Hall") == "the [MASK]"


def test_masks_with_only_white_space_between_them_merge() -> None:
    assert anonymised("en", "Ann  Bob and Ann", "Ann", "Bob") == "[MASK] and [MASK]"


def test_white_space_in_a_name_matches_any() -> None:
    assert anonymised("en", "in New\nYork", "New York") == "in [MASK]"


def test_a_word_that_contains_the_name_stays() -> None:
    assert anonymised("en", "artists make art", "art") == "artists make [MASK]"
    assert anonymised("vi", "Hà Nội là thủ đô", "Hà Nội") == "[MASK] là thủ đô"
    assert anonymised("hi", "दिल्ली में", "दिल्ली") == "[MASK] में"


def test_unspaced_words_are_the_tokenizers() -> None:
    assert anonymised("ja", "東京は首都", "東京") == "[MASK]は首都"


def test_names_without_letters_mask_nothing() -> None:
    assert anonymised("en", "a - b", "-", "") == "a - b"


def test_a_title_is_also_known_without_its_parenthetical() -> None:
    assert title_names("Mercury (planet)") == ["Mercury (planet)", "Mercury"]
    assert title_names("水星（惑星）") == ["水星（惑星）", "水星"]
    assert title_names("(hed) p.e.") == ["(hed) p.e."]
    assert title_names("(x)") == ["(x)"]


def test_a_query_that_still_holds_the_anchor_is_refused() -> None:
    query = Query("[MASK] is 日本語", ())
    assert query_problem(query, "日本", "ja") == "query_contains_anchor"
    assert query_problem(Query("an artist's art", ()), "ART", "en") == "query_contains_anchor"
    assert query_problem(Query("an artist", ()), "art", "en") is None


def test_the_mask_itself_is_no_leak() -> None:
    query = anonymise("Mask is a word", ["Mask"], tokenizer_for("en"), True)
    assert query.text == "[MASK] is a word"
    assert query_problem(query, "Mask", "en") is None


def test_a_query_that_consists_of_masks_is_refused() -> None:
    query = anonymise("(Hanoi)", ["Hanoi"], tokenizer_for("en"), True)
    assert query_problem(query, "Hanoi", "en") == "query_has_no_words"


@given(st.text("ab ABà.-[]", max_size=40), st.lists(st.text("abAB ", min_size=1, max_size=4), max_size=3))
def test_only_names_are_replaced_and_none_is_left(text: str, names: list[str]) -> None:
    tokenize = tokenizer_for("en")
    query = anonymise(text, names, tokenize, True)
    pieces, end = [], 0
    for span in query.mask_spans:
        pieces.append(query.text[end : span.start])
        end = span.end
    pieces.append(query.text[end:])
    position = 0
    for piece in pieces:  # the unmasked rest occurs in the text, in order
        position = text.index(piece, position) + len(piece)
    for name in names:
        if name.strip():
            assert not any(Searchable(piece, spaced=True).mentions_any([name]) for piece in pieces)
