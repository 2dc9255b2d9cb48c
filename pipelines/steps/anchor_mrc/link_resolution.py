"""Resolves the links of a chunk's pages: each link is a mention of an entity, or has a reason why it is none.

Arrays are NumPy's, named by their axes: L links and P pages of one chunk, M mentions among the links.

    pages      page 0 has 3 anchors, page 1 none, page 2 has 2
    row_L      0       0       0           2       2          the link's page
    anchor_L   0       1       2           0       1          the link's index in its page
    article_L  17      -1      4           17      17         the article that it leads to, by number; -1: none
    reason_L   ""      red_link  self_link  ""     ""         "": a mention
    mention_M  0                           3       4          indices into the arrays of L
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.steps.anchor_mrc.hash_draws import Ints
from pipelines.steps.anchor_mrc.stage_tables import DEFINED_SCHEMA, LINKED_SCHEMA
from pipelines.steps.wikipedia.title_table import KINDS, Resolutions, TitleTable
from pipelines.steps.wikipedia.titles import RULES
from schemas.anchor_mrc import AnchorCounts
from schemas.rejects import MAX_EXCERPT_CHARS, Reject

EXCERPT_MARGIN = 40  # characters of the page that an excerpt shows on each side of a link


class Links(NamedTuple):
    """The links of a chunk's pages, in the pages' order."""

    row_L: Ints
    anchor_L: Ints
    article_L: Ints  # number in the title table; negative where there is none
    reason_L: NDArray[np.object_]  # why the link is no mention; "": it is one
    rules_L: Ints  # bits of `titles.RULES` that its title needed
    redirected_L: NDArray[np.bool_]

    @property
    def mention_M(self) -> Ints:
        return np.flatnonzero(self.reason_L == "")


def resolve_links(pages: pa.Table, titles: TitleTable, own_rows_P: NDArray[np.bool_]) -> Links:
    """Returns where every link leads, and why it is no mention. `own_rows_P` comes from `is_own_row`."""
    row_L, anchor_L = _link_positions(pages)
    resolved = titles.resolve_all(pages["targets"].combine_chunks().flatten().fill_null("").to_pylist())
    reason_L = _reasons(pages, titles, own_rows_P, row_L, resolved)
    rules_L = pages["rules"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return Links(row_L, anchor_L, resolved.articles.astype(np.int64), reason_L, rules_L, resolved.via_redirect)


def _link_positions(pages: pa.Table) -> tuple[Ints, Ints]:
    """Returns (L,) rows of the links' pages and (L,) indices of the links in their pages."""
    count_P = pages["targets"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    row_L = np.repeat(np.arange(pages.num_rows), count_P)
    return row_L, np.arange(len(row_L)) - np.repeat(np.cumsum(count_P) - count_P, count_P)


def _reasons(
    pages: pa.Table, titles: TitleTable, own_rows_P: NDArray[np.bool_], row_L: Ints, resolved: Resolutions
) -> NDArray[np.object_]:
    """Returns (L,) the first of the reasons below that applies to a link; "" if none does."""
    targets = pages["targets"].combine_chunks().flatten()
    own_article_P = titles.resolve_all(pages["title"].to_pylist()).articles
    is_same_page_L = (resolved.articles == own_article_P[row_L]) & (resolved.articles >= 0)
    is_same_page_L |= pc.equal(targets, "").fill_null(False).to_numpy(zero_copy_only=False)
    kind_L = np.array(KINDS, object)[resolved.kinds]
    is_disambiguation_P = pc.equal(pages["kind"], "disambiguation").to_numpy()
    reasons = [
        ("page_of_same_title", ~own_rows_P[row_L]),
        ("on_disambiguation_page", is_disambiguation_P[row_L]),
        ("invalid_title", targets.is_null().to_numpy(zero_copy_only=False)),
        ("self_link", is_same_page_L),
        ("red_link", kind_L == "red"),
        ("redirect_loop", kind_L == "loop"),
        ("disambiguation", kind_L == "disambiguation"),
        ("list", kind_L == "list"),
    ]
    return np.select([mask_L for _, mask_L in reasons], [np.array(name, object) for name, _ in reasons], "")


def link_counts(links: Links) -> AnchorCounts:
    """Counts links, mentions, and by rule the mentions that would be red links without it.

    Links that are no mentions are counted with their rejects (`link_rejects`).
    """
    mention_M = links.mention_M
    saved = {name: int(((links.rules_L[mention_M] & bit) != 0).sum()) for name, bit in RULES.items()}
    saved["redirect"] = int(links.redirected_L[mention_M].sum())
    return AnchorCounts(
        links_found=len(links.row_L),
        mentions=len(mention_M),
        links_saved_by={name: count for name, count in saved.items() if count},
    )


def link_rejects(links: Links, pages: pa.Table, lang: str, corpus: str) -> list[Reject]:
    """Returns a reject for each link that is no mention, with the text around it."""
    rejects: list[Reject] = []
    decoded_row = -1
    for link in np.flatnonzero(links.reason_L != "").tolist():
        row, anchor = int(links.row_L[link]), int(links.anchor_L[link])
        if row != decoded_row:  # a page is decoded once
            decoded_row, text = row, pages["text"][row].as_py()
            page_id, edges = pages["page_id"][row].as_py(), pages["anchor_edges"][row].as_py()
            targets = pages["targets"][row].as_py()
        start, end = edges[2 * anchor : 2 * anchor + 2]
        before, after = text[max(0, start - EXCERPT_MARGIN) : start], text[end : end + EXCERPT_MARGIN]
        excerpt = f"[[{targets[anchor] or ''}]] in: {before}⟦{text[start:end]}⟧{after}"[:MAX_EXCERPT_CHARS]
        reason = links.reason_L[link]
        rejects.append(Reject(reason, "link", f"{page_id}:{anchor}", lang, corpus, page_id, excerpt))
    return rejects


def linked_articles(links: Links, page_count: int) -> pa.Table:
    """Returns a table of `LINKED_SCHEMA`: each page's links, without repetition, mentions or not."""
    is_known_L = links.article_L >= 0
    pairs = np.unique(np.stack([links.row_L[is_known_L], links.article_L[is_known_L]], axis=1), axis=0)
    offsets = np.searchsorted(pairs[:, 0], np.arange(page_count + 1))
    articles = pa.ListArray.from_arrays(offsets.astype(np.int32), pairs[:, 1].astype(np.int32))
    return pa.table([articles], schema=LINKED_SCHEMA)


def is_own_row(pages: pa.Table, titles: TitleTable, chunk: int) -> NDArray[np.bool_]:
    """Returns (P,) True where the title table maps the page's title to this row.

    It is False for redirects and for a second page of the same title. `chunk` is the chunk's number.
    """
    article_P = titles.resolve_all(pages["title"].to_pylist()).articles
    is_own_P = article_P >= 0
    is_own_P[is_own_P] = titles.locators[article_P[is_own_P]] == locator(chunk, np.flatnonzero(is_own_P))
    return is_own_P


def locator(chunk: int, row: Any) -> Any:
    """Returns the number under which the title table keeps a page's chunk and row. `row` may be an array."""
    return (chunk << 32) + row


def definitions_of(pages: pa.Table, titles: TitleTable, own_rows_P: NDArray[np.bool_]) -> pa.Table:
    """Returns a table of `DEFINED_SCHEMA`: the chunk's pages that are entities' own articles, by entity."""
    resolved = titles.resolve_all(pages["title"].to_pylist())
    rows = np.flatnonzero(own_rows_P & (resolved.kinds == KINDS.index("article")))
    rows = rows[np.argsort(resolved.articles[rows], kind="stable")]
    entities = resolved.articles[rows].astype(np.int64)
    columns = [entities, rows.astype(np.int32), pages["page_id"].take(rows), pages["title"].take(rows)]
    return pa.table(columns, schema=DEFINED_SCHEMA)
