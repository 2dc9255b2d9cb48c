"""Shows a teacher's soft labels, and how sure it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.inspection.tallies import Tallies, ledger_lines, quantiles, quantiles_line, tally
from schemas.inspection.terminal import visible
from schemas.shards import langs_of
from schemas.soft_labels import SoftLabelCounts, SoftLabels
from schemas.spec import View

_SHOWN = 5  # rows of a sequence that are shown


def render_example(example: SoftLabels, color: bool = False) -> str:
    """Returns the most likely class of the first rows of each distribution, such as:

    de  56be… (de)  384 classes
      1  class 17, probability 0.93
      2  class 19, probability 0.88
    """
    lines = [f"{visible(example.lang)}  {visible(example.id)}  {example.classes} classes"]
    for number, values in enumerate(example.distributions, start=1):
        rows = [values[start : start + example.classes] for start in range(0, len(values), example.classes)]
        likely = (f"class {row.index(max(row))}, probability {max(row):.2f}" for row in rows[:_SHOWN])
        more = f"; {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        lines.append(f"  {number}  {'; '.join(likely)}{more}")
    return "".join(f"{line}\n" for line in lines)


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs = langs_of(batch)
    tally(tallies, "classes", langs, batch["classes"])
    rows, values = pc.list_parent_indices(batch["distributions"]), pc.list_flatten(batch["distributions"])
    tally(tallies, "values", langs.take(rows), pc.list_value_length(values))


def langs_statistics(lang: str, counts: SoftLabelCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    return {
        **counts.to_json(),
        "classes": quantiles(tallies["classes"]),
        "values": quantiles(tallies["values"]),
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {numbers['schema']}, soft labels of {numbers['rows']:,} sequences, {numbers['shards']:,} shards, "
        f"{numbers['bytes']:,} bytes"
    ]
    for lang, values in numbers["languages"].items():
        lines += [
            "",
            *ledger_lines(lang, values, SoftLabelCounts),
            f"  classes                  {quantiles_line(values['classes'])}",
            f"  values per distribution  {quantiles_line(values['values'])}",
        ]
    return lines


VIEW = View(render_example, tally_rows, langs_statistics, render_statistics)
