"""A teacher's probabilities of the labels of unlabelled or translated texts (FILTER, Self-Teaching Loss)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import isclose
from typing import Any

import pyarrow as pa

from schemas.counts import Balance, Counts
from schemas.spec import CardText, SchemaSpec

NAME = "soft_labels"
VERSION = 1
REJECT_REASONS: dict[str, dict[str, str]] = {"sequence": {}}  # a teacher labels every sequence

_FLOATS = pa.list_(pa.field("item", pa.float32(), nullable=False))

ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("distributions", pa.list_(pa.field("item", _FLOATS, nullable=False)), nullable=False),
        pa.field("classes", pa.int32(), nullable=False),
    ],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)


@dataclass(frozen=True, slots=True)
class SoftLabelCounts(Counts):
    """The number of sequences of a language that the teacher labelled.

    >>> SoftLabelCounts(3, 3).problems()
    []
    """

    BALANCES = (Balance("sequence", "sequences_read", "examples", "sequence_rejects"),)
    REJECT_REASONS = REJECT_REASONS

    sequences_read: int = 0
    examples: int = 0
    sequence_rejects: dict[str, int] = field(default_factory=dict)  # reason → sequences

    @property
    def size(self) -> str:
        return f"soft labels of {self.examples:,} sequences"


@dataclass(frozen=True, slots=True)
class SoftLabels:
    """The probabilities for one sequence of tokens. Row n of a dataset belongs to the n-th sequence of the training.

    A pair has one distribution, over its labels; a question two, of the answer's first and last token, over all tokens
    of the sequence; a sentence of W words has W, over the tags.

    A sentence of two words, three tags:

    >>> problems(SoftLabels("n01001-0001 (de)", "de", ((0.5, 0.25, 0.25, 1.0, 0.0, 0.0),), classes=3))
    []
    """

    id: str  # of the sequence
    lang: str  # of the text that is labelled
    distributions: tuple[tuple[float, ...], ...]  # of a question two; otherwise one, word after word
    classes: int  # number of tokens, tags or labels that each probability is one of

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "distributions": [list(values) for values in self.distributions],
            "classes": self.classes,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> SoftLabels:
        """Returns the labels that an Arrow row holds; they are 32-bit floats."""
        return cls(**{**row, "distributions": tuple(tuple(values) for values in row["distributions"])})


def problems(example: SoftLabels) -> list[str]:
    """Returns what breaks the contract in these labels, in words."""
    found = [f"{name} is empty" for name in ("id", "lang") if not getattr(example, name)]
    if example.classes < 1:
        return [*found, f"classes is {example.classes}: expected 1 or more"]
    for number, values in enumerate(example.distributions, start=1):
        if len(values) % example.classes:
            found.append(f"distributions {number}: {len(values)} values, which {example.classes} classes do not divide")
            continue
        rows = [values[start : start + example.classes] for start in range(0, len(values), example.classes)]
        if any(not 0.0 <= value <= 1.0 for row in rows for value in row):
            found.append(f"distributions {number}: a probability is not in 0..1")
        elif any(not isclose(sum(row), 1.0, abs_tol=1e-3) for row in rows):
            found.append(f"distributions {number}: probabilities of a row do not add up to 1")
    return found


def counted(rows: pa.Table) -> pa.Table:
    """Returns the sequences of each language (`langs`)."""
    examples = Counter(rows["lang"].to_pylist())
    return pa.table(
        {"langs": pa.array(list(examples), pa.string()), "examples": pa.array(list(examples.values()), pa.int64())}
    )


_WHAT = """\
Each row holds the probabilities that a trained model, the teacher, gives to the labels of one sequence of tokens; a
second model, the student, learns from them. For a pair with three labels:

| field | |
| --- | --- |
| `distributions` | 0.5, 0.25, 0.25 |
| `classes` | 3 |

A question has two distributions, of the answer's first and last token, over the tokens of the sequence; a sentence has
one row of probabilities for each word, one after another. The manifest says by which teacher, tokenizer, labels and
records the probabilities were made.\
"""

CARD = CardText(
    title="Soft labels",
    what=_WHAT,
    source=None,
    license="unknown",
    tasks=("other",),
    tags=("distillation",),
    numbers=lambda counts: {"sequences": f"{counts.examples:,}"},
    answers='print(row["distributions"])',
)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=SoftLabels,
    counts=SoftLabelCounts,
    problems=problems,
    counted=counted,
    card=CARD,
    view="schemas.inspection.soft_labels_view:VIEW",
    identity=(),  # several windows of a text may have the same id
)
