"""Stages of the CLISM job, and the Arrow tables that the work folder keeps of them.

    stage              one row is                                          made by            read by
    READ_STAGE         a sentence pair as read, with its text's digest     read_chunks        digests_by_partition,
                                                                                              tokenize_and_tag
    TOKENIZED_STAGE    a pair that passed the filters, its words and       tokenize_and_tag   sample_for_training,
                       source mentions                                                        align_and_mask
    MODELS_STAGE       no table: the aligner's model of a language pair    train_aligner,     align_and_mask
                                                                           keep_aligner
    MASKED_STAGE       a CLISM example: schemas.clism.ARROW_SCHEMA         align_and_mask     WriteDataset

Every stage but the models has one table per chunk. A chunk is some thousand consecutive sentence pairs of one file: the
unit of work, of batching and of resuming. The input alone decides where a file is cut, so every runner gives the same
batches to a neural tagger, whose results can depend on them. The functions are in `pipelines/clism_transforms.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from pipelines.steps.bitext.filters import text_digest
from pipelines.steps.clism.masking import TokenizedPair
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair, record_id
from schemas.languages import LanguagePair
from schemas.spans import CharSpan

READ_STAGE, TOKENIZED_STAGE, MODELS_STAGE, MASKED_STAGE = "read", "tokenized", "models", "masked"

_SPANS = pa.list_(pa.int32())  # start, end, start, end …
_TEXTS = pa.schema([("line", pa.int64()), ("source_text", pa.string()), ("target_text", pa.string())])
READ_SCHEMA = _TEXTS.append(pa.field("digest", pa.binary(16)))
TOKENIZED_SCHEMA = pa.schema(
    [
        *_TEXTS,
        ("source_tokens", _SPANS),
        ("target_tokens", _SPANS),
        ("mention_spans", _SPANS),
        ("mention_labels", pa.list_(pa.string())),
    ]
)


class Chunk(NamedTuple):
    """Refers to a run of consecutive records of one input file. The records themselves are in the tables."""

    key: str  # sorts in the order of the input
    pair: str  # "en-vi"
    corpus: str

    @property
    def languages(self) -> LanguagePair:
        return LanguagePair(*self.pair.split("-", 1))


def pairs_to_table(pairs: Iterable[SentencePair]) -> pa.Table:
    """Makes a table of `READ_SCHEMA`."""
    pairs = list(pairs)
    return pa.table(
        [
            [pair.line for pair in pairs],
            [pair.source_text for pair in pairs],
            [pair.target_text for pair in pairs],
            [text_digest(pair) for pair in pairs],
        ],
        schema=READ_SCHEMA,
    )


def table_to_pairs(table: pa.Table, chunk: Chunk) -> Iterator[SentencePair]:
    """Reads the sentence pairs of a table of either schema."""
    languages = chunk.languages
    for line, source, target in zip(*(table[name].to_pylist() for name in _TEXTS.names), strict=True):
        yield SentencePair(record_id(languages, chunk.corpus, line), languages, chunk.corpus, line, source, target)


def tokenized_to_table(tokenized: Iterable[TokenizedPair]) -> pa.Table:
    """Makes a table of `TOKENIZED_SCHEMA`."""
    rows = list(tokenized)
    return pa.table(
        [
            [row.sentences.line for row in rows],
            [row.sentences.source_text for row in rows],
            [row.sentences.target_text for row in rows],
            [_flat(row.source_tokens) for row in rows],
            [_flat(row.target_tokens) for row in rows],
            [_flat(mention.span for mention in row.mentions) for row in rows],
            [[mention.label for mention in row.mentions] for row in rows],
        ],
        schema=TOKENIZED_SCHEMA,
    )


def table_to_tokenized(table: pa.Table, chunk: Chunk) -> Iterator[TokenizedPair]:
    """Reads a table of `TOKENIZED_SCHEMA`."""
    columns = (table[name].to_pylist() for name in TOKENIZED_SCHEMA.names[len(_TEXTS) :])
    pairs = table_to_pairs(table, chunk)
    for sentences, source_tokens, target_tokens, spans, labels in zip(pairs, *columns, strict=True):
        mentions = [EntityMention(span, label) for span, label in zip(_spans(spans), labels, strict=True)]
        yield TokenizedPair(sentences, _spans(source_tokens), _spans(target_tokens), mentions)


def _flat(spans: Iterable[CharSpan]) -> list[int]:
    return [offset for span in spans for offset in span]


def _spans(offsets: list[int]) -> list[CharSpan]:
    return [CharSpan(start, end) for start, end in zip(offsets[::2], offsets[1::2], strict=True)]
