"""Samples the mentions of each entity by hash, and lists the texts that its examples need.

Arrays are NumPy's, named by their axes: M mentions, E entities, K sampled (kept) mentions, D drawn contexts,
W wanted texts. `wanted_texts` handles one part, whose sampled mentions are sorted by entity:

    entity_K    7    7    7    9    12   12      the entity of each sampled mention
    ordinal_K   0    1    2    0    0    1       0: the entity's first mention
    first_E     0              3    4            rows of the entities' first mentions
    count_E     3              1    2            mentions per entity
    draws_E     6              4    5            count_E + SPARE_CONTEXTS
    index_D     000000         1111 22222        the entity of each drawn context, an index into …_E
    ordinal_D   012345         0123 01234
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.steps.anchor_mrc.hash_draws import (
    SAMPLE,
    UNRELATED,
    WORDS_BEFORE,
    Hashes,
    Ints,
    below,
    best_of_each,
    hashed,
    position_in_group,
)
from pipelines.steps.anchor_mrc.link_resolution import Links
from pipelines.steps.anchor_mrc.queries import title_names
from pipelines.steps.anchor_mrc.stage_tables import (
    ANSWERABLE,
    DEFINITION,
    MENTIONS_SCHEMA,
    SAMPLED_SCHEMA,
    UNANSWERABLE,
    WANTED_SCHEMA,
)

SPARE_CONTEXTS = 3  # drawn for an entity beyond those that it needs: some turn out to mention it


# --- the mentions of one chunk --------------------------------------------------------------------


def mentions_of(pages: pa.Table, links: Links, seed: int, per_entity: int) -> pa.Table:
    """Returns a table of `MENTIONS_SCHEMA`: each entity's `per_entity` mentions with the lowest hashes, and its count.

    B is the axis of these best mentions.
    """
    mention_M = links.mention_M
    entity_M, row_M, anchor_M = links.article_L[mention_M], links.row_L[mention_M], links.anchor_L[mention_M]
    page_M = pages["page_id"].to_numpy()[row_M]
    hash_M = hashed(seed, SAMPLE, page_M, anchor_M)
    best = best_of_each(entity_M, hash_M, per_entity)
    entity_B, row_B, anchor_B = entity_M[best], row_M[best], anchor_M[best]
    count_B = np.zeros(len(best), np.int64)
    count_B[np.unique(entity_B, return_index=True)[1]] = np.unique(entity_M, return_counts=True)[1]
    text_B = _anchor_texts(pages, row_B, anchor_B)
    columns = [entity_B, count_B, hash_M[best], row_B.astype(np.int32), anchor_B.astype(np.int32), page_M[best], text_B]
    return pa.table(columns, schema=MENTIONS_SCHEMA)


def _anchor_texts(pages: pa.Table, row_B: Ints, anchor_B: Ints) -> list[str]:
    text_B = [""] * len(row_B)
    decoded_row, page_text, edges = -1, "", []
    for index in np.argsort(row_B, kind="stable").tolist():
        if row_B[index] != decoded_row:  # a page is decoded once
            decoded_row = int(row_B[index])
            page_text, edges = pages["text"][decoded_row].as_py(), pages["anchor_edges"][decoded_row].as_py()
        start, end = edges[2 * anchor_B[index] : 2 * anchor_B[index] + 2]
        text_B[index] = page_text[start:end]
    return text_B


def cut_by_part(table: pa.Table, entities: int, parts: int) -> list[pa.Table]:
    """Cuts a table whose entities ascend: part i holds entities `i * entities / parts` to below that of i + 1."""
    starts = [-(-index * entities // parts) for index in range(parts + 1)]
    return _slices(table, np.searchsorted(table["entity"].to_numpy(), starts))


def _slices(table: pa.Table, bounds: Ints) -> list[pa.Table]:
    return [table.slice(start, end - start) for start, end in pairwise(bounds.tolist())]


# --- the sampled mentions of one part -------------------------------------------------------------


def sample_mentions(
    mentions: Sequence[pa.Table], definitions: Sequence[pa.Table], per_entity: int, min_mentions: int
) -> tuple[pa.Table, dict[str, int]]:
    """Samples at most `per_entity` mentions of each entity that has at least `min_mentions`.

    Takes one table of `MENTIONS_SCHEMA` and one of `DEFINED_SCHEMA` for each chunk. Returns a table of
    `SAMPLED_SCHEMA`, by entity and ordinal, and for each reason how many mentions were left out.
    """
    found, defined = _with_chunk(mentions), _with_chunk(definitions)
    entity_M, count_M = found["entity"].to_numpy(), found["count"].to_numpy()
    entity_E, index_M = np.unique(entity_M, return_inverse=True)
    total_E = np.zeros(len(entity_E), np.int64)
    np.add.at(total_E, index_M, count_M)
    is_frequent_E = total_E >= min_mentions
    rows = np.flatnonzero(is_frequent_E[index_M])
    rows = rows[best_of_each(entity_M[rows], found["sample_hash"].to_numpy()[rows], per_entity)]
    rare = int(total_E[~is_frequent_E].sum())
    left_out = {"rare_entity": rare, "not_sampled": int(total_E.sum()) - rare - len(rows)}
    return _sampled_table(found.take(rows), defined), {reason: count for reason, count in left_out.items() if count}


def _sampled_table(sampled: pa.Table, defined: pa.Table) -> pa.Table:
    """Joins sampled mentions with their entities' definitions; both are sorted by entity."""
    entity_K = sampled["entity"].to_numpy()
    definition = defined.take(np.searchsorted(defined["entity"].to_numpy(), entity_K))
    columns = [
        entity_K,
        position_in_group(entity_K).astype(np.int32),
        definition["title"],
        definition["page_id"],
        definition["chunk"],
        definition["row"],
        sampled["chunk"],
        sampled["row"],
        sampled["anchor"],
        sampled["page_id"],
        sampled["anchor_text"],
    ]
    return pa.table(columns, schema=SAMPLED_SCHEMA)


def _with_chunk(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenates the tables of all chunks, adds the chunk's number to each row, and sorts them by entity."""
    numbered = [
        table.append_column("chunk", pa.array(np.full(len(table), number, np.int32)))
        for number, table in enumerate(tables)
    ]
    table = pa.concat_tables(numbered).combine_chunks()
    return table.take(np.argsort(table["entity"].to_numpy(), kind="stable"))


# --- the texts that one part wants ----------------------------------------------------------------

Locate = Callable[[Ints], tuple[Ints, Ints, Ints]]
"""Numbers of sampled mentions, counted over all parts of the wiki → their chunks, rows and anchors."""


def wanted_texts(sampled: pa.Table, locate: Locate, total: int, chunks: int, seed: int) -> list[pa.Table]:
    """Returns for each chunk a table of `WANTED_SCHEMA`, by row: what the part's examples need of its pages.

    Takes a part's table of `SAMPLED_SCHEMA`. Wanted are the entities' definitions, the contexts of their mentions, and
    contexts that should not mention them. These are drawn from all `total` mentions that were sampled for any entity,
    so that their articles, and the positions in them, are distributed like those of answerable contexts.
    """
    entities = _entities_of(sampled)
    wanted = [_definitions(entities), _answerable(sampled, seed), _unanswerable(entities, locate, total, seed)]
    return _by_chunk(pa.concat_tables(wanted).combine_chunks(), chunks)


class _Entities(NamedTuple):
    """The entities of one part; see the drawing above."""

    entity_E: Ints
    count_E: Ints
    chunk_E: Ints  # chunk, row and page: of the definition article
    row_E: Ints
    page_E: Ints
    names_E: list[list[str]]  # the title, with and without its parenthesis, and the anchors' texts


def _entities_of(sampled: pa.Table) -> _Entities:
    first_E = np.flatnonzero(sampled["ordinal"].to_numpy() == 0)
    count_E = np.diff(first_E, append=len(sampled))
    entity_E, chunk_E, row_E, page_E = (
        sampled[name].to_numpy()[first_E]
        for name in ("entity", "definition_chunk", "definition_row", "definition_page_id")
    )
    texts = sampled["anchor_text"].to_pylist()
    titles = sampled["title"].take(first_E).to_pylist()
    names_E = [
        list(dict.fromkeys([*title_names(title), *texts[start : start + count]]))
        for title, start, count in zip(titles, first_E.tolist(), count_E.tolist(), strict=True)
    ]
    return _Entities(entity_E, count_E, chunk_E, row_E, page_E, names_E)


def _definitions(entities: _Entities) -> pa.Table:
    zero_E = np.zeros(len(entities.entity_E), np.int64)
    return _wanted(
        DEFINITION, entities.entity_E, zero_E, entities.chunk_E, entities.row_E, zero_E, zero_E.astype(np.uint64)
    )


def _answerable(sampled: pa.Table, seed: int) -> pa.Table:
    entity_K, ordinal_K, chunk_K, row_K, anchor_K, page_K = (
        sampled[name].to_numpy() for name in ("entity", "ordinal", "chunk", "row", "anchor", "page_id")
    )
    hash_K = hashed(seed, WORDS_BEFORE, page_K, anchor_K)
    return _wanted(ANSWERABLE, entity_K, ordinal_K, chunk_K, row_K, anchor_K, hash_K)


def _unanswerable(entities: _Entities, locate: Locate, total: int, seed: int) -> pa.Table:
    draws_E = entities.count_E + SPARE_CONTEXTS
    index_D = np.repeat(np.arange(len(draws_E)), draws_E)
    ordinal_D = np.arange(len(index_D)) - np.repeat(np.cumsum(draws_E) - draws_E, draws_E)
    draw_D = hashed(seed, UNRELATED, entities.page_E[index_D], ordinal_D)
    chunk_D, row_D, anchor_D = locate(below(draw_D, total))
    hash_D = hashed(seed, WORDS_BEFORE, draw_D)
    names_D = [entities.names_E[entity] for entity in index_D]
    return _wanted(UNANSWERABLE, entities.entity_E[index_D], ordinal_D, chunk_D, row_D, anchor_D, hash_D, names_D)


def _wanted(
    kind: int,
    entity_W: Ints,
    ordinal_W: Ints,
    chunk_W: Ints,
    row_W: Ints,
    anchor_W: Ints,
    position_hash_W: Hashes,
    names_W: list[list[str]] | None = None,
) -> pa.Table:
    """Returns a table of `WANTED_SCHEMA` and a last column with the chunk's number."""
    columns = [
        entity_W,
        np.full(len(entity_W), kind, np.int8),
        ordinal_W.astype(np.int32),
        row_W.astype(np.int32),
        anchor_W.astype(np.int32),
        position_hash_W,
        names_W if names_W is not None else [None] * len(entity_W),
        chunk_W.astype(np.int32),
    ]
    return pa.table(columns, schema=WANTED_SCHEMA.append(pa.field("chunk", pa.int32())))


def _by_chunk(wanted: pa.Table, chunks: int) -> list[pa.Table]:
    """Sorts by chunk and row, and cuts the table at the chunks' bounds."""
    chunk_W = wanted["chunk"].to_numpy()
    order = np.lexsort((wanted["row"].to_numpy(), chunk_W))
    wanted = wanted.take(order).select(WANTED_SCHEMA.names)
    return _slices(wanted, np.searchsorted(chunk_W[order], np.arange(chunks + 1)))
