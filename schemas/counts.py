"""The ledgers of a job: everything that was found ends in exactly one column, as what was kept or under a reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

C = TypeVar("C", bound="Counts")
RECALL_AT = (1, 3, 5, 10, 20)


class Balance(NamedTuple):
    """Names of three fields of a `Counts` that add up: found = kept + the sum of rejects."""

    unit: str  # what is counted, as `Reject.unit` says it
    found: str
    kept: str
    rejects: str  # reason → count


@dataclass(frozen=True, slots=True)
class Counts(ABC):
    """What became of the records of one language pair or language. Chunks add up: `sum(chunks, PairCounts())`.

    Every field of a subclass is a number, or numbers by name.
    """

    BALANCES: ClassVar[tuple[Balance, ...]]
    ADDED: ClassVar[tuple[str, ...]] = ()  # fields that older datasets lack: not written where nothing is counted

    @property
    @abstractmethod
    def examples(self) -> int:
        """Rows of the shards."""

    @property
    @abstractmethod
    def size(self) -> str:
        """What the rows hold, in words."""

    def rejects(self) -> dict[str, dict[str, int]]:
        """Unit → reason → count."""
        return {balance.unit: getattr(self, balance.rejects) for balance in self.BALANCES}

    def accounts(self) -> list[str]:
        """Each ledger in words, but for one of which nothing was found: `9 records read = 7 examples + 2 refused
        (out_of_scope 2)`."""
        lines = []
        for _, found, kept, rejects in self.BALANCES:
            by_count = sorted(getattr(self, rejects).items(), key=lambda item: (-item[1], item[0]))
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in by_count if count)
            if read := getattr(self, found):
                refused = read - getattr(self, kept)
                lines.append(
                    f"{read:,} {in_words(found)} = {getattr(self, kept):,} {in_words(kept)} + {refused:,} refused"
                    + (f" ({reasons})" if reasons else "")
                )
        return lines

    def with_rejects(self: C, unit: str, reasons: Mapping[str, int]) -> C:
        """These counts and so many more rejects of `unit`. Raises `ValueError` if nothing of the kind is counted."""
        for balance in self.BALANCES:
            if balance.unit == unit:
                return self + type(self)(**{balance.rejects: dict(reasons)})
        known = ", ".join(balance.unit for balance in self.BALANCES)
        raise ValueError(f"expected a reject's unit to be one of {known}; found {unit!r}")

    def __add__(self: C, other: C) -> C:
        return type(self)(
            *(_added(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)),
        )

    def problems(self) -> list[str]:
        """Which ledger does not add up, in words; empty when all do."""
        found = []
        for balance in self.BALANCES:
            read, kept = getattr(self, balance.found), getattr(self, balance.kept)
            reasons = getattr(self, balance.rejects)
            rejected = sum(reasons.values())
            what = in_words(balance.found)
            if read != kept + rejected:
                found.append(
                    f"{read} {what}, but {kept} {in_words(balance.kept)} + {rejected} rejects = {kept + rejected}"
                )
            if min(read, kept, *reasons.values()) < 0:
                found.append(f"a count of {what} is negative")
        return found

    def check(self) -> None:
        """Raises `ValueError` if a record was lost or counted twice: an error of the job, never of its data."""
        if found := self.problems():
            raise ValueError(f"the counts do not add up: {'; '.join(found)}")

    def to_json(self) -> dict[str, Any]:
        """Plain values; reasons in alphabetical order. Without the fields `ADDED` if all of these are empty."""
        left_out = () if any(getattr(self, name) for name in self.ADDED) else self.ADDED
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in left_out}
        return {name: dict(sorted(v.items())) if isinstance(v, dict) else v for name, v in values.items()}


@dataclass(frozen=True, slots=True)
class PairCounts(Counts):
    """clism/1: what became of a language pair's sentence pairs, and of the mentions in those that were not refused.

    >>> PairCounts(3, 1, {"no_mention": 2}, 2, 1, {"no_link": 1})
    """

    BALANCES = (
        Balance("pair", "pairs_read", "examples", "pair_rejects"),
        Balance("mention", "mentions_found", "questions", "mention_rejects"),
    )

    pairs_read: int = 0
    examples: int = 0
    pair_rejects: dict[str, int] = field(default_factory=dict)  # reason → pairs
    mentions_found: int = 0
    questions: int = 0
    mention_rejects: dict[str, int] = field(default_factory=dict)  # reason → mentions

    @property
    def size(self) -> str:
        return f"{self.examples:,} examples with {self.questions:,} questions"


@dataclass(frozen=True, slots=True)
class AnchorCounts(Counts):
    """anchor_mrc/1: what became of a language's pages, of the links in its articles, of the mentions that those are,
    and of the contexts that were drawn to answer no query.

    >>> AnchorCounts(
    ...     pages_read=9, articles=6, page_rejects={"redirect": 3},
    ...     links_found=20, mentions=17, link_rejects={"red_link": 3}, links_saved_by={"redirect": 4},
    ...     answerable=5, mention_rejects={"rare_entity": 10, "not_sampled": 2},
    ...     contexts_drawn=6, unanswerable=5, context_rejects={"context_contains_entity": 1},
    ...     entities=2,
    ... )
    """

    BALANCES = (
        Balance("page", "pages_read", "articles", "page_rejects"),
        Balance("link", "links_found", "mentions", "link_rejects"),
        Balance("mention", "mentions", "answerable", "mention_rejects"),
        Balance("context", "contexts_drawn", "unanswerable", "context_rejects"),
    )

    pages_read: int = 0
    articles: int = 0
    page_rejects: dict[str, int] = field(default_factory=dict)  # not articles, or not readable: reason → pages
    links_found: int = 0  # in articles
    mentions: int = 0  # links that lead to a definition article
    link_rejects: dict[str, int] = field(default_factory=dict)  # reason → links
    links_saved_by: dict[str, int] = field(default_factory=dict)  # rule of titles → mentions whose link it changed
    answerable: int = 0  # examples: one per mention that was sampled and not refused
    mention_rejects: dict[str, int] = field(default_factory=dict)  # reason → mentions
    contexts_drawn: int = 0  # of articles that do not link to the entity
    unanswerable: int = 0  # examples
    context_rejects: dict[str, int] = field(default_factory=dict)  # reason → contexts
    entities: int = 0  # with at least one example

    @property
    def examples(self) -> int:
        return self.answerable + self.unanswerable

    @property
    def size(self) -> str:
        return f"{self.examples:,} examples ({self.answerable:,} answerable) of {self.entities:,} entities"


@dataclass(frozen=True, slots=True)
class RecordCounts(Counts):
    """mrc, tagging and pair: what became of a language's records in published files, and of the labels of all of these
    records: answers, entities, targets of sentiments, labels of pairs.

    >>> RecordCounts(1_722, 1_711, {"out_of_scope": 11}, 1_860, 1_283, {"null_target": 577})
    """

    BALANCES = (
        Balance("record", "records_read", "examples", "record_rejects"),
        Balance("label", "labels_found", "labels_kept", "label_rejects"),
    )
    ADDED = ("labels_found", "labels_kept", "label_rejects")

    records_read: int = 0
    examples: int = 0
    record_rejects: dict[str, int] = field(default_factory=dict)  # reason → records
    labels_found: int = 0
    labels_kept: int = 0  # `schemas.mrc.labels_in` the rows
    label_rejects: dict[str, int] = field(default_factory=dict)  # reason → labels

    @property
    def size(self) -> str:
        return f"{self.examples:,} records"


@dataclass(frozen=True, slots=True)
class CandidateCounts(Counts):
    """candidates/1: for how many questions of a language a baseline has the true answer among its best so many.

    >>> CandidateCounts(10, 9, {"no_answer": 1}, hits_at_1=5, hits_at_3=6, hits_at_5=7, hits_at_10=8, hits_at_20=8)
    """

    BALANCES = (Balance("record", "records_read", "examples", "record_rejects"),)

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
        """k → questions whose true answer is among the best k."""
        return {k: getattr(self, f"hits_at_{k}") for k in RECALL_AT}

    @property
    def size(self) -> str:
        return f"candidates for {self.examples:,} questions"


COUNTS: dict[str, type[Counts]] = {
    "anchor_mrc/1": AnchorCounts,
    "candidates/1": CandidateCounts,
    "clism/1": PairCounts,
    "mrc/1": RecordCounts,
    "mrc/2": RecordCounts,
    "pair/1": RecordCounts,
    "tagging/1": RecordCounts,
}


def in_words(name: str) -> str:
    return name.replace("_", " ")


def _added(left: Any, right: Any) -> Any:
    if not isinstance(left, dict):
        return left + right
    total = Counter(left)
    total.update(right)
    return dict(sorted(total.items()))
