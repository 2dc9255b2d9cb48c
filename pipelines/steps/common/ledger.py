"""A ledger holds exact counts and a bounded sample of rejects. The ledgers of chunks add up in any order."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from schemas.counts import Counts
from schemas.rejects import Reject


@dataclass
class Ledger:
    """What became of the records of some chunks.

    `sample` holds, per language (or pair), unit and reason, the `sample_size` rejects that a hash of (seed, reject)
    ranks first. It depends only on the input, not on the order of the chunks.
    """

    seed: int
    sample_size: int
    counts: dict[str, Counts] = field(default_factory=dict)
    sample: list[Reject] = field(default_factory=list)

    def add(self, langs: str, counts: Counts, rejects: Iterable[Reject] = ()) -> None:
        """Counts records of `langs` ("en-vi", "sw"), and each of `rejects` under its unit and reason.

        Rejects that `counts` already includes must not be in `rejects`; they are not sampled. Raises `ValueError` for a
        unit or reason that the schema does not have.
        """
        counts.check_reasons()
        rejects = list(rejects)
        for (unit, reason), count in Counter((reject.unit, reject.reason) for reject in rejects).items():
            counts = counts.with_rejects(unit, {reason: count})
        self._count(langs, counts)
        self.sample = self._first(self.sample + rejects)

    def merge(self, other: Ledger) -> None:
        for langs, counts in other.counts.items():
            self._count(langs, counts)
        self.sample = self._first(self.sample + other.sample)

    def _count(self, langs: str, counts: Counts) -> None:
        self.counts[langs] = self.counts[langs] + counts if langs in self.counts else counts

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
        """Returns the sample in the order in which it is written: by pair, unit, reason, then the record's position."""
        return sorted(self.sample, key=lambda r: (r.pair, r.unit, r.reason, r.corpus, r.line, r.excerpt))

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "sample_size": self.sample_size,
            "counts": {langs: counts.to_json() for langs, counts in self.counts.items()},
            "sample": [asdict(reject) for reject in self.sample],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], counts_type: type[Counts]) -> Ledger:
        return cls(
            value["seed"],
            value["sample_size"],
            {langs: counts_type(**counts) for langs, counts in value["counts"].items()},
            [Reject(**reject) for reject in value["sample"]],
        )
