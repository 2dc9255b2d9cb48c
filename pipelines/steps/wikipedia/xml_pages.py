"""Cuts the XML of MediaWiki's exports (schemas 0.3 to 0.11) into pages, and reads the fields of each page.

Exports escape every `<` of a text, so `<page>` and `</page>` are always tags. Pages are cut there, wherever in the file
reading begins, and each is parsed as a document of its own. An error in one page costs no other page.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

MAX_PAGE_BYTES = 1 << 26  # of XML, with all revisions; the text of an article has at most 2 MiB


class Page(NamedTuple):
    """A page, with its last revision in the file."""

    page_id: int
    revision_id: int
    namespace: int
    title: str  # with its namespace: "Jamii:Watu"
    redirect: str | None  # the title that a redirect leads to
    text: str  # wikitext


class Damage(NamedTuple):
    """Damage is yielded in the stead of pages that could not be read.

    Reasons for part of a file are `corrupt_block` (bzip2), `unreadable_rest` (other compressions) and `truncated`.
    Reasons for one page are `cut_page` (it begins but does not end), `page_too_long`, `invalid_utf8`, `bad_page` (not
    as MediaWiki writes it) and `text_missing` (a stub dump).
    """

    reason: str
    detail: str


class Piece(NamedTuple):
    """Some bytes of XML, or damage between two pieces of XML."""

    ours: bool  # whether pages that start in it belong to the range that is read
    data: bytes | Damage


# --- from pieces to the XML of each page ------------------------------------------------------------------------------

_PAGE = b"<page>"
_PAGE_TAG = re.compile(rb"<(/?)page>")
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_UNFINISHED = "has no end: the file ends inside it, or cannot be read on"


def cut_pages(pieces: Iterable[Piece]) -> Iterator[bytes | Damage]:
    """Yields the XML of each page that starts in a piece of ours, and the damage to such pages and pieces."""
    cutter = _PageCutter()
    for piece in pieces:
        if isinstance(piece.data, Damage):
            if cutter.begun:
                yield cutter.unfinished()
            if not piece.ours:
                return
            yield piece.data
            cutter = _PageCutter()
            continue
        cutter.add(piece.data, piece.ours)
        while (page := cutter.next_page()) is not None:
            yield page
        if not (cutter.begun or cutter.ours or piece.ours):
            return
    if cutter.begun:
        yield cutter.unfinished()


class _PageCutter:
    """The XML that has been read and not yet cut into pages.

    buffer      <page> … </page> <page> … <pa
                ├──────── ours ────────┤            bytes of pieces that are ours
                ├─ searched ─┤                      no tag begins in these, but for the first `<page>`
    """

    def __init__(self) -> None:
        self.begun = False  # True: the buffer begins with a page; False: perhaps with the start of its tag
        self.ours = 0
        self._searched = 0
        self._buffer = bytearray()

    def add(self, data: bytes, ours: bool) -> None:
        self._buffer += data
        if ours:
            self.ours = len(self._buffer)

    def next_page(self) -> bytes | Damage | None:
        """Removes the next page from the buffer; returns None if its end has not been read, or no page is begun."""
        if not self.begun and not self._begin():
            return None
        tag = _PAGE_TAG.search(self._buffer, self._searched)
        stop = tag.start() if tag else len(self._buffer) - len(_PAGE)  # no tag begins before it
        if tag is None and stop <= MAX_PAGE_BYTES:
            self._searched = max(self._searched, stop)
            return None
        page: bytes | Damage
        if stop > MAX_PAGE_BYTES:
            page = Damage("page_too_long", f"{_name(self._buffer)} has more than {MAX_PAGE_BYTES} bytes")
        elif tag and tag[1]:
            stop = tag.end()
            page = bytes(memoryview(self._buffer)[:stop])
        else:
            page = Damage("cut_page", f"{_name(self._buffer)} has no end: another begins inside it")
        self.begun = False
        self._drop(stop)
        return page

    def unfinished(self) -> Damage:
        return Damage("cut_page", f"{_name(self._buffer)} {_UNFINISHED}")

    def _begin(self) -> bool:
        """Drops the bytes before the next page that is ours; returns whether there is one."""
        start = self._buffer.find(_PAGE)
        self.begun, self._searched = 0 <= start < self.ours, len(_PAGE)
        self._drop(start if self.begun else len(self._buffer) - _begun_tag_bytes(self._buffer))
        return self.begun

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self.ours = max(0, self.ours - count)


def _begun_tag_bytes(text: bytearray) -> int:
    """Returns how many bytes at the end of the text may be the start of `<page>`."""
    return next((length for length in range(len(_PAGE) - 1, 0, -1) if text.endswith(_PAGE[:length])), 0)


def _name(page: bytes | bytearray) -> str:
    title = _TITLE.search(page, 0, 4096)
    return f"the page {title[1].decode(errors='replace')!r}" if title else "a page without title"


# --- from the XML of a page to its fields -----------------------------------------------------------------------------

_FIRST_LINK = re.compile(r"\[\[([^][|<>{}\n]+)")
_OLD_REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)


def parse_page(page: bytes, namespaces: Callable[[], Mapping[str, int]]) -> Page | Damage:
    """Reads the fields of a page from its XML, `<page>` to `</page>`.

    `namespaces` returns the keys of namespaces by name. It is called only for schemas before 0.6, whose pages have no
    `<ns>`.
    """
    try:
        # Only XML's own five entities are expanded: nothing inside an element can declare one.
        return _fields(ElementTree.fromstring(page), namespaces)
    except (ElementTree.ParseError, ValueError) as error:
        return Damage("bad_page" if _is_utf8(page) else "invalid_utf8", f"{_name(page)}: {error}")


def _fields(page: ElementTree.Element, namespaces: Callable[[], Mapping[str, int]]) -> Page | Damage:
    revision = page.find("revision[last()]")
    content = None if revision is None else revision.find("text")
    if revision is None or content is None or len(content):
        raise ValueError("expected a <revision> with a <text> and no markup in it")
    title, text = page.findtext("title", ""), content.text or ""
    page_id, revision_id = int(page.findtext("id", "")), int(revision.findtext("id", ""))
    if not title:
        raise ValueError("expected a <title>")
    if not text and "deleted" not in content.attrib and content.get("bytes", content.get("id", "0")) != "0":
        return Damage("text_missing", f"the page {title!r}: only its length is here. A stub dump? Take pages-articles")
    namespace = page.findtext("ns") or namespaces().get(title.partition(":")[0], 0)
    return Page(page_id, revision_id, int(namespace), title, _redirect(page, text), text)


def _redirect(page: ElementTree.Element, text: str) -> str | None:
    redirect = page.find("redirect")
    title = redirect.get("title") if redirect is not None else None
    # Schemas before 0.6 do not have the target of a redirect, and schemas before 0.4 do not mark redirects.
    if not title and (redirect is not None or (page.find("ns") is None and _OLD_REDIRECT.match(text))):
        link = _FIRST_LINK.search(text)
        title = link[1].strip() if link else None
    return title


def _is_utf8(page: bytes) -> bool:
    try:
        page.decode()
    except UnicodeDecodeError:
        return False
    return True
