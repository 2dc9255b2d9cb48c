"""Suggests known words for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns at most `count` known words that are spelt like `word`, the most similar first.

    >>> closest("clsim", ["clism", "anchor-mrc"])
    ['clism']
    """
    return difflib.get_close_matches(word, list(known), n=count)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a hint to append to an error message, or an empty string if no known word is close.

    >>> did_you_mean("clsim", ["clism", "anchor-mrc"])
    ' Did you mean clism?'
    """
    close = closest(word, known, 1)
    return f" Did you mean {close[0]}?" if close else ""
