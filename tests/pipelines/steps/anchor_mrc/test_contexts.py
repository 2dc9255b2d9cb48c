"""Contexts: the words around an anchor, and every occurrence of its text in them (mPMR, 2.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.anchor_mrc.contexts import Context, cut_context
from pipelines.steps.anchor_mrc.whole_words import Searchable
from pipelines.steps.common.tokenize import tokenizer_for
from schemas.languages import language
from schemas.spans import CharSpan


def cut(lang: str, marked: str, before: int, after: int, fill: bool = False) -> Context:
    """Returns the context of the anchor, which is in brackets in `marked`."""
    start, end = marked.index("["), marked.index("]") - 1
    text = marked.replace("[", "").replace("]", "")
    return cut_context(text, CharSpan(start, end), before, after, tokenizer_for(lang), language(lang).spaced, fill=fill)


def test_as_many_words_before_and_after_as_asked_and_the_anchor_besides() -> None:
    context = cut("en", "one two three [New York] four five six", 2, 1)
    assert context == Context("two three New York four", CharSpan(10, 18), (CharSpan(10, 18),), 2)


def test_at_an_edge_the_window_is_shorter() -> None:
    context = cut("en", "one [two] three four", 3, 2)
    assert (context.text, context.words_before) == ("one two three four", 1)
    assert cut("en", "one two [three]", 1, 5).text == "two three"


def test_filling_adds_what_is_missing_on_the_other_side() -> None:
    assert cut("en", "one [two] three four five", 3, 0, fill=True).text == "one two three four"
    assert cut("en", "one two three [four] five", 0, 3, fill=True).text == "two three four five"
    assert cut("en", "a b c d [e] f g h i", 2, 2, fill=True).text == "c d e f g"


def test_no_words_at_all_is_the_anchor_alone() -> None:
    assert cut("en", "one [two] three", 0, 0) == Context("two", CharSpan(0, 3), (CharSpan(0, 3),), 0)


def test_all_identical_spans_are_answers() -> None:
    context = cut("en", "Paris, paris and [Paris]. Parisian (Paris) Par is", 9, 9)
    assert [span.start for span in context.answers] == [0, 17, 34]
    assert {span.of(context.text) for span in context.answers} == {"Paris"}


def test_an_anchor_of_part_of_a_word_is_an_answer_where_it_is_linked() -> None:
    context = cut("en", "anti[war] war antiwar", 5, 5)
    assert [(span.start, span.of(context.text)) for span in context.answers] == [(4, "war"), (8, "war")]


def test_an_occurrence_that_runs_into_the_anchor_is_none() -> None:
    context = cut("en", "go go [go go] go go go", 9, 9)
    assert context.answers == (CharSpan(0, 5), CharSpan(6, 11), CharSpan(12, 17))


def test_unspaced_text_has_windows_of_words_too() -> None:
    context = cut("ja", "日本の首都は[東京]である。東京都には", 2, 3)
    assert (context.text, context.words_before) == ("首都は東京である。", 2)


@pytest.mark.parametrize(
    "lang, text", [("en", "Anna's aunt, in Hanoi! "), ("th", "กรุงเทพเป็นเมืองหลวง "), ("zh", "北京是首都。")]
)
def test_a_window_is_that_of_the_whole_tokenised_text(lang: str, text: str) -> None:
    article, tokenize = text * 60, tokenizer_for(lang)
    words = tokenize(article)
    middle = next(index for index in range(len(words) // 2, len(words)) if index % 2)
    found = cut_context(article, words[middle], 40, 30, tokenize, language(lang).spaced)
    assert found.text == article[words[middle - 40].start : words[middle + 30].end]


@given(st.text("ab. é", min_size=1, max_size=60), st.data())
def test_every_answer_is_the_anchors_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    before, after = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    fill = data.draw(st.booleans())
    context = cut_context(text, CharSpan(start, end), before, after, tokenizer_for("en"), True, fill=fill)
    assert context.anchor.of(context.text) == text[start:end]
    assert context.anchor in context.answers
    assert {span.of(context.text) for span in context.answers} == {text[start:end]}
    edges = [edge for span in context.answers for edge in span]
    assert edges == sorted(edges)
    assert context.words_before <= (before + after if fill else before)


def test_a_text_that_mentions_a_phrase_is_distinguished_from_one_that_does_not() -> None:
    assert Searchable("In HANOI, then", spaced=True).mentions_any(["Paris", "Hanoi"])
    assert not Searchable("Hanoians", spaced=True).mentions_any(["Hanoi"])
    assert Searchable("東京都", spaced=False).mentions_any(["東京"])
    assert Searchable("New  York", spaced=True).mentions_any(["new york"])
