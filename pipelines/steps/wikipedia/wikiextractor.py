"""Reads pages that WikiExtractor (`--json --links`) has made of a dump: one JSON object per line, links as HTML.

    {"id": "12", "revid": "72", "url": "…", "title": "Dog", "text": "A &lt;a href=\\"Pet\\"&gt;pet&lt;/a&gt;."}

Its text lacks list items, redirects and bold type, so a dump gives more (`pipelines/steps/wikipedia/dump.py`).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipelines.steps.common.files import BadText
from pipelines.steps.wikitext.plain_text import Anchor, PlainText
from schemas.rejects import MAX_EXCERPT_CHARS

_LINK = re.compile(r"""<a\s+href="([^"<>]*)"[^<>]*>([^<]*(?:<(?!/?a\b)[^<]*)*)</a>""")
_TAG = re.compile(r"</?a\b[^<>]*>")
_LINE_END = re.compile(r"[^\S\n]*\n\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")


class ExtractedPage(NamedTuple):
    """An article, with the fields that the file has."""

    page_id: int
    revision_id: int  # 0 if the file does not have it: WikiExtractor before 3.0
    title: str
    text: PlainText  # without bold spans


class ExtractedFile(NamedTuple):
    """A file that WikiExtractor wrote, plain or compressed."""

    path: str


class BadLine(NamedTuple):
    """A line that is no page; it is yielded in the page's stead."""

    line: int  # 1-based
    reason: str  # "not_json", "bad_page" (a field is missing or has another type), or the reason of a `BadText`
    excerpt: str


def read_extracted(lines: Iterable[str | BadText]) -> Iterator[ExtractedPage | BadLine]:
    """Yields the pages of one file's lines (`pipelines.steps.common.files.read_lines`), and skips blank lines."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, BadText):
            yield BadLine(number, line.reason, line.text)
        elif line.strip():
            yield _page(line, number)


def _page(line: str, number: int) -> ExtractedPage | BadLine:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return BadLine(number, "not_json", line[:MAX_EXCERPT_CHARS])
    try:
        page_id, revision_id = int(fields["id"]), int(fields.get("revid") or 0)
        title, text = html.unescape(fields["title"]), fields["text"]
        valid = 0 <= page_id < 1 << 63 and 0 <= revision_id < 1 << 63 and title.strip() != ""
        if valid and not _SURROGATE.search(title + text):
            return ExtractedPage(page_id, revision_id, title, anchored_text(_without_title(text, title)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass
    return BadLine(number, "bad_page", line[:MAX_EXCERPT_CHARS])


def anchored_text(text: str) -> PlainText:
    """Converts text whose links are HTML to text with anchors; targets stay quoted, as `normalize_target` expects.

    Some versions escape the text once more. Links show whether it is escaped; a text without links is.

    >>> anchored_text('A &lt;a href="Pet"&gt;pet&lt;/a&gt; &amp; more.')
    PlainText(text='A pet & more.', anchors=(Anchor(start=2, end=5, target='Pet'),), bold=())
    """
    if not _LINK.search(text):
        text = html.unescape(text)
    text = _LINE_END.sub("\n", text).strip()
    pieces: list[str] = []
    anchors: list[Anchor] = []
    length = end = 0
    for link in _LINK.finditer(text):
        before, target, shown = _TAG.sub("", text[end : link.start()]), link[1], link[2]
        length += len(before)
        if target and shown:
            anchors.append(Anchor(length, length + len(shown), target))
        pieces += (before, shown)
        length += len(shown)
        end = link.end()
    pieces.append(_TAG.sub("", text[end:]))
    return PlainText("".join(pieces), tuple(anchors), ())


def _without_title(text: str, title: str) -> str:
    """Drops the first line if it is the title, as in older versions."""
    first, _, rest = text.partition("\n")
    return rest if html.unescape(first).strip().removesuffix(".") == title else text
