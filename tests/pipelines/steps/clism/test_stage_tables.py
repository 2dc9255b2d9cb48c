from __future__ import annotations

import pytest

from pipelines.steps.clism.masking import TokenizedPair
from pipelines.steps.clism.stage_tables import (
    READ_SCHEMA,
    TOKENIZED_SCHEMA,
    Chunk,
    pairs_to_table,
    table_to_pairs,
    table_to_tokenized,
    tokenized_to_table,
)
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair, record_id
from schemas.languages import LanguagePair
from schemas.spans import CharSpan

CHUNK = Chunk("00000-0000000", "en-zh_Hant", "news.en")
LANGUAGES = LanguagePair("en", "zh_Hant")
PAIR = SentencePair(record_id(LANGUAGES, "news.en", 17), LANGUAGES, "news.en", 17, "Hue 🏯 \u2028is", "顺化 ")


def test_a_chunk_knows_its_languages() -> None:
    assert CHUNK.languages == LANGUAGES


def test_a_pair_comes_back_from_the_table_of_what_was_read() -> None:
    table = pairs_to_table([PAIR])
    assert table.schema == READ_SCHEMA and len(table["digest"][0].as_py()) == 16
    assert list(table_to_pairs(table, CHUNK)) == [PAIR]


@pytest.mark.parametrize("mentions", [[], [EntityMention(CharSpan(0, 3), "GPE"), EntityMention(CharSpan(4, 5), "FAC")]])
def test_words_and_mentions_come_back_from_the_table_of_tokenized_pairs(mentions: list[EntityMention]) -> None:
    row = TokenizedPair(PAIR, [CharSpan(0, 3), CharSpan(4, 5)], [CharSpan(0, 2)], mentions)
    table = tokenized_to_table([row])
    assert table.schema == TOKENIZED_SCHEMA
    assert list(table_to_tokenized(table, CHUNK)) == [row]


def test_a_chunk_without_a_pair_is_a_table_without_a_row() -> None:
    assert list(table_to_pairs(pairs_to_table([]), CHUNK)) == []
    assert list(table_to_tokenized(tokenized_to_table([]), CHUNK)) == []
