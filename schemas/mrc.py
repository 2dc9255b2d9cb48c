"""Labelled records for fine-tuning and evaluation: questions, tagged sentences, sentence pairs.

There is one schema for each kind of benchmark. A method that asks one query per label (mPMR, table 6) also turns
tagging and classification into `MrcExample`s; `label` then names what the query asks for. mrc/2 has two more columns
than mrc/1, which is still read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Balance, Counts, share
from schemas.spans import CHAR_SPANS, CharSpan
from schemas.spec import CardText, SchemaSpec

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
    """A query, and a context that may answer it. Spans are code points, half-open.

    >>> example = MrcExample(
    ...     id="56be4db0acb8001400a502ec", lang="en", query="Who won?", context="The Broncos won.",
    ...     answers=(CharSpan(4, 11),), answer_texts=("Broncos",), answerable=True, task="xquad", label=None,
    ... )
    >>> problems(example)
    []

    In Chinese `丹佛野马队赢了。` the answer `丹佛野马队` would be `[0, 5)`.
    """

    id: str
    lang: str  # of the context
    query: str
    context: str
    answers: tuple[CharSpan, ...]  # of `context`; without answers that the file places elsewhere
    answer_texts: tuple[str, ...]  # as published; official metrics compare with these
    answerable: bool
    task: str
    label: str | None  # what the query asks for, if a task was turned into questions
    query_lang: str | None = None  # if it differs from `lang`, as in MLQA
    source_id: str | None = None  # the published id, if several records share it and `id` differs

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`. Omits the columns that mrc/1
        lacks if they are None, so that fingerprints and random draws of such records do not change."""
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
        """Returns the example that a row of mrc/2 holds, or of mrc/1, which has neither `query_lang` nor
        `source_id`."""
        return cls(**{**row, "answers": _spans(row["answers"]), "answer_texts": tuple(row["answer_texts"])})


@dataclass(frozen=True, slots=True)
class TaggingExample:
    """One sentence, the spans of its words, and one IOB2 tag per word (no tags if the file has no labels).

    >>> example = TaggingExample(
    ...     id="n01001-0001", lang="de", text="In Hanoi.", tokens=(CharSpan(0, 2), CharSpan(3, 8), CharSpan(8, 9)),
    ...     tags=("O", "B-LOC", "O"), task="universal_ner",
    ... )
    >>> problems(example)
    []

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
        """Returns the plain values that `pyarrow` turns into a row of `TAGGING_SCHEMA`."""
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
        """Returns the example that an Arrow row holds."""
        return cls(**{**row, "tokens": _spans(row["tokens"]), "tags": tuple(row["tags"])})


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two sentences and how they relate; `label` is None if the file has no labels.

    >>> example = PairExample("3", "en", "Anna lives in Hanoi.", "Hanoi is where Anna lives.", label="1", task="paws_x")
    >>> problems(example)
    []

    The same in Vietnamese: `PairExample("3", "vi", "Anna sống ở Hà Nội.", "Hà Nội là nơi Anna sống.", "1", "paws_x")`.
    """

    id: str
    lang: str
    sentence1: str
    sentence2: str
    label: str | None
    task: str

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `PAIR_SCHEMA`."""
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
        """Returns the example that an Arrow row holds."""
        return cls(**row)


def labels_in(example: MrcExample | TaggingExample | PairExample) -> int:
    """Returns the number of labels: answers with a known span, entities or targets, or the one label of a pair."""
    if isinstance(example, MrcExample):
        return len(example.answers)
    if isinstance(example, TaggingExample):
        return sum(tag.startswith("B-") for tag in example.tags)
    return int(example.label is not None)


def problems(example: MrcExample | TaggingExample | PairExample) -> list[str]:
    """Returns what breaks the contract in this example, in words."""
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


# --- counts and reasons -----------------------------------------------------------------------------------------------

REJECT_REASONS = {
    "record": {
        "breaks_contract": "The record breaks a rule of its schema; the excerpt says which.",
        "out_of_scope": "The file marks the sentence as out of scope.",
        "empty_text": "The sentence is empty or white space.",
    },
    "label": {
        "breaks_contract": "The label's record breaks a rule of its schema.",
        "out_of_scope": "The label's sentence is marked as out of scope.",
        "empty_text": "The label's sentence is empty or white space.",
        "answer_elsewhere": "The context holds another text at the answer's published offset.",
        "null_target": "The opinion has no target in the sentence.",
        "target_elsewhere": "The sentence holds another text at the target's published offsets.",
        "overlapping_targets": "The target overlaps an earlier target of the sentence.",
        "conflicting_polarity": "The file gives the same target another polarity earlier.",
        "repeated_target": "The file gives the same target with the same polarity earlier.",
    },
}


@dataclass(frozen=True, slots=True)
class RecordCounts(Counts):
    """What became of a language's records in published files, and of the labels of all these records: answers,
    entities, targets of sentiment, labels of pairs.

    >>> RecordCounts(1_722, 1_711, {"out_of_scope": 11}, 1_860, 1_283, {"null_target": 577}).problems()
    []
    """

    BALANCES = (
        Balance("record", "records_read", "examples", "record_rejects"),
        Balance("label", "labels_found", "labels_kept", "label_rejects"),
    )
    REJECT_REASONS = REJECT_REASONS
    ADDED = ("labels_found", "labels_kept", "label_rejects")

    records_read: int = 0
    examples: int = 0
    record_rejects: dict[str, int] = field(default_factory=dict)  # reason → records
    labels_found: int = 0
    labels_kept: int = 0  # `labels_in` the rows
    label_rejects: dict[str, int] = field(default_factory=dict)  # reason → labels

    @property
    def size(self) -> str:
        return f"{self.examples:,} records"


def _counter(langs_of_labels: Callable[[pa.RecordBatch], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    """Returns a function that counts the records and labels of each language (`langs`).

    `langs_of_labels` maps rows to the language of each label that `labels_in` counts in them.
    """

    def counted(rows: pa.Table) -> pa.Table:
        examples, labels = Counter[str](), Counter[str]()
        for batch in rows.to_batches():
            for tally, langs in ((examples, batch["lang"]), (labels, langs_of_labels(batch))):
                tally.update({row["values"]: row["counts"] for row in pc.value_counts(langs).to_pylist()})
        langs = list(examples)
        return pa.table(
            {
                "langs": pa.array(langs, pa.string()),
                "examples": pa.array([examples[lang] for lang in langs], pa.int64()),
                "labels_kept": pa.array([labels[lang] for lang in langs], pa.int64()),
            }
        )

    return counted


def _langs_of_answers(batch: pa.RecordBatch) -> pa.Array:
    return batch["lang"].take(pc.list_parent_indices(batch["answers"]))


def _langs_of_entities(batch: pa.RecordBatch) -> pa.Array:
    begins = pc.starts_with(pc.list_flatten(batch["tags"]), "B-")
    return batch["lang"].take(pc.list_parent_indices(batch["tags"]).filter(begins))


def _langs_of_pairs(batch: pa.RecordBatch) -> pa.Array:
    return batch["lang"].filter(pc.is_valid(batch["label"]))


# --- dataset cards and specifications --------------------------------------------------------------------------------

_WHAT_MRC = """\
Each row is a question and a context that may answer it. For example:

| field | |
| --- | --- |
| `query` | Who won? |
| `context` | The Broncos won. |
| `answers` | `start_char` 4, `end_char` 11 (Broncos) |
| `answer_texts` | Broncos |
| `answerable` | true |

All offsets count Unicode code points and are half-open: `context[start_char:end_char]` is the answer. `answer_texts`
are the answers as published, which official scorers compare with.\
"""

_WHAT_MRC_2 = f"""\
{_WHAT_MRC}

`query_lang` is the language of the query where it is another than that of the context, `lang`; otherwise null.
`source_id` is the published id where several records have it, so that `id` is another; otherwise null.\
"""

_WHAT_TAGGING = """\
Each row is a sentence, where its words stand in it, and a tag for each word in IOB2; no tags where none are known. For
example:

| field | |
| --- | --- |
| `text` | In Hanoi. |
| `tokens` | `start_char` 0, `end_char` 2 (In); 3, 8 (Hanoi); 8, 9 (.) |
| `tags` | O, B-LOC, O |

All offsets count Unicode code points and are half-open: `text[start_char:end_char]` is the word.\
"""

_WHAT_PAIR = """\
Each row is two sentences and how they relate; the label is null where none is known. For example:

| field | |
| --- | --- |
| `sentence1` | Anna lives in Hanoi. |
| `sentence2` | Hanoi is where Anna lives. |
| `label` | 1 |\
"""

_SOURCE_RECORDS = """\
The records are those of the files named below, under the license of those files.\
"""


def _card_numbers(counts: RecordCounts) -> dict[str, str]:
    return {
        "records read": f"{counts.records_read:,}",
        "records": f"{counts.examples:,}",
        "kept": share(counts.examples, counts.records_read),
    }


MRC_CARD = CardText(
    title="Questions",
    what=_WHAT_MRC,
    source=_SOURCE_RECORDS,
    license="unknown",
    tasks=("question-answering",),
    tags=("machine-reading-comprehension",),
    numbers=_card_numbers,
    answers='for answer in row["answers"]:\n    print(row["context"][answer["start_char"] : answer["end_char"]])',
)

# Parallel benchmarks use the same ids in every language; MLQA asks the question of an id in up to seven languages.
MRC_1_SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA_1,
    example=MrcExample,
    counts=RecordCounts,
    problems=problems,
    counted=_counter(_langs_of_answers),
    card=MRC_CARD,
    view="schemas.inspection.records_view:QUESTIONS",
    identity=("lang", "id"),
)

MRC_2_SPEC = replace(
    MRC_1_SPEC,
    arrow=ARROW_SCHEMA,
    card=replace(MRC_CARD, what=_WHAT_MRC_2),
    identity=("lang", "query_lang", "id"),
)

TAGGING_SPEC = SchemaSpec(
    arrow=TAGGING_SCHEMA,
    example=TaggingExample,
    counts=RecordCounts,
    problems=problems,
    counted=_counter(_langs_of_entities),
    card=CardText(
        title="Tagged sentences",
        what=_WHAT_TAGGING,
        source=_SOURCE_RECORDS,
        license="unknown",
        tasks=("token-classification",),
        tags=("named-entity-recognition",),
        numbers=_card_numbers,
        answers='for token, tag in zip(row["tokens"], row["tags"]):\n'
        '    print(row["text"][token["start_char"] : token["end_char"]], tag)',
    ),
    view="schemas.inspection.records_view:SENTENCES",
    identity=("lang", "id"),
)

PAIR_SPEC = SchemaSpec(
    arrow=PAIR_SCHEMA,
    example=PairExample,
    counts=RecordCounts,
    problems=problems,
    counted=_counter(_langs_of_pairs),
    card=CardText(
        title="Sentence pairs",
        what=_WHAT_PAIR,
        source=_SOURCE_RECORDS,
        license="unknown",
        tasks=("text-classification",),
        tags=("sentence-pairs",),
        numbers=_card_numbers,
        answers='print(row["sentence1"], row["sentence2"], row["label"])',
    ),
    view="schemas.inspection.records_view:PAIRS",
    identity=("lang", "id"),
)
