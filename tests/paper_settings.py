"""docs/paper_settings.md as data, and how recipes are held against it. Imports neither side: each side's tests bring
their recipes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).resolve().parents[1] / "docs" / "paper_settings.md"
HEADER = ["recipes", "paper", "it says", "field", "ours", "why"]
SILENT, DEFAULT, NO_FIELD = "silent", "default", "—"


class Row(NamedTuple):
    line: int
    command: str  # data, pretrain or finetune
    recipes: tuple[str, ...]  # names, or patterns of names
    paper: str
    says: str
    fields: tuple[str, ...]  # dotted; none for a rule that no field changes
    ours: str
    why: str

    def names(self, recipe: str) -> bool:
        return any(fnmatchcase(recipe, pattern) for pattern in self.recipes)


def rows(command: str, path: Path = PATH) -> list[Row]:
    """The table's rows for the recipes of one command."""
    return [row for row in _rows(path) if row.command == command]


def _rows(path: Path) -> Iterator[Row]:
    lines = path.read_text(encoding="utf-8").splitlines()
    table = [(number, line) for number, line in enumerate(lines, 1) if line.startswith("|")]
    cells = [(number, [cell.strip() for cell in line.strip("|").split("|")]) for number, line in table]
    assert cells[0][1] == HEADER
    for number, row in cells[2:]:
        assert len(row) == len(HEADER), f"{path.name}:{number}: expected {len(HEADER)} cells, found {len(row)}"
        (command, *recipes), paper, says, field, ours, why = row[0].split(), *row[1:]
        named = () if field == NO_FIELD else tuple(field.split(", "))
        yield Row(number, command, tuple(recipes), paper, says, named, ours, why)


def literal(cell: str) -> Any:
    """The Python value of a cell `64`; the cell itself if it is in words."""
    is_value = len(cell) > 2 and cell[0] == cell[-1] == "`" and "`" not in cell[1:-1]
    return ast.literal_eval(cell[1:-1]) if is_value else cell


def leaves(recipe: Any, prefix: str = "") -> list[str]:
    """The dotted names of a recipe's fields; `name` is no setting."""
    found = []
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        if is_dataclass(value):
            found += leaves(value, f"{prefix}{field.name}.")
        elif (prefix, field.name) != ("", "name"):
            found.append(f"{prefix}{field.name}")
    return found


def uncovered(recipe: Any, of_recipe: list[Row]) -> list[str]:
    """Fields that no row names, by themselves or by the group that they are in."""
    named = {name for row in of_recipe for name in row.fields}
    return [leaf for leaf in leaves(recipe) if not any(leaf == name or leaf.startswith(f"{name}.") for name in named)]


def differences(recipe: Any, of_recipe: list[Row], plain: Callable[[Any], Any] = lambda value: value) -> list[str]:
    """Rows whose value is not the recipe's. `plain` makes a value of the recipe what the table has."""
    found = []
    for row in of_recipe:
        for name in row.fields:
            value, expected = _value_and_default(recipe, name)
            if row.ours != DEFAULT:
                value, expected = plain(value), literal(row.ours)
            if value != expected or type(value) is not type(expected):
                found.append(f"line {row.line}: {name} is {value!r}, and {row.ours} in the table")
    return found


def unexplained(of_command: list[Row]) -> list[str]:
    """Rows where our value is not the paper's, or the paper has none, that give no reason."""
    return [
        f"line {row.line}"
        for row in of_command
        if not row.why
        and (row.says == SILENT or (literal(row.says) != row.says and literal(row.says) != literal(row.ours)))
    ]


def named_twice(of_recipe: list[Row]) -> list[str]:
    names = [name for row in of_recipe for name in row.fields]
    return sorted({name for name in names if names.count(name) > 1})


def unknown(of_command: list[Row], recipes: Mapping[str, Any]) -> list[str]:
    """Names and patterns of recipes that name none."""
    return [each for row in of_command for each in row.recipes if not any(fnmatchcase(name, each) for name in recipes)]


def _value_and_default(recipe: Any, name: str) -> tuple[Any, Any]:
    """A field's value by its dotted name, and what its type has by default."""
    *parents, last = name.split(".")
    for parent in parents:
        recipe = getattr(recipe, parent)
    (field,) = (each for each in fields(recipe) if each.name == last)
    return getattr(recipe, last), _default(field)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
