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
    assert schema.metadata[b"polyspan.schema"].endswith(b"/1")


def test_words_are_read_from_the_text() -> None:
    assert TAGGED.words == ("在", "河内", "。")


@pytest.mark.parametrize(
    "example, problem",
    [
        (replace(QUESTION, answers=(CharSpan(3, 3),), answer_texts=("",)), "outside the context, or is empty"),
        (replace(QUESTION, answers=(CharSpan(0, 4),)), "'丹佛野马' is none of answer_texts"),
        (replace(QUESTION, answerable=False), "answerable is False"),
        (replace(QUESTION, id=""), "id is empty"),
        (replace(TAGGED, tags=("O", "B-LOC")), "3 tokens, but 2 tags"),
        (replace(TAGGED, tags=("O", "I-LOC", "O")), "I-LOC after O is not IOB2"),
        (replace(TAGGED, tags=("B-PER", "I-LOC", "O")), "I-LOC after B-PER is not IOB2"),
        (replace(TAGGED, tokens=(CharSpan(0, 2), CharSpan(1, 3), CharSpan(3, 4))), "overlap"),
        (replace(TAGGED, tokens=(CharSpan(0, 1), CharSpan(1, 3), CharSpan(3, 5))), "outside the text"),
    ],
)
def test_problems_are_named(example: MrcExample | TaggingExample, problem: str) -> None:
    assert [problem in found for found in mrc.problems(example)] == [True]
