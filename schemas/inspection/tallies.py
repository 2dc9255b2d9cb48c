"""Counts how often each value of a column occurs, and renders such counts as numbers and lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Counts, by_count, in_words, share
from schemas.inspection.terminal import visible

_QUANTILES = {"min": 0, "10%": 10, "50%": 50, "90%": 90, "max": 100}  # per cent
_BARS = "▁▂▃▄▅▆▇█"

# language or language pair → what is counted → value → count. Its size does not depend on the number of rows.
Tallies = defaultdict[str, defaultdict[str, "Counter[Any]"]]


def no_tallies() -> Tallies:
    return defaultdict(lambda: defaultdict(Counter))


def tally(tallies: Tallies, name: str, langs: pa.Array, values: pa.Array) -> None:
    """Adds a column of values. `langs` holds the language of each value."""
    table = pa.table({"langs": langs, "value": values})
    groups = table.group_by(["langs", "value"], use_threads=False).aggregate([([], "count_all")])
    for lang, value, count in zip(*(groups[column].to_pylist() for column in groups.column_names), strict=True):
        tallies[lang][name][value] += count


def deciles(start: pa.Array, end: pa.Array, text_chars: pa.Array) -> pa.Array:
    """Returns the tenth of the text, 0 to 9, that holds each span's middle: floor(10 · (start + end) / 2 / length)."""
    return pc.min_element_wise(pc.divide(pc.multiply(pc.add(start, end), 5), pc.max_element_wise(text_chars, 1)), 9)


def quantiles(counter: Counter[int]) -> dict[str, float] | None:
    """Returns exact quantiles (nearest rank) and the mean."""
    total = counter.total()
    if not total:
        return None
    found: dict[str, float] = {}
    seen = 0
    for value, count in sorted(counter.items()):
        seen += count
        found |= {name: value for name, part in _QUANTILES.items() if name not in found and seen * 100 >= part * total}
    return found | {"mean": round(sum(value * count for value, count in counter.items()) / total, 3)}


# --- lines for people ------------------------------------------------------------------------------------------------


def ledger_lines(langs: str, numbers: Mapping[str, Any], counts: type[Counts]) -> list[str]:
    """Returns lines that say what was found, what was kept, and why the rest was refused. Omits what older datasets do
    not count."""
    lines = []
    for index, (unit, found, kept, rejects) in enumerate(b for b in counts.BALANCES if b.found in numbers):
        lines.append(
            f"{'' if index else langs}  {numbers[found]:,} {in_words(found)} → {numbers[kept]:,} {in_words(kept)} "
            f"({share(numbers[kept], numbers[found])} kept)"
        )
        width = max(map(len, numbers[rejects]), default=0)
        for reason, count in by_count(numbers[rejects]):
            line = (
                f"    {reason:{width}}  {count:>12,}  {share(count, numbers[found]):>6}  {counts.explain(unit, reason)}"
            )
            lines.append(line.rstrip())
    return lines


def counts_line(counts: Mapping[str, int], whole: int) -> str:
    return " · ".join(f"{visible(name)}: {count:,} ({share(count, whole)})" for name, count in counts.items()) or "–"


def quantiles_line(numbers: Mapping[str, float] | None) -> str:
    return " · ".join(f"{name} {value:g}" for name, value in numbers.items()) if numbers else "–"


def histogram_line(counts: list[int]) -> str:
    """Returns one bar per tenth of the text, in reading order, and its share."""
    most = max(counts) or 1
    bars = "".join(_BARS[count * (len(_BARS) - 1) // most] if count else " " for count in counts)
    return f"start│{bars}│end  {' '.join(share(count, sum(counts)) for count in counts)}"
