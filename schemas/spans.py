"""Half-open spans. The unit is in the type's name and in every field that holds one."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class CharSpan(NamedTuple):
    """Code points `[start, end)` of a text: `text[span.start:span.end]` is what the span covers."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


class TokenSpan(NamedTuple):
    """Words `[start, end)` of a tokenised text, 0-based."""

    start: int
    end: int

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.start <= index < self.end


# A list of `CharSpan` in a shard.
CHAR_SPANS = pa.list_(
    pa.field(
        "item",
        pa.struct(
            [pa.field("start_char", pa.int32(), nullable=False), pa.field("end_char", pa.int32(), nullable=False)]
        ),
        nullable=False,
    )
)
