"""Mention sampling: which mentions of an entity become examples, and which texts these need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipelines.steps.anchor_mrc.hash_draws import SAMPLE, hashed
from pipelines.steps.anchor_mrc.link_resolution import is_own_row, resolve_links
from pipelines.steps.anchor_mrc.mention_sampling import (
    SPARE_CONTEXTS,
    cut_by_part,
    mentions_of,
    sample_mentions,
    wanted_texts,
)
from pipelines.steps.anchor_mrc.stage_tables import (
    ANSWERABLE,
    DEFINED_SCHEMA,
    DEFINITION,
    MENTIONS_SCHEMA,
    SAMPLED_SCHEMA,
    UNANSWERABLE,
)
from tests.pipelines.steps.anchor_mrc.wiki_pages import WikiPage, pages_of, titles_of

# --- mentions of one chunk ------------------------------------------------------------------------


def mentions(per_entity: int) -> list[dict]:
    pages = pages_of(
        WikiPage("Dog", "A dog."), *(WikiPage(f"Page {number}", f"See [[Dog|dog {number}]].") for number in range(6))
    )
    titles = titles_of(pages)
    links = resolve_links(pages, titles, is_own_row(pages, titles, 0))
    return mentions_of(pages, links, 7, per_entity).to_pylist()


def test_a_chunk_keeps_the_mentions_of_lowest_hash_and_counts_all():
    hashes = hashed(7, SAMPLE, np.arange(2, 8), np.zeros(6, np.int64))
    kept = mentions(per_entity=2)
    assert [row["page_id"] for row in kept] == (np.argsort(hashes)[:2] + 2).tolist()
    assert [row["sample_hash"] for row in kept] == np.sort(hashes)[:2].tolist()
    assert [row["count"] for row in kept] == [6, 0]
    assert [row["anchor_text"] for row in kept] == [f"dog {row['page_id'] - 2}" for row in kept]


def test_all_mentions_are_kept_where_there_are_fewer():
    assert sorted(row["page_id"] for row in mentions(per_entity=10)) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("parts, expected", [(1, [[0, 1, 3, 4]]), (2, [[0, 1], [3, 4]]), (5, [[0], [1], [], [3], [4]])])
def test_a_table_is_cut_by_entity_number(parts, expected):
    table = pa.table({"entity": [0, 1, 3, 4]})
    assert [part["entity"].to_pylist() for part in cut_by_part(table, 5, parts)] == expected


# --- the sample of one part -----------------------------------------------------------------------


def mention(entity: int, sample_hash: int, page_id: int, count: int = 1) -> dict:
    return {"entity": entity, "count": count, "sample_hash": sample_hash, "row": 0, "anchor": 0, "page_id": page_id,
            "anchor_text": "dog"}  # fmt: skip


def sampled(chunks: list[list[dict]], per_entity: int, min_mentions: int) -> tuple[list[dict], dict[str, int]]:
    """Samples mentions of the entities 1 and 2, which are defined in the first chunk."""
    defined = [
        {"entity": entity, "row": entity, "page_id": 100 + entity, "title": f"Entity {entity}"} for entity in (1, 2)
    ]
    definitions = [pa.Table.from_pylist(rows, DEFINED_SCHEMA) for rows in [defined, *[[]] * (len(chunks) - 1)]]
    tables = [pa.Table.from_pylist(rows, MENTIONS_SCHEMA) for rows in chunks]
    table, left_out = sample_mentions(tables, definitions, per_entity, min_mentions)
    return table.to_pylist(), left_out


def test_the_lowest_hashes_of_all_chunks_are_sampled():
    chunks = [[mention(1, 30, page_id=5)], [mention(1, 10, page_id=6, count=2), mention(1, 20, page_id=7, count=0)]]
    rows, left_out = sampled(chunks, per_entity=2, min_mentions=1)
    assert [(row["page_id"], row["chunk"], row["ordinal"]) for row in rows] == [(6, 1, 0), (7, 1, 1)]
    assert left_out == {"not_sampled": 1}


def test_an_entity_with_too_few_mentions_is_left_out_with_all_of_them():
    rows, left_out = sampled([[mention(1, 10, 5, count=2), mention(1, 20, 6, count=0), mention(2, 10, 7)]], 10, 2)
    assert [row["entity"] for row in rows] == [1, 1] and left_out == {"rare_entity": 1}


def test_mentions_that_a_chunk_did_not_keep_count_towards_the_minimum():
    rows, left_out = sampled([[mention(1, 10, 5, count=9)]], per_entity=1, min_mentions=9)
    assert len(rows) == 1 and left_out == {"not_sampled": 8}


def test_a_sampled_mention_names_its_definition_article():
    (row,), _ = sampled([[], [mention(2, 10, page_id=5)]], 1, 1)
    assert row["title"] == "Entity 2" and row["definition_page_id"] == 102
    assert (row["definition_chunk"], row["definition_row"], row["chunk"]) == (0, 2, 1)


# --- wanted texts ---------------------------------------------------------------------------------


def row(entity: int, ordinal: int, chunk: int, page_row: int) -> dict:
    return {"entity": entity, "ordinal": ordinal, "title": f"Dog ({entity})", "definition_page_id": 100 + entity,
            "definition_chunk": 1, "definition_row": entity, "chunk": chunk, "row": page_row, "anchor": 4,
            "page_id": 50 + page_row, "anchor_text": f"hound {ordinal}"}  # fmt: skip


SAMPLE_OF_PART = [row(7, 0, 0, 3), row(7, 1, 1, 0), row(9, 0, 0, 2)]


def wanted(rows: list[dict] = SAMPLE_OF_PART) -> list[list[dict]]:
    """Returns what each of two chunks shall give; unanswerable contexts are drawn from rows 20 to 29 of chunk 0."""

    def locate(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert ((numbers >= 0) & (numbers < 10)).all()
        return np.zeros_like(numbers), numbers + 20, numbers + 30

    return [table.to_pylist() for table in wanted_texts(pa.Table.from_pylist(rows, SAMPLED_SCHEMA), locate, 10, 2, 0)]


def of_kind(rows: list[dict], kind: int) -> list[dict]:
    return sorted((row for row in rows if row["kind"] == kind), key=lambda row: (row["entity"], row["ordinal"]))


def test_every_entity_wants_its_definition_once():
    first, second = wanted()
    assert of_kind(first, DEFINITION) == []
    assert [(row["entity"], row["row"]) for row in of_kind(second, DEFINITION)] == [(7, 7), (9, 9)]


def test_every_sampled_mention_wants_its_context():
    first, second = (of_kind(rows, ANSWERABLE) for rows in wanted())
    assert [(row["entity"], row["ordinal"], row["row"], row["anchor"]) for row in first] == [(7, 0, 3, 4), (9, 0, 2, 4)]
    assert [(row["entity"], row["ordinal"], row["row"], row["anchor"]) for row in second] == [(7, 1, 0, 4)]


def test_unanswerable_contexts_are_drawn_for_every_mention_and_some_to_spare():
    drawn = of_kind(wanted()[0], UNANSWERABLE)
    assert [row["ordinal"] for row in drawn if row["entity"] == 7] == list(range(2 + SPARE_CONTEXTS))
    assert [row["ordinal"] for row in drawn if row["entity"] == 9] == list(range(1 + SPARE_CONTEXTS))
    assert all(row["anchor"] == row["row"] + 10 for row in drawn)  # as `locate` says
    assert len({row["position_hash"] for row in drawn}) == len(drawn)


def test_unanswerable_contexts_must_not_hold_any_name_of_the_entity():
    names = {row["entity"]: row["names"] for row in of_kind(wanted()[0], UNANSWERABLE)}
    assert names == {7: ["Dog (7)", "Dog", "hound 0", "hound 1"], 9: ["Dog (9)", "Dog", "hound 0"]}


def test_a_chunk_gets_what_is_wanted_of_it_by_row():
    rows = [row["row"] for row in wanted()[0]]
    assert rows == sorted(rows)


def test_what_an_entity_wants_does_not_depend_on_the_other_entities_of_its_part():
    alone = wanted([SAMPLE_OF_PART[2]])
    together = [[row for row in rows if row["entity"] == 9] for rows in wanted()]
    assert alone == together


def test_a_part_without_sampled_mentions_wants_nothing():
    assert wanted([]) == [[], []]
