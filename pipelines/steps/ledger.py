"""Exact counts and a bounded sample of rejects, kept chunk by chunk and added up in any order."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from schemas.counts import PairCounts
from schemas.rejects import Reject


@dataclass
class Ledger:
    """What became of the records of some chunks.

    `sample` holds, per pair of languages and reason, the `sample_size` rejects that a hash of (seed, reject) ranks
    first: which ones they are depends on the input alone, never on the order in which chunks are done.
    """

    seed: int
    sample_size: int
    counts: dict[str, PairCounts] = field(default_factory=dict)
    sample: list[Reject] = field(default_factory=list)

    def add(self, pair: str, counts: PairCounts, rejects: Iterable[Reject] = ()) -> None:
        """Counts records of `pair`, and each of `rejects` under its unit and reason."""
        rejects = list(rejects)
        refused = {
            unit: dict(Counter(reject.reason for reject in rejects if reject.unit == unit))
            for unit in ("pair", "mention")
        }
        added = counts + PairCounts(pair_rejects=refused["pair"], mention_rejects=refused["mention"])
        self.counts[pair] = self.counts.get(pair, PairCounts()) + added
        self.sample = self._first(self.sample + rejects)

    def merge(self, other: Ledger) -> None:
        for pair, counts in other.counts.items():
            self.counts[pair] = self.counts.get(pair, PairCounts()) + counts
        self.sample = self._first(self.sample + other.sample)

    def _first(self, rejects: list[Reject]) -> list[Reject]:
        groups: dict[tuple[str, str, str], list[Reject]] = defaultdict(list)
        for reject in rejects:
            groups[reject.pair, reject.unit, reject.reason].append(reject)
        first: list[Reject] = []
        for _, group in sorted(groups.items()):
            first += sorted(group, key=self._rank)[: self.sample_size]
        return first

    def _rank(self, reject: Reject) -> tuple[bytes, str]:
        key = f"{self.seed}\0{reject.record_id}\0{reject.excerpt}"
        return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), key

    def sorted_sample(self) -> list[Reject]:
        """The sample in the order in which it is written: by pair, unit, reason, then where the record stood."""
        return sorted(self.sample, key=lambda r: (r.pair, r.unit, r.reason, r.corpus, r.line, r.excerpt))

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "sample_size": self.sample_size,
            "counts": {pair: counts.to_json() for pair, counts in self.counts.items()},
            "sample": [asdict(reject) for reject in self.sample],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Ledger:
        return cls(
            value["seed"],
            value["sample_size"],
            {pair: PairCounts(**counts) for pair, counts in value["counts"].items()},
            [Reject(**reject) for reject in value["sample"]],
        )
