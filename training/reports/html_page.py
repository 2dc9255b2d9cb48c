"""Writes a report as one HTML file with tables and SVG pictures. The page loads nothing from the network."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import NamedTuple

from training.metrics.tables import Table
from training.runtime.outputs import GENERATOR

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto;
  padding: 0 1.5em }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2.2em; border-bottom: 1px solid #ddd }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.8em 0 }
th, td { padding: 0.3em 0.8em; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 2px solid #888 }
td.best { font-weight: bold } tbody tr:hover { background: #f4f7fa }
figure { margin: 1.2em 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #555; font-size: 0.9em }
ul.notes { color: #8a3c00 }
"""


class Section(NamedTuple):
    """A table and its pictures. `best`: row and column of bold cells, without the header; `pictures`: caption → SVG."""

    title: str
    table: Table
    best: Collection[tuple[int, int]]
    pictures: Mapping[str, str]


def page(sections: Sequence[Section], notes: Sequence[str], title: str = "Polyspan runs") -> str:
    """Returns the file's text. Notes on what is missing or broken follow the first table."""
    parts = [
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{GENERATOR}',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>",
    ]
    for number, section in enumerate(sections):
        parts += [f"<h2>{escape(section.title)}</h2>", _table(section.table, section.best)]
        if number == 0 and notes:
            parts.append('<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")
        for caption, svg in section.pictures.items():
            picture = svg[svg.index("<svg") :].strip()  # without the XML header
            parts.append(f"<figure>\n{picture}\n<figcaption>{escape(caption)}</figcaption>\n</figure>")
    return "\n".join([*parts, "</body>\n</html>\n"])


def _table(table: Table, best: Collection[tuple[int, int]]) -> str:
    header = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = [
        "<tr>"
        + "".join(
            f'<td class="best">{escape(cell)}</td>' if (number, column) in best else f"<td>{escape(cell)}</td>"
            for column, cell in enumerate(row)
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    ]
    return f'<div class="wide"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n' + "\n".join(
        [*rows, "</tbody>\n</table></div>"]
    )
