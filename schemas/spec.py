"""The form in which a schema describes itself to everything that writes, reads, checks and shows its datasets."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from schemas.counts import Counts

SCHEMA_KEY = b"polyspan.schema"  # of an Arrow schema's metadata: name and version, as clism/1


class Example(Protocol):
    """What the Python classes of all schemas have in common; an instance holds one row of a dataset."""

    @property
    def id(self) -> str:
        """Identifies the record."""

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row."""

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Any:
        """Returns the example that an Arrow row holds."""


@dataclass(frozen=True)
class CardText:
    """What the dataset card of a schema says; everything else on the card comes from the manifest."""

    title: str
    what: str  # what a row holds, with an example
    source: str | None  # where the texts come from, and whom to name
    license: str  # an identifier of the Hugging Face hub, such as "cc-by-sa-4.0", "other" or "unknown"
    tasks: tuple[str, ...]  # task categories of the hub
    tags: tuple[str, ...]
    numbers: Callable[[Any], dict[str, str]]  # counts → the heading of a column → its cell
    answers: str  # Python code that prints the answers of `row`
    units: Mapping[str, str] = field(default_factory=dict)  # unit of rejects → its name on the card, where it differs


class View(NamedTuple):
    """How a schema's examples are shown, one by one and in numbers."""

    render_example: Callable[[Any, bool], str]  # an example, and whether to use colours
    tally_rows: Callable[[Any, pa.RecordBatch], None]  # adds the batch to `schemas.inspection.tallies.Tallies`
    langs_statistics: Callable[[str, Any, Any], dict[str, Any]]  # language or pair, its `Counts`, its tallies
    render_statistics: Callable[[str, dict[str, Any]], list[str]]  # name of the folder, all statistics → lines


@dataclass(frozen=True)
class SchemaSpec:
    """Everything that Polyspan knows about one version of a schema. `schemas.catalog.SCHEMAS` lists them all."""

    arrow: pa.Schema  # its metadata names the schema and its version
    example: type[Example]
    counts: type[Counts]
    problems: Callable[[Any], list[str]]  # example → what breaks the contract, in words
    counted: Callable[[pa.Table], pa.Table]  # rows → column `langs`, and the counts that `verify` can repeat from rows
    card: CardText
    view: str  # the `View`, as "module:name": imported only when a dataset is shown
    langs: Literal["language", "pair"] = "language"  # what the manifest counts by
    identity: tuple[str, ...] = ("id",)  # columns whose values together identify a row; empty if nothing does

    @property
    def name(self) -> str:
        """Returns the name and version, as "clism/1"."""
        return schema_name(self.arrow)

    def load_view(self) -> View:
        """Imports the view."""
        module, _, name = self.view.partition(":")
        view: View = getattr(importlib.import_module(module), name)
        return view


def schema_name(arrow: pa.Schema) -> str:
    """Returns the name and version in an Arrow schema's metadata; "none" if it has none."""
    name: bytes = (arrow.metadata or {}).get(SCHEMA_KEY, b"none")
    return name.decode(errors="replace")
