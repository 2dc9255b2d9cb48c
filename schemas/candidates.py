"""A baseline's best answers to each question, for two-stage training (two-stage, Hard-Learning Algorithm: its Z)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.counts import RECALL_AT, CandidateCounts

NAME = "candidates"
VERSION = 1

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


class Candidate(NamedTuple):
    """Code points `[start_char, end_char)` of the question's context, and how probable the baseline finds them."""

    start_char: int
    end_char: int
    score: float  # P(start) · P(end): 0..1


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """One question's candidates, best first. Row n of a folder belongs to row n of the records that were asked.

    To the context `The Broncos won.`, whose answer is `Broncos`:

    >>> CandidateSet(
    ...     id="56be4db0acb8001400a502ec", lang="en",
    ...     candidates=(Candidate(0, 11, 0.5), Candidate(4, 11, 0.25)),  # The Broncos, Broncos
    ...     gold_rank=2,
    ... )

    To the Chinese `丹佛野马队赢了。`, the same two might be `Candidate(0, 6, 0.5)` and `Candidate(0, 5, 0.25)`.
    """

    id: str  # of the `MrcExample`
    lang: str
    candidates: tuple[Candidate, ...]
    gold_rank: int | None  # of the first candidate that is a true answer, from 1; None where none is

    @property
    def counts(self) -> CandidateCounts:
        """Of this question alone; they add up."""
        rank = math.inf if self.gold_rank is None else self.gold_rank
        return CandidateCounts(1, 1, {}, *(int(rank <= k) for k in RECALL_AT))

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "candidates": [candidate._asdict() for candidate in self.candidates],
            "gold_rank": self.gold_rank,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> CandidateSet:
        """The set that an Arrow row holds; its scores are 32-bit floats."""
        return cls(**{**row, "candidates": tuple(Candidate(**candidate) for candidate in row["candidates"])})


def problems(example: CandidateSet) -> list[str]:
    """What breaks the contract in this set, in words; empty when nothing does."""
    found = [f"{name} is empty" for name in ("id", "lang") if not getattr(example, name)]
    for rank, (start, end, score) in enumerate(example.candidates, 1):
        if not 0 <= start < end:
            found.append(f"candidate {rank} is no span: [{start}, {end})")
        if not 0.0 <= score <= 1.0 or math.isnan(score):
            found.append(f"candidate {rank}: score {score} is not in 0..1")
    if any(better.score < worse.score for better, worse in itertools.pairwise(example.candidates)):
        found.append("candidates are not in the order of their scores")
    if len({candidate[:2] for candidate in example.candidates}) < len(example.candidates):
        found.append("a candidate stands there twice")
    if example.gold_rank is not None and not 1 <= example.gold_rank <= len(example.candidates):
        found.append(f"gold_rank is {example.gold_rank}, but there are {len(example.candidates)} candidates")
    return found
