"""A baseline's best answers to each question, which two-stage training needs (the Z of its Hard-Learning Algorithm)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Balance, Counts, share
from schemas.spec import CardText, SchemaSpec

NAME = "candidates"
VERSION = 1
RECALL_AT = (1, 3, 5, 10, 20)
REJECT_REASONS: dict[str, dict[str, str]] = {"record": {}}  # a baseline answers every question

_CANDIDATE = pa.struct(
    [
        pa.field("start_char", pa.int32(), nullable=False),
        pa.field("end_char", pa.int32(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),
    ]
)

ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("candidates", pa.list_(pa.field("item", _CANDIDATE, nullable=False)), nullable=False),
        pa.field("gold_rank", pa.int32()),
    ],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)


@dataclass(frozen=True, slots=True)
class CandidateCounts(Counts):
    """For how many questions of a language the true answer is among the baseline's k best candidates.

    >>> CandidateCounts(9, 9, hits_at_1=5, hits_at_3=6, hits_at_5=7, hits_at_10=8, hits_at_20=8).problems()
    []
    """

    BALANCES = (Balance("record", "records_read", "examples", "record_rejects"),)
    REJECT_REASONS = REJECT_REASONS

    records_read: int = 0
    examples: int = 0
    record_rejects: dict[str, int] = field(default_factory=dict)  # reason → records
    hits_at_1: int = 0
    hits_at_3: int = 0
    hits_at_5: int = 0
    hits_at_10: int = 0
    hits_at_20: int = 0

    @property
    def hits(self) -> dict[int, int]:
        """Returns k → number of questions whose true answer is among the best k."""
        return {k: getattr(self, f"hits_at_{k}") for k in RECALL_AT}

    @property
    def size(self) -> str:
        return f"candidates for {self.examples:,} questions"


class Candidate(NamedTuple):
    """A span that the baseline proposes: code points `[start_char, end_char)` of the question's context."""

    start_char: int
    end_char: int
    score: float  # P(start) · P(end): 0..1


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """One question's candidates, best first. Row n of a dataset belongs to the n-th record that the baseline was asked.

    With the context `The Broncos won.`, whose answer is `Broncos`:

    >>> example = CandidateSet(
    ...     id="56be4db0acb8001400a502ec", lang="en",
    ...     candidates=(Candidate(0, 11, 0.5), Candidate(4, 11, 0.25)),  # The Broncos, Broncos
    ...     gold_rank=2,
    ... )
    >>> problems(example)
    []

    In the Chinese context `丹佛野马队赢了。`, the same two candidates might be
    `Candidate(0, 6, 0.5)` and `Candidate(0, 5, 0.25)`.
    """

    id: str  # of the `MrcExample`
    lang: str
    candidates: tuple[Candidate, ...]
    gold_rank: int | None  # of the first candidate that is a true answer, counted from 1; None if none is

    @property
    def counts(self) -> CandidateCounts:
        """Counts this question alone."""
        rank = math.inf if self.gold_rank is None else self.gold_rank
        return CandidateCounts(1, 1, {}, *(int(rank <= k) for k in RECALL_AT))

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "candidates": [candidate._asdict() for candidate in self.candidates],
            "gold_rank": self.gold_rank,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> CandidateSet:
        """Returns the set that an Arrow row holds; its scores are 32-bit floats."""
        return cls(**{**row, "candidates": tuple(Candidate(**candidate) for candidate in row["candidates"])})


def problems(example: CandidateSet) -> list[str]:
    """Returns what breaks the contract in this set, in words."""
    found = [f"{name} is empty" for name in ("id", "lang") if not getattr(example, name)]
    for rank, (start, end, score) in enumerate(example.candidates, 1):
        if not 0 <= start < end:
            found.append(f"candidate {rank} is no span: [{start}, {end})")
        if not 0.0 <= score <= 1.0 or math.isnan(score):
            found.append(f"candidate {rank}: score {score} is not in 0..1")
    if any(better.score < worse.score for better, worse in itertools.pairwise(example.candidates)):
        found.append("candidates are not in the order of their scores")
    if len({candidate[:2] for candidate in example.candidates}) < len(example.candidates):
        found.append("a candidate occurs twice")
    if example.gold_rank is not None and not 1 <= example.gold_rank <= len(example.candidates):
        found.append(f"gold_rank is {example.gold_rank}, but there are {len(example.candidates)} candidates")
    return found


def counted(rows: pa.Table) -> pa.Table:
    """Returns the questions and hits of each language (`langs`)."""
    hits = {f"hits_at_{k}": pc.fill_null(pc.less_equal(rows["gold_rank"], k), False) for k in RECALL_AT}
    table = pa.table({"lang": rows["lang"], **hits})
    groups = table.group_by("lang").aggregate([([], "count_all"), *((name, "sum") for name in hits)])
    return pa.table(
        {
            "langs": groups["lang"],
            "examples": groups["count_all"],
            **{name: groups[f"{name}_sum"] for name in hits},
        }
    )


_WHAT = """\
Each row holds the spans that a fine-tuned model finds most probable as the answer to one question, best first. The
question and its context stand in the records that the model was asked, under the same id. For example, of the context
"The Broncos won.", where the answer is "Broncos":

| field | |
| --- | --- |
| `candidates` | `start_char` 0, `end_char` 11, `score` 0.5 (The Broncos); 4, 11, 0.25 (Broncos) |
| `gold_rank` | 2 |

All offsets count Unicode code points and are half-open: `context[start_char:end_char]` is the candidate. `score` is its
probability; `gold_rank` counts from 1, and is null where no candidate is a true answer.\
"""


def _card_numbers(counts: CandidateCounts) -> dict[str, str]:
    recalls = {f"recall@{k}": share(hits, counts.examples) for k, hits in counts.hits.items()}
    return {"questions": f"{counts.examples:,}", **recalls}


CARD = CardText(
    title="Candidate answers",
    what=_WHAT,
    source=None,
    license="unknown",
    tasks=("question-answering",),
    tags=("span-extraction",),
    numbers=_card_numbers,
    answers='for candidate in row["candidates"]:\n    print(candidate["score"])',
    units={"record": "question"},
)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=CandidateSet,
    counts=CandidateCounts,
    problems=problems,
    counted=counted,
    card=CARD,
    view="schemas.inspection.candidates_view:VIEW",
    identity=(),  # several questions may have the same published id
)
