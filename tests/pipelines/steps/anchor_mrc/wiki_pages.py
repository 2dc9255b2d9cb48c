"""Makes tables of pages (`PAGES_SCHEMA`) from wikitext, for tests of single steps."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from pipelines.steps.anchor_mrc.link_resolution import locator
from pipelines.steps.wikipedia.dump import Page
from pipelines.steps.wikipedia.pages import pages_table
from pipelines.steps.wikipedia.title_table import TitleRecord, TitleTable, build_titles
from pipelines.steps.wikitext.site import SiteInfo, site_of

SITE = site_of("en", SiteInfo("Wikipedia", "enwiki", "", True, ()))


class WikiPage(NamedTuple):
    title: str
    text: str
    redirect: str | None = None


def pages_of(*pages: WikiPage) -> pa.Table:
    """Returns one chunk, whose pages are numbered 1, 2, 3 …"""
    read = [
        Page(number, number * 10, 0, title, redirect, text) for number, (title, text, redirect) in enumerate(pages, 1)
    ]
    table, _, rejects = pages_table(read, SITE, "enwiki.xml")
    assert rejects == []
    return table


def titles_of(pages: pa.Table) -> TitleTable:
    """Returns the title table of a wiki that has one chunk."""
    rows = enumerate(pages.select(["title", "redirect", "kind"]).to_pylist())
    return build_titles(TitleRecord(**values, locator=locator(0, row)) for row, values in rows)
