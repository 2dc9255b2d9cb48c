"""Translations of labelled records: what X-Mixup and FILTER read beside a record, in training and in prediction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Balance, Counts, share
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.mrc import problems as record_problems
from schemas.spans import CHAR_SPANS, CharSpan
from schemas.spec import CardText, SchemaSpec

NAME = "translations"
VERSION = 1

Kind = Literal["qa", "tagging", "pairs"]
Labels = Literal["known", "projected", "unknown"]

TEXTS: dict[str, tuple[str, ...]] = {
    "qa": ("query", "context"),
    "tagging": ("text",),
    "pairs": ("sentence1", "sentence2"),
}
"""Kind of record → the fields that hold its texts, in the order of `texts`."""

_STRINGS = pa.list_(pa.field("item", pa.string(), nullable=False))

ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source_lang", pa.string(), nullable=False),
        pa.field("target_lang", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("source_texts", _STRINGS, nullable=False),
        pa.field("texts", _STRINGS, nullable=False),
        pa.field("labels", pa.string(), nullable=False),
        pa.field("score", pa.float32()),
        pa.field("answers", CHAR_SPANS, nullable=False),
        pa.field("tokens", CHAR_SPANS, nullable=False),
        pa.field("tags", _STRINGS, nullable=False),
        pa.field("label", pa.string()),
    ],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)


@dataclass(frozen=True, slots=True)
class Translation:
    """The texts of one record in another language, and what is known of its labels there.

    >>> translation = Translation(
    ...     id="56be4db0acb8001400a502ec", source_lang="en", target_lang="de", kind="qa", task="squad",
    ...     source_texts=("Who won?", "The Broncos won."), texts=("Wer gewann?", "Die Broncos gewannen."),
    ...     labels="projected", score=0.9, answers=(CharSpan(4, 11),),
    ... )
    >>> problems(translation)
    []
    >>> translation.record().answer_texts
    ('Broncos',)

    In the Chinese translation `野马队赢了。` the answer `野马队` would be `[0, 3)`.
    """

    id: str  # of the record that was translated
    source_lang: str  # of `source_texts`
    target_lang: str  # of `texts`
    kind: Kind
    task: str
    source_texts: tuple[str, ...]  # what was translated; empty if the file of translations does not have it
    texts: tuple[str, ...]  # as many as the kind has fields of text (`TEXTS`)
    labels: Labels  # known: given with the translation; projected: carried over by word alignment
    score: float | None = None  # of projected labels: confidence in 0..1, the lowest of the record's labels
    answers: tuple[CharSpan, ...] = ()  # qa: spans of the context
    tokens: tuple[CharSpan, ...] = ()  # tagging: the words
    tags: tuple[str, ...] = ()  # tagging: one per word, in IOB2; empty if unknown
    label: str | None = None  # pairs

    def record(self) -> MrcExample | TaggingExample | PairExample:
        """Returns the translation as a record of its kind. Unknown labels become none: an unanswerable question, a
        sentence without tags or a pair without a label."""
        if self.kind == "qa":
            query, context = self.texts
            answer_texts = tuple(dict.fromkeys(span.of(context) for span in self.answers))
            answerable = bool(answer_texts)
            return MrcExample(
                self.id, self.target_lang, query, context, self.answers, answer_texts, answerable, self.task, None
            )
        if self.kind == "tagging":
            return TaggingExample(self.id, self.target_lang, self.texts[0], self.tokens, self.tags, self.task)
        sentence1, sentence2 = self.texts
        return PairExample(self.id, self.target_lang, sentence1, sentence2, self.label, self.task)

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        row = {name: getattr(self, name) for name in ARROW_SCHEMA.names}
        for name in ("source_texts", "texts", "tags"):
            row[name] = list(row[name])
        for name in ("answers", "tokens"):
            row[name] = [{"start_char": start, "end_char": end} for start, end in row[name]]
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Translation:
        """Returns the translation that an Arrow row holds; its score is a 32-bit float."""
        spans = {
            name: tuple(CharSpan(span["start_char"], span["end_char"]) for span in row[name])
            for name in ("answers", "tokens")
        }
        texts = {name: tuple(row[name]) for name in ("source_texts", "texts", "tags")}
        return cls(**{**row, **spans, **texts})


def texts_of(record: MrcExample | TaggingExample | PairExample) -> tuple[str, ...]:
    """Returns the texts of a record in the order of `TEXTS`."""
    return tuple(getattr(record, name) for name in TEXTS[kind_of(record)])


def kind_of(record: MrcExample | TaggingExample | PairExample) -> Kind:
    """Returns the kind of a record."""
    if isinstance(record, MrcExample):
        return "qa"
    return "tagging" if isinstance(record, TaggingExample) else "pairs"


def problems(example: Translation) -> list[str]:
    """Returns what breaks the contract in this translation, in words."""
    if example.kind not in TEXTS:
        return [f"kind is {example.kind!r}: expected one of {', '.join(TEXTS)}"]
    expected = len(TEXTS[example.kind])
    if len(example.texts) != expected:
        return [f"{len(example.texts)} texts, but a record of kind {example.kind} has {expected}"]
    found = [f"{name} is empty" for name in ("source_lang", "target_lang") if not getattr(example, name)]
    if example.source_texts and len(example.source_texts) != expected:
        found.append(f"{len(example.source_texts)} source_texts: expected {expected}, or none")
    if example.labels not in ("known", "projected", "unknown"):
        found.append(f"labels is {example.labels!r}: expected known, projected or unknown")
    if example.labels == "unknown" and (example.answers or example.tags or example.label is not None):
        found.append("labels is unknown, but there are labels")
    if (example.score is None) != (example.labels != "projected"):
        found.append(f"score is {example.score}, but labels is {example.labels}: only projected labels have a score")
    if example.score is not None and not 0.0 <= example.score <= 1.0:
        found.append(f"score {example.score} is not in 0..1")
    return found + record_problems(example.record())


# --- counts and reasons -----------------------------------------------------------------------------------------------

REJECT_REASONS = {
    "record": {
        "empty_text": "A text of the record, or the translation of one of its sentences, is empty or white space.",
        "too_long": "A sentence has more tokens than the translation model reads, and no place to cut it.",
        "unfinished": "The model's translation of a sentence does not end within the model's limit.",
        "breaks_contract": "The translation breaks a rule of its schema; the excerpt says which.",
    }
}


@dataclass(frozen=True, slots=True)
class TranslationCounts(Counts):
    """What became of the records of a language pair, and how many translations have labels.

    >>> TranslationCounts(10, 9, {"empty_text": 1}, known=0, projected=8, unknown=1).problems()
    []
    """

    BALANCES = (Balance("record", "records_read", "examples", "record_rejects"),)
    REJECT_REASONS = REJECT_REASONS

    records_read: int = 0
    examples: int = 0
    record_rejects: dict[str, int] = field(default_factory=dict)  # reason → records
    known: int = 0  # examples by `labels`
    projected: int = 0
    unknown: int = 0

    @property
    def size(self) -> str:
        return f"{self.examples:,} translations"


def counted(rows: pa.Table) -> pa.Table:
    """Returns the translations of each language pair (`langs`), also by what is known of their labels."""
    pairs = pc.binary_join_element_wise(rows["source_lang"], rows["target_lang"], "-").to_pylist()
    examples = Counter(pairs)
    by_labels = Counter(zip(pairs, rows["labels"].to_pylist(), strict=True))
    langs = list(examples)
    return pa.table(
        {
            "langs": pa.array(langs, pa.string()),
            "examples": pa.array([examples[pair] for pair in langs], pa.int64()),
            **{
                name: pa.array([by_labels[pair, name] for pair in langs], pa.int64())
                for name in ("known", "projected", "unknown")
            },
        }
    )


_WHAT = """\
Each row is a labelled record in another language, for training on a text beside its translation (X-Mixup, FILTER) and
for prediction with a translation. For example:

| field | |
| --- | --- |
| `id`, `source_lang`, `target_lang` | the id of the record, `en`, `de` |
| `source_texts` | Who won? · The Broncos won. |
| `texts` | Wer gewann? · Die Broncos gewannen. |
| `labels`, `score` | projected, 0.9 |
| `answers` | `start_char` 4, `end_char` 11 (Broncos) |

`kind` is `qa` (texts: query, context), `tagging` (the text) or `pairs` (two sentences). `labels` says how the labels of
the translation came about: `known` (given with the translation), `projected` (carried over by word alignment, with
`score`) or `unknown`. All offsets count Unicode code points and are half-open.\
"""


def _card_numbers(counts: TranslationCounts) -> dict[str, str]:
    labelled = counts.known + counts.projected
    return {"records": f"{counts.records_read:,}", "translations": f"{counts.examples:,}"} | {
        "labelled": share(labelled, counts.examples)
    }


CARD = CardText(
    title="Translated records",
    what=_WHAT,
    source="The records are those of the files named below, under the license of those files.",
    license="unknown",
    tasks=("translation",),
    tags=("parallel", "span-extraction"),
    numbers=_card_numbers,
    answers='print(row["source_texts"], row["texts"])',
)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=Translation,
    counts=TranslationCounts,
    problems=problems,
    counted=counted,
    card=CARD,
    view="schemas.inspection.translations_view:VIEW",
    langs="pair",
    identity=("source_lang", "target_lang", "id"),
)
