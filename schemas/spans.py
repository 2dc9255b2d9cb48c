"""Spans are half-open. The name of each type, and of each field that holds a span, contains the unit."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class CharSpan(NamedTuple):
    """Code points `[start, end)` of a text; the span covers `text[span.start:span.end]`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


class TokenSpan(NamedTuple):
    """Words `[start, end)` of a tokenised text, counted from 0."""

    start: int
    end: int

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.start <= index < self.end


# The Arrow type of a list of `CharSpan`.
CHAR_SPANS = pa.list_(
    pa.field(
        "item",
        pa.struct(
            [pa.field("start_char", pa.int32(), nullable=False), pa.field("end_char", pa.int32(), nullable=False)]
        ),
        nullable=False,
    )
)
