"""CLISM examples: a masked source sentence, its translation, and the span that answers each `[QUE]` (CLISM, 3.1)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Balance, Counts, share
from schemas.spec import CardText, SchemaSpec

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
    """One `[QUE]`, the mention that it replaces, and its answer. All offsets are code points, half-open.

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
    """A sentence pair whose questions are in the order of their `[QUE]` tokens.

    >>> example = ClismExample(
    ...     id="8f…", source_lang="en", target_lang="vi",
    ...     source_text="Anna lives in Hanoi.", masked_source_text="[QUE] lives in [QUE].",
    ...     target_text="Anna sống ở Hà Nội.",
    ...     questions=(
    ...         ClismQuestion(0, 0, 4, 0, 4, "PERSON", 0.98),  # Anna → Anna
    ...         ClismQuestion(15, 14, 19, 12, 18, "GPE", 0.91),  # Hanoi → Hà Nội
    ...     ),
    ...     corpus="news.en", line=17,
    ... )
    >>> problems(example)
    []

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
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        # `dataclasses.asdict` copies deeply and takes twenty times as long.
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
        """Returns the example that an Arrow row holds. Scores are 32-bit floats: 0.98 becomes 0.9800000190734863."""
        return cls(**{**row, "questions": tuple(ClismQuestion(**question) for question in row["questions"])})


def problems(example: ClismExample) -> list[str]:
    """Returns what breaks the contract in this example, in words."""
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
        if question.que_start_char != len(rebuilt):  # the source text may contain a `[QUE]` of its own
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


# --- counts and reasons -----------------------------------------------------------------------------------------------

REJECT_REASONS = {
    "pair": {
        "invalid_utf8": "A side of the pair is not valid UTF-8.",
        "nul_character": "A side of the pair contains a NUL character.",
        "line_too_long": "A side of the pair is longer than 1 MiB.",
        "missing_side": "The row or translation unit has no text in one of the two languages.",
        "empty_side": "A side of the pair is empty or white space.",
        "identical_sides": "Both sides of the pair are the same text.",
        "duplicate": "The same pair of texts occurs earlier in the input.",
        "too_long": "A side of the pair has more words than filters.max_words.",
        "length_ratio": "One side of the pair has many more words than the other (filters.max_length_ratio).",
        "no_mention": "The tagger found no entity in the source sentence.",
        "no_answer": "Every mention of the source sentence was refused.",
    },
    "mention": {
        "not_on_word_boundary": "The mention does not begin and end at the edges of words.",
        "mention_too_long": "The mention has more words than masking.max_span_words.",
        "only_punctuation": "The mention or its answer consists of punctuation.",
        "only_stop_words": "The mention or its answer consists of stop words and punctuation.",
        "no_link": "The aligner links no word of the mention to the translation.",
        "answer_too_long": "The answer has more words than masking.max_span_words.",
        "inconsistent": "A word of the answer is linked to a source word outside the mention.",
        "low_score": "The answer's alignment score is below masking.min_score.",
        "overlapping_answers": "The answer overlaps the answer of a mention with a better score.",
    },
}


@dataclass(frozen=True, slots=True)
class PairCounts(Counts):
    """What became of a language pair's sentence pairs, and of the mentions in the pairs that were not refused.

    >>> PairCounts(3, 1, {"no_mention": 2}, 2, 1, {"no_link": 1}).problems()
    []
    """

    BALANCES = (
        Balance("pair", "pairs_read", "examples", "pair_rejects"),
        Balance("mention", "mentions_found", "questions", "mention_rejects"),
    )
    REJECT_REASONS = REJECT_REASONS

    pairs_read: int = 0
    examples: int = 0
    pair_rejects: dict[str, int] = field(default_factory=dict)  # reason → pairs
    mentions_found: int = 0
    questions: int = 0
    mention_rejects: dict[str, int] = field(default_factory=dict)  # reason → mentions

    @property
    def size(self) -> str:
        return f"{self.examples:,} examples with {self.questions:,} questions"


def counted(rows: pa.Table) -> pa.Table:
    """Returns the examples and questions of each language pair (`langs`)."""
    langs = pc.binary_join_element_wise(rows["source_lang"], rows["target_lang"], "-")
    table = pa.table({"langs": langs, "questions": pc.list_value_length(rows["questions"])})
    groups = table.group_by("langs").aggregate([([], "count_all"), ("questions", "sum")])
    return pa.table({"langs": groups["langs"], "examples": groups["count_all"], "questions": groups["questions_sum"]})


# --- dataset card and specification ----------------------------------------------------------------------------------

_WHAT = """\
Each row is a sentence and its translation. Some mentions of the source sentence are replaced by `[QUE]`; the answer to
a `[QUE]` is the span of the translation that says the same. For example:

| field | |
| --- | --- |
| `source_text` | Anna lives in Hanoi. |
| `masked_source_text` | [QUE] lives in [QUE]. |
| `target_text` | Anna sống ở Hà Nội. |
| `questions` | one per `[QUE]`, in order: `answer_start_char` 0, `answer_end_char` 4 (Anna); 12, 18 (Hà Nội) |

All offsets count Unicode code points and are half-open: `target_text[answer_start_char:answer_end_char]` is the
answer.\
"""


def _card_numbers(counts: PairCounts) -> dict[str, str]:
    return {
        "pairs read": f"{counts.pairs_read:,}",
        "examples": f"{counts.examples:,}",
        "kept": share(counts.examples, counts.pairs_read),
        "questions": f"{counts.questions:,}",
    }


CARD = CardText(
    title="CLISM examples",
    what=_WHAT,
    source=None,
    license="unknown",
    tasks=("question-answering", "token-classification"),
    tags=("cross-lingual", "span-extraction"),
    numbers=_card_numbers,
    answers='for question in row["questions"]:\n'
    '    print(row["target_text"][question["answer_start_char"] : question["answer_end_char"]])',
    units={"pair": "sentence pair"},
)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=ClismExample,
    counts=PairCounts,
    problems=problems,
    counted=counted,
    card=CARD,
    view="schemas.inspection.clism_view:VIEW",
    langs="pair",
)
