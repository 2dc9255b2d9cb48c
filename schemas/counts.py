"""The two ledgers of a job: every pair read and every mention found ends in exactly one column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PairCounts:
    """What became of one language pair's records. Chunks add up: `sum(chunks, PairCounts())`.

    >>> PairCounts(3, 1, {"no_mention": 2}, 2, 1, {"no_link": 1})
    """

    pairs_read: int = 0
    examples: int = 0
    pair_rejects: dict[str, int] = field(default_factory=dict)  # reason → pairs
    mentions_found: int = 0
    questions: int = 0
    mention_rejects: dict[str, int] = field(default_factory=dict)  # reason → mentions

    def __add__(self, other: PairCounts) -> PairCounts:
        return PairCounts(
            self.pairs_read + other.pairs_read,
            self.examples + other.examples,
            _added(self.pair_rejects, other.pair_rejects),
            self.mentions_found + other.mentions_found,
            self.questions + other.questions,
            _added(self.mention_rejects, other.mention_rejects),
        )

    def problems(self) -> list[str]:
        """Which ledger does not add up, in words; empty when both do."""
        found = []
        for unit, read, kept_as, kept, rejects in (
            ("pairs read", self.pairs_read, "examples", self.examples, self.pair_rejects),
            ("mentions found", self.mentions_found, "questions", self.questions, self.mention_rejects),
        ):
            rejected = sum(rejects.values())
            if read != kept + rejected:
                found.append(f"{read} {unit}, but {kept} {kept_as} + {rejected} rejects = {kept + rejected}")
            if min(read, kept, *rejects.values()) < 0:
                found.append(f"a count of {unit} is negative")
        return found

    def check(self) -> None:
        """Raises `ValueError` if a record was lost or counted twice: an error of the job, never of its data."""
        if found := self.problems():
            raise ValueError(f"the counts do not add up: {'; '.join(found)}")

    def to_json(self) -> dict[str, Any]:
        """Plain values; reasons in alphabetical order."""
        return {
            "pairs_read": self.pairs_read,
            "examples": self.examples,
            "pair_rejects": dict(sorted(self.pair_rejects.items())),
            "mentions_found": self.mentions_found,
            "questions": self.questions,
            "mention_rejects": dict(sorted(self.mention_rejects.items())),
        }


def _added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    total = Counter(left)
    total.update(right)
    return dict(sorted(total.items()))
