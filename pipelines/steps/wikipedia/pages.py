"""Makes a table of a dump's pages: articles (plain text, anchors, their targets) and redirects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from pipelines.steps.wikipedia.dump import Damage, Page
from pipelines.steps.wikipedia.titles import normalize_target, normalize_title, page_kind
from pipelines.steps.wikipedia.wikiextractor import BadLine, ExtractedPage
from pipelines.steps.wikitext.plain_text import PlainText, plain_text
from pipelines.steps.wikitext.site import Site
from schemas.anchor_mrc import AnchorCounts
from schemas.rejects import MAX_EXCERPT_CHARS, Reject

REDIRECT = "redirect"  # the kind of a page that `page_kind` does not return

PAGES_SCHEMA = pa.schema(
    [
        ("page_id", pa.int64()),
        ("revision_id", pa.int64()),
        ("title", pa.string()),
        ("kind", pa.string()),
        ("redirect", pa.string()),  # title that a redirect leads to; null: an article, or no valid title
        ("text", pa.string()),
        ("anchor_edges", pa.list_(pa.int32())),  # start, end, start, end …
        ("targets", pa.list_(pa.string())),  # a title for each anchor; "": a section of this page; null: no valid title
        ("rules", pa.list_(pa.int32())),  # for each anchor the bits of `titles.RULES`
        ("names", pa.list_(pa.string())),  # the bold texts of the lead
    ]
)


class _Row(NamedTuple):
    """A row of `PAGES_SCHEMA`."""

    page_id: int
    revision_id: int
    title: str
    kind: str
    redirect: str | None
    text: str = ""
    anchor_edges: tuple[int, ...] = ()
    targets: tuple[str | None, ...] = ()
    rules: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


def pages_table(
    pages: Iterable[Page | ExtractedPage | Damage | BadLine], site: Site, corpus: str
) -> tuple[pa.Table, AnchorCounts, list[Reject]]:
    """Returns a table of `PAGES_SCHEMA` with the main namespace's pages, in order; counts; and rejects.

    Pages of other namespaces and redirects are only counted. Damage and bad lines are rejects.
    """
    rows: list[_Row] = []
    rejects: list[Reject] = []
    read = elsewhere = redirects = 0
    for page in pages:
        read += 1
        if isinstance(page, Damage):
            rejects.append(_reject(page.reason, page.detail, 0, site.lang, corpus))
        elif isinstance(page, BadLine):
            rejects.append(_reject(page.reason, page.excerpt, page.line, site.lang, corpus))
        elif isinstance(page, ExtractedPage):
            rows.append(_article(page.page_id, page.revision_id, page.title, "", page.text, site))
        elif page.namespace != 0:
            elsewhere += 1
        elif page.redirect is not None:
            redirects += 1
            target = normalize_target(page.redirect, site)
            title = normalize_title(page.title, site)
            rows.append(_Row(page.page_id, page.revision_id, title, REDIRECT, target.title if target else None))
        else:
            plain = plain_text(page.text, site)
            rows.append(_article(page.page_id, page.revision_id, page.title, page.text, plain, site))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(PAGES_SCHEMA)
    counts = AnchorCounts(
        pages_read=read,
        articles=len(rows) - redirects,
        page_rejects={
            reason: count for reason, count in (("other_namespace", elsewhere), ("redirect", redirects)) if count
        },
    )
    return pa.table(columns, schema=PAGES_SCHEMA), counts, rejects


def _article(page_id: int, revision_id: int, title: str, wikitext: str, plain: PlainText, site: Site) -> _Row:
    title = normalize_title(title, site)
    targets = [normalize_target(anchor.target, site) for anchor in plain.anchors]
    return _Row(
        page_id,
        revision_id,
        title,
        page_kind(title, wikitext, site),
        None,
        plain.text,
        tuple(edge for anchor in plain.anchors for edge in (anchor.start, anchor.end)),
        tuple(target.title if target else None for target in targets),
        tuple(target.rules if target else 0 for target in targets),
        tuple(dict.fromkeys(plain.text[start:end] for start, end in plain.bold)),
    )


def _reject(reason: str, excerpt: str, line: int, lang: str, corpus: str) -> Reject:
    name = f"{lang}\0{corpus}\0{line}\0{excerpt}"
    record = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return Reject(reason, "page", record, lang, corpus, line, excerpt[:MAX_EXCERPT_CHARS])
