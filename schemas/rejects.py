"""Refused records: every input ends as an example or as one of these.

What is counted apart has a *unit*, and `schemas.counts` says what each adds up to. In clism, a "pair" is an input
record and a "mention" a candidate inside a record that was not refused itself. In anchor_mrc, a "page" is an input
record, a "link" stands in an article, a "mention" is a link that leads to a definition article, and a "context" was
drawn to answer no query. In mrc, tagging, pair and candidates, a "record" is one of a benchmark's.
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
    unit: str  # of a `Balance` of the schema's counts
    record_id: str
    pair: str  # of languages; where an example has one language, that
    corpus: str
    line: int  # in anchor_mrc the page's id, in mrc, tagging and pair the record's place in its file, from 1
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
