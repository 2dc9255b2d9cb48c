"""Translations of labelled records: the contract, rows, counts and how they are shown."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.catalog import SCHEMAS
from schemas.inspection.translations_view import render_example
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.mrc import problems as record_problems
from schemas.spans import CharSpan
from schemas.translations import ARROW_SCHEMA, Translation, TranslationCounts, counted, kind_of, problems, texts_of

QUESTION = Translation(
    id="q1",
    source_lang="en",
    target_lang="de",
    kind="qa",
    task="squad",
    source_texts=("Who won?", "The Broncos won."),
    texts=("Wer gewann?", "Die Broncos gewannen."),
    labels="projected",
    score=0.5,
    answers=(CharSpan(4, 11),),
)
SENTENCE = Translation(
    id="s1",
    source_lang="en",
    target_lang="vi",
    kind="tagging",
    task="universal_ner",
    source_texts=("In Hanoi.",),
    texts=("Ở Hà Nội.",),
    labels="projected",
    score=1.0,
    tokens=(CharSpan(0, 1), CharSpan(2, 4), CharSpan(5, 8), CharSpan(8, 9)),
    tags=("O", "B-LOC", "I-LOC", "O"),
)
PAIR = Translation(
    id="p1",
    source_lang="en",
    target_lang="zh",
    kind="pairs",
    task="paws_x",
    source_texts=(),
    texts=("她住在北京。", "😀 北京。"),
    labels="known",
    label="1",
)
ALL = [QUESTION, SENTENCE, PAIR]


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.kind)
def test_a_translation_keeps_the_contract_and_survives_an_arrow_row(example: Translation) -> None:
    assert problems(example) == []
    table = pa.Table.from_pylist([example.to_row()], schema=ARROW_SCHEMA)
    assert Translation.from_row(table.to_pylist()[0]) == example
    assert SCHEMAS["translations/1"].arrow == ARROW_SCHEMA


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.kind)
def test_a_translation_is_a_record_of_its_kind(example: Translation) -> None:
    record = example.record()
    assert record_problems(record) == []
    assert (record.id, record.lang, record.task) == (example.id, example.target_lang, example.task)
    assert texts_of(record) == example.texts and kind_of(record) == example.kind


def test_unknown_labels_are_none_in_the_record() -> None:
    question = replace(QUESTION, labels="unknown", score=None, answers=()).record()
    sentence = replace(SENTENCE, labels="unknown", score=None, tags=()).record()
    pair = replace(PAIR, labels="unknown", label=None).record()
    assert isinstance(question, MrcExample) and not question.answerable and question.answers == ()
    assert isinstance(sentence, TaggingExample) and sentence.tags == () and len(sentence.tokens) == 4
    assert isinstance(pair, PairExample) and pair.label is None


@pytest.mark.parametrize(
    "example, said",
    [
        (replace(QUESTION, kind="mt"), "kind is 'mt': expected one of qa, tagging, pairs"),
        (replace(QUESTION, texts=("Wer?",)), "1 texts, but a record of kind qa has 2"),
        (replace(QUESTION, source_texts=("Who?",)), "1 source_texts: expected 2, or none"),
        (replace(QUESTION, labels="guessed"), "labels is 'guessed': expected known, projected or unknown"),
        (replace(QUESTION, labels="unknown", score=None), "labels is unknown, but there are labels"),
        (replace(QUESTION, score=None), "score is None, but labels is projected"),
        (replace(PAIR, score=0.5), "score is 0.5, but labels is known: only projected labels have a score"),
        (replace(QUESTION, score=1.5), "score 1.5 is not in 0..1"),
        (replace(QUESTION, source_lang=""), "source_lang is empty"),
        (replace(QUESTION, answers=(CharSpan(4, 99),)), "an answer lies outside the context, or is empty"),
        (replace(SENTENCE, tags=("O",)), "4 tokens, but 1 tags"),
    ],
)
def test_what_breaks_the_contract_is_said(example: Translation, said: str) -> None:
    assert any(said in problem for problem in problems(example)), problems(example)


def test_translations_are_counted_by_language_pair_and_by_what_is_known_of_their_labels() -> None:
    unknown = replace(QUESTION, id="q2", labels="unknown", score=None, answers=())
    table = pa.Table.from_pylist([each.to_row() for each in (*ALL, unknown)], schema=ARROW_SCHEMA)
    assert counted(table).to_pylist() == [
        {"langs": "en-de", "examples": 2, "known": 0, "projected": 1, "unknown": 1},
        {"langs": "en-vi", "examples": 1, "known": 0, "projected": 1, "unknown": 0},
        {"langs": "en-zh", "examples": 1, "known": 1, "projected": 0, "unknown": 0},
    ]
    assert TranslationCounts(3, 2, {"too_long": 1}, projected=1, unknown=1).problems() == []
    assert TranslationCounts(3, 2, {}, projected=2).problems() != []


def test_a_translation_is_shown_beside_its_source() -> None:
    shown = render_example(QUESTION)
    assert shown.startswith("en-de  labels projected, score 0.50\n  source   Who won?\n  source   The Broncos won.\n")
    assert "Die ⟦Broncos⟧ gewannen." in shown
    assert "score" not in render_example(PAIR).splitlines()[0]
