"""Counts that add up: every record that a job found was either kept or refused for a reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

C = TypeVar("C", bound="Counts")


class Balance(NamedTuple):
    """Names of three fields of a `Counts` that add up: found = kept + the sum of rejects."""

    unit: str  # what is counted, as `Reject.unit` names it
    found: str
    kept: str
    rejects: str  # reason → count


@dataclass(frozen=True, slots=True)
class Counts(ABC):
    """What became of the records of one language pair or language. Chunks add up: `sum(chunks, PairCounts())`.

    Every field of a subclass is a number, or a dict of numbers by name.
    """

    BALANCES: ClassVar[tuple[Balance, ...]]
    REJECT_REASONS: ClassVar[Mapping[str, Mapping[str, str]]]  # unit → reason → the sentence that explains it
    ADDED: ClassVar[tuple[str, ...]] = ()  # fields that older datasets lack; not written where nothing is counted

    @property
    @abstractmethod
    def examples(self) -> int:
        """Returns the number of rows in the shards."""

    @property
    @abstractmethod
    def size(self) -> str:
        """Returns what the rows hold, in words."""

    def rejects(self) -> dict[str, dict[str, int]]:
        """Returns unit → reason → count."""
        return {balance.unit: getattr(self, balance.rejects) for balance in self.BALANCES}

    def accounts(self) -> list[str]:
        """Returns each balance in words, except those without any records: `9 records read = 7 examples + 2
        refused (out_of_scope 2)`."""
        lines = []
        for _, found, kept, rejects in self.BALANCES:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in by_count(getattr(self, rejects)))
            if read := getattr(self, found):
                refused = read - getattr(self, kept)
                lines.append(
                    f"{read:,} {in_words(found)} = {getattr(self, kept):,} {in_words(kept)} + {refused:,} refused"
                    + (f" ({reasons})" if reasons else "")
                )
        return lines

    def with_rejects(self: C, unit: str, reasons: Mapping[str, int]) -> C:
        """Returns these counts plus more rejects of `unit`. Raises `ValueError` for a unit or reason that the schema
        does not have."""
        for balance in self.BALANCES:
            if balance.unit == unit:
                self._check_reasons(unit, reasons)
                return self + type(self)(**{balance.rejects: dict(reasons)})
        known = ", ".join(balance.unit for balance in self.BALANCES)
        raise ValueError(f"expected a reject's unit to be one of {known}; found {unit!r}")

    def __add__(self: C, other: C) -> C:
        return type(self)(
            *(_added(getattr(self, column.name), getattr(other, column.name)) for column in fields(self)),
        )

    def problems(self) -> list[str]:
        """Returns which balances do not add up, in words."""
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
        """Raises `ValueError` if a record was lost, counted twice or refused for an unknown reason: a bug of the job,
        never a fault of its data."""
        self.check_reasons()
        if found := self.problems():
            raise ValueError(f"the counts do not add up: {'; '.join(found)}")

    def check_reasons(self) -> None:
        """Raises `ValueError` for a reason that `REJECT_REASONS` does not explain. Only jobs call it: datasets of other
        releases may have other reasons."""
        for unit, reasons in self.rejects().items():
            self._check_reasons(unit, reasons)

    @classmethod
    def explain(cls, unit: str, reason: str) -> str:
        """Returns the sentence that explains a reason; an empty string for a reason of another release."""
        return cls.REJECT_REASONS.get(unit, {}).get(reason, "")

    def _check_reasons(self, unit: str, reasons: Mapping[str, int]) -> None:
        known = self.REJECT_REASONS[unit]
        for reason in reasons:
            if reason not in known:
                raise ValueError(
                    f"a {unit} was refused for an unknown reason: expected one of {', '.join(known) or 'none'}; found "
                    f"{reason!r}. Add it to {type(self).__name__}.REJECT_REASONS"
                )

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, with reasons in alphabetical order. Omits the fields `ADDED` if all of them are
        empty."""
        left_out = () if any(getattr(self, name) for name in self.ADDED) else self.ADDED
        values = {column.name: getattr(self, column.name) for column in fields(self) if column.name not in left_out}
        return {name: dict(sorted(v.items())) if isinstance(v, dict) else v for name, v in values.items()}


def by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns names and counts, the most frequent first, then by name, without zeros."""
    return sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))


def share(part: int, whole: int) -> str:
    """Returns `part` in per cent of `whole`.

    >>> share(1, 3)
    '33.3%'
    """
    return f"{part / whole:.1%}" if whole else "–"


def in_words(name: str) -> str:
    return name.replace("_", " ")


def _added(left: Any, right: Any) -> Any:
    if not isinstance(left, dict):
        return left + right
    total = Counter(left)
    total.update(right)
    return dict(sorted(total.items()))
