"""Formats a scoring run: as text, as the tables that papers print, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.mrc import RecordCounts
from training.metrics.tables import Table, latex, markdown, text

TITLES = {
    "f1": "F1",
    "exact_match": "EM",
    "precision": "P",
    "recall": "R",
    "span_f1": "span F1",
    "accuracy": "Acc.",
}
IN_PAPERS = ("f1", "exact_match", "accuracy")  # the figures that papers print, in a cell such as `79.2 / 64.4`


def title(figure: str) -> str:
    """Returns what tables call a figure; its name if `TITLES` lacks it."""
    return TITLES.get(figure, figure)


def main_figures(figures: Iterable[str]) -> list[str]:
    """Returns the names of the figures that papers print, in their order; the first one's if papers print none."""
    names = list(figures)
    return [name for name in IN_PAPERS if name in names] or names[:1]


class Figure(NamedTuple):
    """A figure has a value in percent, an optional confidence interval, and its value in each of R resamples."""

    value: float
    interval: tuple[float, float] | None
    resampled_R: np.ndarray


class Row(NamedTuple):
    """A row has the figures of one file, of one language of a file, or of an average."""

    name: str
    lang: str
    examples: int
    figures: dict[str, Figure]
    notes: dict[str, int]
    signature: str
    gold: RecordCounts | None = None  # counts of the gold file's records and labels


class Report(NamedTuple):
    """The result of a scoring run. `langs` are in the order of papers; `extras` are numbers computed from the rows."""

    task: str
    name: str
    langs: Sequence[str]
    rows: Sequence[Row]
    averages: Sequence[Row]
    extras: dict[str, float]

    @property
    def signatures(self) -> list[str]:
        return [row.signature for row in [*self.rows, *self.averages]]


def as_text(report: Report) -> str:
    header = [report.task]
    for name, figure in report.rows[0].figures.items():
        header += [title(name), "interval"] if figure.interval else [title(name)]
    lines = []
    for row in [*report.rows, *report.averages]:
        cells = [row.name]
        for figure in row.figures.values():
            cells.append(f"{figure.value:.2f}")
            if figure.interval:
                cells.append("{:.1f} to {:.1f}".format(*figure.interval))
        lines.append([*cells, str(row.examples)])
    parts = [
        text(Table([*header, "examples"], lines)),
        "\n".join(f"{name} = {value:.2f}" for name, value in report.extras.items()),
        "\n".join(f"{row.name}: {note} {count}" for row in report.rows for note, count in row.notes.items()),
        "\n".join(accounts(report)),
        "\n".join(report.signatures),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def accounts(report: Report) -> list[str]:
    """Returns sentences that account for the records and labels of each row's gold file."""
    return [f"{row.name}: {line}" for row in report.rows if row.gold for line in row.gold.accounts()]


def as_markdown(report: Report) -> str:
    signatures = "\n".join(f"- `{line}`" for line in [*report.signatures, *accounts(report)])
    return f"{markdown(as_papers(report))}\n\n{signatures}\n"


def as_latex(report: Report) -> str:
    signatures = "\n".join(f"% {line}" for line in [*report.signatures, *accounts(report)])
    return f"{signatures}\n{latex(as_papers(report))}\n"


def as_json(report: Report) -> str:
    values = {
        "task": report.task,
        "name": report.name,
        "rows": [{"lang": row.lang, **_plain(row), **row.notes} for row in report.rows],
        "averages": [_plain(row) for row in report.averages],
        "gold": {row.name: row.gold.to_json() for row in report.rows if row.gold},
        **report.extras,
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


FORMATS = {"text": as_text, "markdown": as_markdown, "latex": as_latex, "json": as_json}


def as_papers(report: Report) -> Table:
    """Returns a table with a column for each language (mPMR, tables 7 to 14). For MLQA's language pairs, rows are
    contexts and columns are questions."""
    cells = {row.name: _cell(row) for row in [*report.rows, *report.averages]}
    if "G-XLT" not in cells:
        return Table([report.task, *cells], [[report.name, *cells.values()]])
    contexts = list(dict.fromkeys(row.lang for row in report.rows))
    asked = {row.name.split("-")[-1] for row in report.rows}
    questions = [lang for lang in report.langs if lang in asked]
    body = [[c, *(cells.get(c if c == q else f"{c}-{q}", "") for q in questions)] for c in contexts]
    body += [[row.name, cells[row.name], *[""] * (len(questions) - 1)] for row in report.averages]
    return Table([f"{report.name}, c/q", *questions], body)


def _cell(row: Row) -> str:
    return " / ".join(f"{row.figures[name].value:.1f}" for name in main_figures(row.figures))


def _plain(row: Row) -> dict[str, Any]:
    """Returns exact values, and intervals to four places: their last bits depend on the processor."""
    figures = {
        name: {"value": figure.value, "interval": figure.interval and [round(edge, 4) for edge in figure.interval]}
        for name, figure in row.figures.items()
    }
    return {"name": row.name, "examples": row.examples, **figures, "signature": row.signature}
