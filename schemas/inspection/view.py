"""How a schema's examples are shown. Each view module defines the `View` of its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.did_you_mean import did_you_mean
from schemas.errors import NotFoundError
from schemas.inspection.tallies import Tallies


class View(NamedTuple):
    """How a schema's examples are shown, one by one and in numbers."""

    render_example: Callable[[Any, bool], str]  # an example, and whether to use colours
    tally_rows: Callable[[Tallies, pa.RecordBatch], None]
    langs_statistics: Callable[[str, Any, Any], dict[str, Any]]  # language or pair, its `Counts`, its tallies
    render_statistics: Callable[[str, dict[str, Any]], list[str]]  # name of the folder, all statistics → lines


def check_known(what: str, value: str | None, known: Iterable[str]) -> None:
    """Raises `NotFoundError` if the dataset has no such value."""
    if value is None or value in (known := sorted(known)):
        return
    hint = did_you_mean(value, known)
    raise NotFoundError(f"the dataset has no {what} {value!r}.{hint} It has: {', '.join(known) or 'none'}")
