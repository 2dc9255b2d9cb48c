"""Labelled records for fine-tuning and evaluation: questions, tagged sentences, sentence pairs.

Three schemas, one for each shape that benchmarks come in. Tagging and classification become `MrcExample`s too where a
method asks one query per label (mPMR, table 6): then `label` names what the query asks for. mrc/2 has two columns more
than mrc/1, which is still read.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.spans import CHAR_SPANS, CharSpan

NAME, TAGGING_NAME, PAIR_NAME = "mrc", "tagging", "pair"
VERSION, TAGGING_VERSION, PAIR_VERSION = 2, 1, 1

_STRINGS = pa.list_(pa.field("item", pa.string(), nullable=False))

ARROW_SCHEMA_1 = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("query", pa.string(), nullable=False),
        pa.field("context", pa.string(), nullable=False),
        pa.field("answers", CHAR_SPANS, nullable=False),
        pa.field("answer_texts", _STRINGS, nullable=False),
        pa.field("answerable", pa.bool_(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("label", pa.string()),
    ],
    metadata={"polyspan.schema": f"{NAME}/1"},
)
ARROW_SCHEMA = pa.schema(
    [*ARROW_SCHEMA_1, pa.field("query_lang", pa.string()), pa.field("source_id", pa.string())],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)

TAGGING_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("tokens", CHAR_SPANS, nullable=False),
        pa.field("tags", _STRINGS, nullable=False),
        pa.field("task", pa.string(), nullable=False),
    ],
    metadata={"polyspan.schema": f"{TAGGING_NAME}/{TAGGING_VERSION}"},
)

PAIR_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("sentence1", pa.string(), nullable=False),
        pa.field("sentence2", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("task", pa.string(), nullable=False),
    ],
    metadata={"polyspan.schema": f"{PAIR_NAME}/{PAIR_VERSION}"},
)


@dataclass(frozen=True, slots=True)
class MrcExample:
    """One query and one context. Spans are code points, half-open.

    >>> MrcExample(
    ...     id="56be4db0acb8001400a502ec", lang="en", query="Who won?", context="The Broncos won.",
    ...     answers=(CharSpan(4, 11),), answer_texts=("Broncos",), answerable=True, task="xquad", label=None,
    ... )

    In Chinese `丹佛野马队赢了。` the answer `丹佛野马队` would be `[0, 5)`.
    """

    id: str
    lang: str  # of the context
    query: str
    context: str
    answers: tuple[CharSpan, ...]  # of `context`: those that hold what the file says they hold
    answer_texts: tuple[str, ...]  # as published: what official metrics compare with
    answerable: bool
    task: str
    label: str | None  # which label the query asks for, where a task was turned into questions
    query_lang: str | None = None  # where it is another than `lang`: in MLQA
    source_id: str | None = None  # the published id, where `id` is another because several records have that one

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`; without those that are None in all rows
        of mrc/1, so that fingerprints and draws of such records stay what they were."""
        added = {"query_lang": self.query_lang, "source_id": self.source_id}
        return {
            "id": self.id,
            "lang": self.lang,
            "query": self.query,
            "context": self.context,
            "answers": _rows(self.answers),
            "answer_texts": list(self.answer_texts),
            "answerable": self.answerable,
            "task": self.task,
            "label": self.label,
            **{name: value for name, value in added.items() if value is not None},
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> MrcExample:
        """The example that an Arrow row of mrc/2 holds, or one of mrc/1, which has neither `query_lang` nor
        `source_id`: this is how the older version is upgraded."""
        return cls(**{**row, "answers": _spans(row["answers"]), "answer_texts": tuple(row["answer_texts"])})


@dataclass(frozen=True, slots=True)
class TaggingExample:
    """One sentence, its words as spans of it, and one IOB2 tag per word (none at all where the file has no labels).

    >>> TaggingExample(
    ...     id="n01001-0001", lang="de", text="In Hanoi.", tokens=(CharSpan(0, 2), CharSpan(3, 8), CharSpan(8, 9)),
    ...     tags=("O", "B-LOC", "O"), task="universal_ner",
    ... )

    In Chinese `在河内。` the words would be `[0, 1)`, `[1, 3)` and `[3, 4)`.
    """

    id: str
    lang: str
    text: str
    tokens: tuple[CharSpan, ...]
    tags: tuple[str, ...]
    task: str

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(span.of(self.text) for span in self.tokens)

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `TAGGING_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "text": self.text,
            "tokens": _rows(self.tokens),
            "tags": list(self.tags),
            "task": self.task,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> TaggingExample:
        """The example that an Arrow row holds."""
        return cls(**{**row, "tokens": _spans(row["tokens"]), "tags": tuple(row["tags"])})


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two sentences and how they relate; `label` is None where the file has no labels.

    >>> PairExample("3", "en", "Anna lives in Hanoi.", "Hanoi is where Anna lives.", label="1", task="paws_x")

    In Vietnamese: `PairExample("3", "vi", "Anna sống ở Hà Nội.", "Hà Nội là nơi Anna sống.", "1", "paws_x")`.
    """

    id: str
    lang: str
    sentence1: str
    sentence2: str
    label: str | None
    task: str

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `PAIR_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "sentence1": self.sentence1,
            "sentence2": self.sentence2,
            "label": self.label,
            "task": self.task,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> PairExample:
        """The example that an Arrow row holds."""
        return cls(**row)


def labels_in(example: MrcExample | TaggingExample | PairExample) -> int:
    """How many labels a record has: answers whose place in the context is known, entities or targets, a pair's one."""
    if isinstance(example, MrcExample):
        return len(example.answers)
    if isinstance(example, TaggingExample):
        return sum(tag.startswith("B-") for tag in example.tags)
    return int(example.label is not None)


def problems(example: MrcExample | TaggingExample | PairExample) -> list[str]:
    """What breaks the contract in this example, in words; empty when nothing does."""
    found = [f"{name} is empty" for name in ("id", "lang", "task") if not getattr(example, name)]
    if isinstance(example, MrcExample):
        found += [f"{name} is empty" for name in ("query_lang", "source_id") if getattr(example, name) == ""]
        if example.query_lang == example.lang:
            found.append(f"query_lang is {example.lang}, as lang: expected none, or another")
        if any(not 0 <= start < end <= len(example.context) for start, end in example.answers):
            found.append("an answer lies outside the context, or is empty")
        texts = {span.of(example.context) for span in example.answers}
        found += [f"answer {text!r} is none of answer_texts" for text in sorted(texts.difference(example.answer_texts))]
        if example.answerable != bool(example.answer_texts):
            found.append(f"answerable is {example.answerable}, but it has {len(example.answer_texts)} answer_texts")
    elif isinstance(example, TaggingExample):
        if any(not 0 <= start <= end <= len(example.text) for start, end in example.tokens):  # WikiAnn has empty words
            found.append("a token lies outside the text")
        if any(left.end > right.start for left, right in itertools.pairwise(example.tokens)):
            found.append("tokens overlap or are out of order")
        if example.tags and len(example.tags) != len(example.tokens):
            found.append(f"{len(example.tokens)} tokens, but {len(example.tags)} tags")
        for before, tag in itertools.pairwise(("O", *example.tags)):
            if tag != "O" and not (tag[:2] == "B-" or (tag[:2] == "I-" and before[2:] == tag[2:] and before != "O")):
                found.append(f"tag {tag} after {before} is not IOB2")
    return found


def _rows(spans: tuple[CharSpan, ...]) -> list[dict[str, int]]:
    return [{"start_char": start, "end_char": end} for start, end in spans]


def _spans(rows: list[dict[str, int]]) -> tuple[CharSpan, ...]:
    return tuple(CharSpan(row["start_char"], row["end_char"]) for row in rows)
