"""Formats tables of strings as text, Markdown and LaTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """The first column names the row; the others hold figures."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def text(table: Table) -> str:
    """Separates columns by blanks and aligns figures to the right."""
    lines = [table.header, *table.rows]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(table.header))]
    padded = (
        [" " * (width - _width(cell)) + cell for cell, width in zip(line[1:], widths[1:], strict=True)]
        for line in lines
    )
    return "\n".join(
        "  ".join([line[0] + " " * (widths[0] - _width(line[0])), *cells])
        for line, cells in zip(lines, padded, strict=True)
    )


def markdown(table: Table) -> str:
    rule = ["---", *["---:"] * (len(table.header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [table.header, rule, *table.rows])


def latex(table: Table) -> str:
    """Returns a `tabular`, scaled down if it is wider than the line, after a comment that names its packages."""
    header, *rows = [" & ".join(map(_escaped, line)) + r" \\" for line in [table.header, *table.rows]]
    columns = "l" + "c" * (len(table.header) - 1)
    return "\n".join(
        [
            r"% \usepackage{booktabs, adjustbox}",
            r"\begin{adjustbox}{max width=\linewidth}",
            rf"\begin{{tabular}}{{{columns}}}",
            *(r"\toprule", header, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}",
            r"\end{adjustbox}",
        ]
    )


_ESCAPED = {char: "\\" + char for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "→": r"$\to$",
}


def _escaped(cell: str) -> str:
    return "".join(_ESCAPED.get(char, char) for char in re.sub(r"(?<![\w.-])-(?=\d)", "−", cell))


def _width(cell: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in cell)
