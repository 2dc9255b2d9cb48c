"""Links → mentions of entities, ten of each sampled by hash, and the texts that examples of them need.

An entity is an article that is neither a disambiguation page nor a list (decision 13), known by its number in the
title table. Entities are parted into runs of numbers; each part is worked on alone. M mentions, L links, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.steps.anchor_mrc.hash_draws import (
    SAMPLE,
    UNRELATED,
    WORDS_BEFORE,
    Ints,
    below,
    best_of_each,
    hashed,
    place_in_group,
)
from pipelines.steps.anchor_mrc.queries import title_names
from pipelines.steps.wikipedia.title_table import KINDS, TitleTable
from pipelines.steps.wikipedia.titles import RULES
from schemas.counts import AnchorCounts
from schemas.rejects import MAX_EXCERPT_CHARS, Reject

SPARE_CONTEXTS = 3  # drawn for an entity beyond those that it needs: some turn out to mention it

LINKED = pa.schema([("articles", pa.list_(pa.int32()))])  # of each page, the numbers of what it links to, ascending
DEFINED = pa.schema([("entity", pa.int64()), ("row", pa.int32()), ("page_id", pa.int64()), ("title", pa.string())])
MENTIONS = pa.schema(
    [
        ("entity", pa.int64()),
        ("count", pa.int64()),  # how often this chunk mentions the entity: on its first row, 0 on others
        ("rank", pa.uint64()),
        ("row", pa.int32()),
        ("anchor", pa.int32()),  # which of the page's anchors
        ("page_id", pa.int64()),
        ("anchor_text", pa.string()),
    ]
)
SAMPLED = pa.schema(
    [
        ("entity", pa.int64()),
        ("place", pa.int32()),  # 0, 1, 2 … of the entity's mentions
        ("title", pa.string()),  # of the definition article
        ("definition_page_id", pa.int64()),
        ("definition_chunk", pa.int32()),
        ("definition_row", pa.int32()),
        ("chunk", pa.int32()),
        ("row", pa.int32()),
        ("anchor", pa.int32()),
        ("page_id", pa.int64()),
        ("anchor_text", pa.string()),
    ]
)

DEFINITION, ANSWERABLE, UNANSWERABLE = 0, 1, 2
WANTED = pa.schema(
    [
        ("entity", pa.int64()),
        ("what", pa.int8()),  # DEFINITION, ANSWERABLE or UNANSWERABLE
        ("place", pa.int32()),
        ("row", pa.int32()),
        ("anchor", pa.int32()),  # 0 for a definition
        ("drawn", pa.uint64()),  # a hash of its own for each context
        ("names", pa.list_(pa.string())),  # UNANSWERABLE: what the article must not hold
    ]
)


# --- of one chunk ---------------------------------------------------------------------------------


class Links(NamedTuple):
    """The links of a chunk's articles, in their order."""

    row_L: Ints
    anchor_L: Ints
    article_L: Ints  # number in the title table; negative where there is none
    reason_L: NDArray[np.object_]  # why the link is no mention; "": it is one
    rules_L: Ints
    redirected_L: NDArray[np.bool_]

    @property
    def mention_M(self) -> Ints:
        return np.flatnonzero(self.reason_L == "")


def links_of(pages: pa.Table, table: TitleTable, own_rows: NDArray[np.bool_]) -> Links:
    """`own_rows`: see `is_own_row`."""
    lists = pages["targets"].combine_chunks()
    counts = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    row_L = np.repeat(np.arange(pages.num_rows), counts)
    anchor_L = np.arange(len(row_L)) - np.repeat(np.cumsum(counts) - counts, counts)
    targets = lists.flatten()
    found = table.resolve_all(targets.fill_null("").to_pylist())
    own = table.resolve_all(pages["title"].to_pylist()).articles
    same_page = (found.articles == own[row_L]) & (found.articles >= 0)
    same_page |= pc.equal(targets, "").fill_null(False).to_numpy(zero_copy_only=False)
    kind_L = np.array(KINDS, object)[found.kinds]
    is_disambiguation = pc.equal(pages["kind"], "disambiguation").to_numpy()
    reasons = [
        ("page_of_same_title", ~own_rows[row_L]),
        ("on_disambiguation_page", is_disambiguation[row_L]),
        ("invalid_title", targets.is_null().to_numpy(zero_copy_only=False)),
        ("self_link", same_page),
        ("red_link", kind_L == "red"),
        ("redirect_loop", kind_L == "loop"),
        ("disambiguation", kind_L == "disambiguation"),
        ("list", kind_L == "list"),
    ]
    reason_L = np.select([mask for _, mask in reasons], [np.array(name, object) for name, _ in reasons], "")
    rules_L = pages["rules"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return Links(row_L, anchor_L, found.articles.astype(np.int64), reason_L, rules_L, found.via_redirect)


def link_counts(links: Links) -> AnchorCounts:
    """All links, mentions, and what rule saved how many; the links that are no mentions are rejects."""
    mention_M = links.mention_M
    saved = {name: int(((links.rules_L[mention_M] & bit) != 0).sum()) for name, bit in RULES.items()}
    saved["redirect"] = int(links.redirected_L[mention_M].sum())
    return AnchorCounts(
        links_found=len(links.row_L),
        mentions=len(mention_M),
        links_saved_by={name: count for name, count in saved.items() if count},
    )


def link_rejects(links: Links, pages: pa.Table, lang: str, corpus: str) -> list[Reject]:
    """Those that are no mentions, each with the text around it."""
    refused = np.flatnonzero(links.reason_L != "")
    rejects, before = [], -1
    for place in refused.tolist():
        row, anchor = int(links.row_L[place]), int(links.anchor_L[place])
        if row != before:
            before, text = row, pages["text"][row].as_py()
            page_id, edges = pages["page_id"][row].as_py(), pages["anchor_edges"][row].as_py()
            targets = pages["targets"][row].as_py()
        start, end = edges[2 * anchor : 2 * anchor + 2]
        around = f"{text[max(0, start - 40) : start]}⟦{text[start:end]}⟧{text[end : end + 40]}"
        excerpt = f"[[{targets[anchor] or ''}]] in: {around}"[:MAX_EXCERPT_CHARS]
        reason = links.reason_L[place]
        rejects.append(Reject(reason, "link", f"{page_id}:{anchor}", lang, corpus, page_id, excerpt))
    return rejects


def linked_articles(links: Links, pages: int) -> pa.Table:
    """`LINKED` of each page."""
    is_found = links.article_L >= 0
    found = np.unique(np.stack([links.row_L[is_found], links.article_L[is_found]], axis=1), axis=0)
    offsets = np.searchsorted(found[:, 0], np.arange(pages + 1))
    return pa.table([pa.ListArray.from_arrays(offsets.astype(np.int32), found[:, 1].astype(np.int32))], schema=LINKED)


def is_own_row(pages: pa.Table, table: TitleTable, chunk: int) -> NDArray[np.bool_]:
    """Of each page, whether its title's article is this very page: no redirect, nor a second page of one title."""
    articles = table.resolve_all(pages["title"].to_pylist()).articles
    is_own = articles >= 0
    is_own[is_own] = table.locators[articles[is_own]] == locator(chunk, np.flatnonzero(is_own))
    return is_own


def locator(chunk: int, row: Any) -> Any:
    """Where a page is, as the title table keeps it."""
    return (chunk << 32) + row


def definitions_of(pages: pa.Table, table: TitleTable, own_rows: NDArray[np.bool_]) -> pa.Table:
    """`DEFINED`: this chunk's entities."""
    found = table.resolve_all(pages["title"].to_pylist())
    rows = np.flatnonzero(own_rows & (found.kinds == KINDS.index("article")))
    rows = rows[np.argsort(found.articles[rows], kind="stable")]
    entities = found.articles[rows].astype(np.int64)
    columns = [entities, rows.astype(np.int32), pages["page_id"].take(rows), pages["title"].take(rows)]
    return pa.table(columns, schema=DEFINED)


def mentions_of(pages: pa.Table, links: Links, seed: int, per_entity: int) -> pa.Table:
    """`MENTIONS`: the `per_entity` mentions of each entity that a hash ranks first, and how many there are."""
    mention_M = links.mention_M
    entity_M, row_M, anchor_M = links.article_L[mention_M], links.row_L[mention_M], links.anchor_L[mention_M]
    page_M = pages["page_id"].to_numpy()[row_M]
    rank_M = hashed(seed, SAMPLE, page_M, anchor_M)
    best = best_of_each(entity_M, rank_M, per_entity)
    entity_B, row_B, anchor_B = entity_M[best], row_M[best], anchor_M[best]
    count_B = np.zeros(len(best), np.int64)
    count_B[np.unique(entity_B, return_index=True)[1]] = np.unique(entity_M, return_counts=True)[1]
    text_B = _anchor_texts(pages, row_B, anchor_B)
    columns = [entity_B, count_B, rank_M[best], row_B.astype(np.int32), anchor_B.astype(np.int32), page_M[best], text_B]
    return pa.table(columns, schema=MENTIONS)


def _anchor_texts(pages: pa.Table, row_B: Ints, anchor_B: Ints) -> list[str]:
    found = [""] * len(row_B)
    before, text, edges = -1, "", []
    for place in np.argsort(row_B, kind="stable").tolist():
        if row_B[place] != before:  # an article is decoded once
            before = int(row_B[place])
            text, edges = pages["text"][before].as_py(), pages["anchor_edges"][before].as_py()
        start, end = edges[2 * anchor_B[place] : 2 * anchor_B[place] + 2]
        found[place] = text[start:end]
    return found


def cut_by_part(table: pa.Table, entities: int, parts: int) -> list[pa.Table]:
    """A table whose entities ascend, cut into those of each part: `i * entities / parts` to below that of i + 1."""
    starts = [-(-index * entities // parts) for index in range(parts + 1)]
    return _slices(table, np.searchsorted(table["entity"].to_numpy(), starts))


def _slices(table: pa.Table, bounds: Ints) -> list[pa.Table]:
    return [table.slice(start, end - start) for start, end in pairwise(bounds.tolist())]


# --- of one part ----------------------------------------------------------------------------------


def sample_mentions(
    mentions: Sequence[pa.Table],
    definitions: Sequence[pa.Table],
    per_entity: int,
    min_mentions: int,
) -> tuple[pa.Table, dict[str, int]]:
    """`MENTIONS` and `DEFINED` of every chunk → `SAMPLED`, by entity and place, and why others were left out.

    An entity with fewer than `min_mentions` is left out with all of them.
    """
    found, defined = _with_chunk(mentions), _with_chunk(definitions)
    entity_M, count_M = found["entity"].to_numpy(), found["count"].to_numpy()
    numbers, which_M = np.unique(entity_M, return_inverse=True)
    total_E = np.zeros(len(numbers), np.int64)
    np.add.at(total_E, which_M, count_M)
    is_kept_E = total_E >= min_mentions
    rows = np.flatnonzero(is_kept_E[which_M])
    rows = rows[best_of_each(entity_M[rows], found["rank"].to_numpy()[rows], per_entity)]
    kept = found.take(rows)
    entity_K = kept["entity"].to_numpy()
    of_definition = np.searchsorted(defined["entity"].to_numpy(), entity_K)
    definition = defined.take(of_definition)
    place_K = place_in_group(entity_K)
    sampled = pa.table(
        [
            entity_K,
            place_K.astype(np.int32),
            definition["title"],
            definition["page_id"],
            definition["chunk"],
            definition["row"],
            kept["chunk"],
            kept["row"],
            kept["anchor"],
            kept["page_id"],
            kept["anchor_text"],
        ],
        schema=SAMPLED,
    )
    rare = int(total_E[~is_kept_E].sum())
    refused = {"rare_entity": rare, "not_sampled": int(total_E.sum()) - rare - len(rows)}
    return sampled, {reason: count for reason, count in refused.items() if count}


def _with_chunk(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables of all chunks, by entity, each row with its chunk's number."""
    numbered = [
        part.append_column("chunk", pa.array(np.full(len(part), number, np.int32)))
        for number, part in enumerate(tables)
    ]
    table = pa.concat_tables(numbered).combine_chunks()
    return table.take(np.argsort(table["entity"].to_numpy(), kind="stable"))


def wanted_texts(
    sampled: pa.Table, places: Callable[[Ints], tuple[Ints, Ints, Ints]], total: int, chunks: int, seed: int
) -> list[pa.Table]:
    """`SAMPLED` of one part → `WANTED` of each chunk: its entities' definitions, their mentions' contexts, and contexts
    that shall mention them not.

    Those are drawn from all `total` mentions that were sampled for any entity, so that their articles, and the places
    in them, are like those of answerable ones; `places` tells the chunk, row and anchor of such numbers.
    """
    entity_K, place_K = (sampled[name].to_numpy() for name in ("entity", "place"))
    first = np.flatnonzero(place_K == 0)
    count_E = np.diff(first, append=len(entity_K))
    definitions = _wanted(
        DEFINITION,
        entity_K[first],
        place_K[first],
        sampled["definition_chunk"].to_numpy()[first],
        sampled["definition_row"].to_numpy()[first],
        np.zeros(len(first), np.int64),
        np.zeros(len(first), np.uint64),
    )
    anchor_K, page_K = sampled["anchor"].to_numpy(), sampled["page_id"].to_numpy()
    answerable = _wanted(
        ANSWERABLE,
        entity_K,
        place_K,
        sampled["chunk"].to_numpy(),
        sampled["row"].to_numpy(),
        anchor_K,
        hashed(seed, WORDS_BEFORE, page_K, anchor_K),
    )
    draws_E = count_E + SPARE_CONTEXTS
    of_D = np.repeat(np.arange(len(first)), draws_E)
    place_D = np.arange(len(of_D)) - np.repeat(np.cumsum(draws_E) - draws_E, draws_E)
    drawn_D = hashed(seed, UNRELATED, sampled["definition_page_id"].to_numpy()[first][of_D], place_D)
    chunk_D, row_D, anchor_D = places(below(drawn_D, total))
    texts = sampled["anchor_text"].to_pylist()
    titles = sampled["title"].take(first).to_pylist()
    names_E = [
        list(dict.fromkeys([*title_names(title), *texts[start : start + count]]))
        for title, start, count in zip(titles, first.tolist(), count_E.tolist(), strict=True)
    ]
    words_before_D = hashed(seed, WORDS_BEFORE, drawn_D)
    names_D = [names_E[entity] for entity in of_D]
    unanswerable = _wanted(
        UNANSWERABLE, entity_K[first][of_D], place_D, chunk_D, row_D, anchor_D, words_before_D, names_D
    )
    everything = pa.concat_tables([definitions, answerable, unanswerable]).combine_chunks()
    chunk_W = everything["chunk"].to_numpy()
    order = np.lexsort((everything["row"].to_numpy(), chunk_W))
    everything = everything.take(order).select(WANTED.names)
    return _slices(everything, np.searchsorted(chunk_W[order], np.arange(chunks + 1)))


def _wanted(
    what: int, entity: Ints, place: Ints, chunk: Ints, row: Ints, anchor: Ints, drawn: Any, names: Any = None
) -> pa.Table:
    columns = [
        entity,
        np.full(len(entity), what, np.int8),
        place.astype(np.int32),
        row.astype(np.int32),
        anchor.astype(np.int32),
        drawn,
        names if names is not None else [None] * len(entity),
        chunk.astype(np.int32),
    ]
    return pa.table(columns, schema=WANTED.append(pa.field("chunk", pa.int32())))
