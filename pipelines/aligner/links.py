"""Alignment links between the words of a sentence and those of its translation."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """One alignment link: it joins word `source` to word `target`, both 0-based, with a score in 0..1."""

    source: int
    target: int
    score: float = 1.0


LinkSet = set[tuple[int, int]]
"""Links without their scores."""
