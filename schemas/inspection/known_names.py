"""Names that a dataset has: of languages, pairs and reject reasons."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.did_you_mean import did_you_mean
from schemas.errors import NotFoundError


def check_known(what: str, value: str | None, known: Iterable[str]) -> None:
    """Raises `NotFoundError` if the dataset has no such value."""
    if value is None or value in (known := sorted(known)):
        return
    hint = did_you_mean(value, known)
    raise NotFoundError(f"the dataset has no {what} {value!r}.{hint} It has: {', '.join(known) or 'none'}")
