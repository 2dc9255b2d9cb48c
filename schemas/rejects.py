"""Refused records: every input becomes an example or a reject.

A reject's *unit* says what was refused. In clism, a "pair" is an input record and a "mention" is a candidate in a pair
that was not refused itself. In anchor_mrc, a "page" is an input record, a "link" is in an article, a "mention" is a
link that leads to a definition article, and a "context" was drawn for an unanswerable example. In mrc, tagging and
pair, a "record" is a benchmark's record and a "label" is one of its labels. `Counts.REJECT_REASONS` explains all
reasons of a schema.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

MAX_EXCERPT_CHARS = 400


@dataclass(frozen=True, slots=True)
class Reject:
    """One refused record, with the text that shows why.

    >>> text = "Hanoi ⟵ Anna lives in Hanoi. ||| Anna sống ở đây."
    >>> reject = Reject("no_link", "mention", "8f…", "en-vi", "news.en", 17, text)
    """

    reason: str  # a key of the schema's `Counts.REJECT_REASONS[unit]`
    unit: str  # a unit of the schema's `Counts.BALANCES`
    record_id: str
    pair: str  # the language pair, or the language where examples have one
    corpus: str
    line: int  # counted from 1; in anchor_mrc the page's id; in mrc, tagging and pair the record's number in its file
    excerpt: str

    ARROW_SCHEMA = pa.schema(
        [
            pa.field("reason", pa.string(), nullable=False),
            pa.field("unit", pa.string(), nullable=False),
            pa.field("record_id", pa.string(), nullable=False),
            pa.field("pair", pa.string(), nullable=False),
            pa.field("corpus", pa.string(), nullable=False),
            pa.field("line", pa.int64(), nullable=False),
            pa.field("excerpt", pa.string(), nullable=False),
        ],
        metadata={"polyspan.schema": "rejects/1"},
    )
