"""Sentence pairs travel in chunks of some thousand: the unit of work, of batching and of resuming.

The cut is a function of the input alone, so every runner batches the same sentences together (a neural tagger's
results can depend on its batches). These functions turn chunks into Arrow tables and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from pipelines.steps.bitext.filters import text_digest
from pipelines.steps.clism.masking import TokenizedPair
from pipelines.steps.common.sentence_pairs import EntityMention, LanguagePair, SentencePair, record_id
from schemas.spans import CharSpan


class Chunk(NamedTuple):
    """A run of consecutive records of one input file. `key` sorts in the order of the input."""

    key: str
    pair: str
    corpus: str

    @property
    def language_pair(self) -> LanguagePair:
        return LanguagePair(*self.pair.split("-", 1))


_SPANS = pa.list_(pa.int32())  # start, end, start, end …
_PAIRS = pa.schema([("line", pa.int64()), ("source_text", pa.string()), ("target_text", pa.string())])
PAIRS = _PAIRS.append(pa.field("digest", pa.binary(16)))
TOKENIZED = pa.schema(
    [
        *_PAIRS,
        ("source_tokens", _SPANS),
        ("target_tokens", _SPANS),
        ("mention_spans", _SPANS),
        ("mention_labels", pa.list_(pa.string())),
    ]
)


def pairs_to_table(pairs: Iterable[SentencePair]) -> pa.Table:
    pairs = list(pairs)
    return pa.table(
        [
            [pair.line for pair in pairs],
            [pair.source_text for pair in pairs],
            [pair.target_text for pair in pairs],
            [text_digest(pair) for pair in pairs],
        ],
        schema=PAIRS,
    )


def table_to_pairs(table: pa.Table, chunk: Chunk) -> Iterator[SentencePair]:
    pair = chunk.language_pair
    for line, source, target in zip(*(table[name].to_pylist() for name in _PAIRS.names), strict=True):
        yield SentencePair(record_id(pair, chunk.corpus, line), pair, chunk.corpus, line, source, target)


def tokenized_to_table(tokenized: Iterable[TokenizedPair]) -> pa.Table:
    rows = list(tokenized)
    return pa.table(
        [
            [row.pair.line for row in rows],
            [row.pair.source_text for row in rows],
            [row.pair.target_text for row in rows],
            [_flat(row.source_tokens) for row in rows],
            [_flat(row.target_tokens) for row in rows],
            [_flat(mention.span for mention in row.mentions) for row in rows],
            [[mention.label for mention in row.mentions] for row in rows],
        ],
        schema=TOKENIZED,
    )


def table_to_tokenized(table: pa.Table, chunk: Chunk) -> Iterator[TokenizedPair]:
    rest = (table[name].to_pylist() for name in TOKENIZED.names[len(_PAIRS) :])
    pairs = table_to_pairs(table, chunk)
    for pair, source_tokens, target_tokens, spans, labels in zip(pairs, *rest, strict=True):
        mentions = [EntityMention(span, label) for span, label in zip(_spans(spans), labels, strict=True)]
        yield TokenizedPair(pair, _spans(source_tokens), _spans(target_tokens), mentions)


def _flat(spans: Iterable[CharSpan]) -> list[int]:
    return [offset for span in spans for offset in span]


def _spans(offsets: list[int]) -> list[CharSpan]:
    return [CharSpan(start, end) for start, end in zip(offsets[::2], offsets[1::2], strict=True)]
