"""CLISM examples: a masked source sentence, its translation, and where each `[QUE]`'s answer stands (CLISM, 3.1)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

NAME = "clism"
VERSION = 1
QUE_TOKEN = "[QUE]"

_QUESTION = pa.struct(
    [
        pa.field("que_start_char", pa.int32(), nullable=False),
        pa.field("source_start_char", pa.int32(), nullable=False),
        pa.field("source_end_char", pa.int32(), nullable=False),
        pa.field("answer_start_char", pa.int32(), nullable=False),
        pa.field("answer_end_char", pa.int32(), nullable=False),
        pa.field("entity_label", pa.string(), nullable=False),
        pa.field("alignment_score", pa.float32(), nullable=False),
    ]
)

ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source_lang", pa.string(), nullable=False),
        pa.field("target_lang", pa.string(), nullable=False),
        pa.field("source_text", pa.string(), nullable=False),
        pa.field("masked_source_text", pa.string(), nullable=False),
        pa.field("target_text", pa.string(), nullable=False),
        pa.field("questions", pa.list_(pa.field("item", _QUESTION, nullable=False)), nullable=False),
        pa.field("corpus", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
    ],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)


@dataclass(frozen=True, slots=True)
class ClismQuestion:
    """One `[QUE]`, the mention that it stands for and its answer. All offsets are code points, half-open.

    `que_start_char` counts in `masked_source_text`, `source_*` in `source_text`, `answer_*` in `target_text`.
    """

    que_start_char: int
    source_start_char: int
    source_end_char: int
    answer_start_char: int
    answer_end_char: int
    entity_label: str
    alignment_score: float  # 0..1


@dataclass(frozen=True, slots=True)
class ClismExample:
    """One sentence pair with its questions, in the order of their `[QUE]` tokens.

    >>> ClismExample(
    ...     id="8f…", source_lang="en", target_lang="vi",
    ...     source_text="Anna lives in Hanoi.", masked_source_text="[QUE] lives in [QUE].",
    ...     target_text="Anna sống ở Hà Nội.",
    ...     questions=(
    ...         ClismQuestion(0, 0, 4, 0, 4, "PERSON", 0.98),  # Anna → Anna
    ...         ClismQuestion(15, 14, 19, 12, 18, "GPE", 0.91),  # Hanoi → Hà Nội
    ...     ),
    ...     corpus="news.en", line=17,
    ... )

    In Arabic `آنا تعيش في هانوي.` the same two answers would be `[0, 3)` and `[12, 17)`: offsets follow reading order.
    """

    id: str
    source_lang: str
    target_lang: str
    source_text: str
    masked_source_text: str
    target_text: str
    questions: tuple[ClismQuestion, ...]
    corpus: str
    line: int

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        # Written out: `dataclasses.asdict` copies deeply and takes twenty times as long.
        return {
            "id": self.id,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "source_text": self.source_text,
            "masked_source_text": self.masked_source_text,
            "target_text": self.target_text,
            "questions": [
                {
                    "que_start_char": question.que_start_char,
                    "source_start_char": question.source_start_char,
                    "source_end_char": question.source_end_char,
                    "answer_start_char": question.answer_start_char,
                    "answer_end_char": question.answer_end_char,
                    "entity_label": question.entity_label,
                    "alignment_score": question.alignment_score,
                }
                for question in self.questions
            ],
            "corpus": self.corpus,
            "line": self.line,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> ClismExample:
        """The example that an Arrow row holds. Its scores are 32-bit floats: 0.98 comes back as 0.9800000190734863."""
        return cls(**{**row, "questions": tuple(ClismQuestion(**question) for question in row["questions"])})


def problems(example: ClismExample) -> list[str]:
    """What breaks the contract in this example, in words; empty when nothing does."""
    found = []
    if not example.questions:
        found.append("has no question")
    rebuilt, end = "", 0
    answers = []
    for index, question in enumerate(example.questions):
        where = f"question {index}"
        if not 0 <= question.source_start_char < question.source_end_char <= len(example.source_text):
            found.append(f"{where}: source span lies outside source_text")
        if not 0 <= question.answer_start_char < question.answer_end_char <= len(example.target_text):
            found.append(f"{where}: answer span lies outside target_text")
        if question.source_start_char < end:
            found.append(f"{where}: mentions overlap or are out of order")
        rebuilt += example.source_text[end : question.source_start_char]
        if question.que_start_char != len(rebuilt):  # its own, and no `[QUE]` that the source text itself may hold
            found.append(f"{where}: its {QUE_TOKEN} is not at que_start_char {question.que_start_char}")
        if not 0.0 <= question.alignment_score <= 1.0:
            found.append(f"{where}: alignment_score {question.alignment_score} is not in 0..1")
        rebuilt += QUE_TOKEN
        end = question.source_end_char
        answers.append((question.answer_start_char, question.answer_end_char))
    if rebuilt + example.source_text[end:] != example.masked_source_text:
        found.append("masked_source_text is not source_text with its mentions replaced")
    answers.sort()
    if any(following[0] < answer[1] for answer, following in itertools.pairwise(answers)):
        found.append("answers overlap")
    return found
