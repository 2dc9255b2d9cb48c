"""Refused records: every input ends as an example or as one of these.

Two ledgers are kept apart. A *pair* (later: an article) is an input record; pairs read = examples + pair rejects.
A *mention* is a candidate inside a record that was not refused for another reason; mentions found = questions +
mention rejects.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

MAX_EXCERPT_CHARS = 400


@dataclass(frozen=True, slots=True)
class Reject:
    """One refused record, with the text that shows why.

    >>> Reject("no_link", "mention", "8f…", "en-vi", "news.en", 17, "Hanoi ⟵ Anna lives in Hanoi. ||| Anna sống ở đây.")
    """

    reason: str  # snake_case, from a closed list that the job documents
    unit: str  # "pair" or "mention"
    record_id: str
    pair: str
    corpus: str
    line: int
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
