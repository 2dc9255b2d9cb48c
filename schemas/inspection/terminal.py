"""Prints corpus text on a terminal: marks and colours spans, isolates right-to-left text, hides control characters."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

_COLOURS = (32, 33, 36, 35, 34, 31)  # ANSI: number 1 is green
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"  # Unicode's bidirectional algorithm
# Text of a corpus must not control the terminal, so control characters and overrides of direction are spelt out.
_VISIBLE = (
    {code: chr(0x2400 + code) for code in range(0x20)}
    | {0x7F: "\u2421"}
    | {code: f"<U+{code:04X}>" for code in (*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
)


class Mark(NamedTuple):
    """A text that is shown instead of `[start, end)`, in the colour of its number."""

    start: int
    end: int
    shown: str
    number: int


def marked(text: str, marks: list[Mark], isolate: bool, color: bool) -> str:
    shown, end = "", 0
    for mark in sorted(marks):
        shown += visible(text[end : mark.start]) + coloured(isolated(mark.shown, isolate), mark.number, color)
        end = mark.end
    return shown + visible(text[end:])


def visible(text: str) -> str:
    return text.translate(_VISIBLE)


def has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def isolated(text: str, isolate: bool) -> str:
    """Wraps the text so that a terminal lays it out separately from the text around it."""
    return f"{_ISOLATE}{text}{_END_ISOLATE}" if isolate else text


def coloured(text: str, number: int, color: bool) -> str:
    return f"\x1b[1;{_COLOURS[(number - 1) % len(_COLOURS)]}m{text}\x1b[0m" if color else text
