from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from schemas import mrc
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan

QUESTION = MrcExample(
    "q1", "zh", "谁赢了?", "丹佛野马队赢了。", (CharSpan(0, 5),), ("丹佛野马队", "野马 队"), True, "xquad", None
)
TAGGED = TaggingExample(
    "n1", "zh", "在河内。", (CharSpan(0, 1), CharSpan(1, 3), CharSpan(3, 4)), ("O", "B-LOC", "O"), "universal_ner"
)
PAIR = PairExample("3", "vi", "Anna sống ở Hà Nội.", "Hà Nội là nơi Anna sống.", None, "paws_x")


@pytest.mark.parametrize(
    "example, schema", [(QUESTION, mrc.ARROW_SCHEMA), (TAGGED, mrc.TAGGING_SCHEMA), (PAIR, mrc.PAIR_SCHEMA)]
)
def test_records_come_back_from_arrow_as_they_were(
    example: MrcExample | TaggingExample | PairExample, schema: pa.Schema
) -> None:
    table = pa.Table.from_pylist([example.to_row()], schema=schema)
    assert type(example).from_row(table.to_pylist()[0]) == example
    assert mrc.problems(example) == []
    assert schema.metadata[b"polyspan.schema"] in (b"mrc/2", b"tagging/1", b"pair/1")


def test_a_row_of_the_older_version_becomes_a_question_in_the_contexts_language_under_its_own_id() -> None:
    (row,) = pa.Table.from_pylist([QUESTION.to_row()], schema=mrc.ARROW_SCHEMA_1).to_pylist()
    assert "query_lang" not in row and MrcExample.from_row(row) == QUESTION
    asked = replace(QUESTION, query_lang="de", source_id="q")
    (row,) = pa.Table.from_pylist([asked.to_row()], schema=mrc.ARROW_SCHEMA).to_pylist()
    assert (row["query_lang"], row["source_id"]) == ("de", "q") and MrcExample.from_row(row) == asked


def test_the_row_of_a_question_without_the_new_columns_is_what_it_was() -> None:
    """Few-shot draws and the fingerprints of candidates are hashes of it."""
    assert list(QUESTION.to_row()) == mrc.ARROW_SCHEMA_1.names


def test_labels_are_answers_in_their_place_entities_and_a_pairs_one() -> None:
    assert [mrc.labels_in(each) for each in (QUESTION, TAGGED, PAIR)] == [1, 1, 0]
    assert mrc.labels_in(replace(QUESTION, answers=())) == 0
    assert mrc.labels_in(replace(TAGGED, tags=("B-PER", "I-PER", "B-PER"))) == 2
    assert mrc.labels_in(replace(PAIR, label="0")) == 1


def test_words_are_read_from_the_text() -> None:
    assert TAGGED.words == ("在", "河内", "。")


@pytest.mark.parametrize(
    "example, problem",
    [
        (replace(QUESTION, answers=(CharSpan(3, 3),), answer_texts=("",)), "outside the context, or is empty"),
        (replace(QUESTION, answers=(CharSpan(0, 4),)), "'丹佛野马' is none of answer_texts"),
        (replace(QUESTION, answerable=False), "answerable is False"),
        (replace(QUESTION, id=""), "id is empty"),
        (replace(QUESTION, query_lang=""), "query_lang is empty"),
        (replace(QUESTION, source_id=""), "source_id is empty"),
        (replace(QUESTION, query_lang="zh"), "query_lang is zh, as lang"),
        (replace(TAGGED, tags=("O", "B-LOC")), "3 tokens, but 2 tags"),
        (replace(TAGGED, tags=("O", "I-LOC", "O")), "I-LOC after O is not IOB2"),
        (replace(TAGGED, tags=("B-PER", "I-LOC", "O")), "I-LOC after B-PER is not IOB2"),
        (replace(TAGGED, tokens=(CharSpan(0, 2), CharSpan(1, 3), CharSpan(3, 4))), "overlap"),
        (replace(TAGGED, tokens=(CharSpan(0, 1), CharSpan(1, 3), CharSpan(3, 5))), "outside the text"),
    ],
)
def test_problems_are_named(example: MrcExample | TaggingExample, problem: str) -> None:
    assert [problem in found for found in mrc.problems(example)] == [True]
