"""Reads MediaWiki's XML exports (schemas 0.3 to 0.11) page by page; several workers may read one file.

A file is cut into ranges of its bytes as stored: plain XML at any byte, bzip2 (of one stream or many) at its blocks;
xz, gzip and zstd are one range. A page belongs to the range in which its `<page>` starts. For bzip2, this is the range
in which the block begins that holds the first byte of `<page>`. So all ranges together give every page once, in order.

    range          0              1              2
    bytes     ├──────────────┼──────────────┼──────────────┤
    pages      <head> <page 1>  <page 2> <page 3>  <page 4>
    read by           0         0        1         2            (page 2 starts in range 0 and ends in range 1)
"""

from __future__ import annotations

import codecs
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache
from itertools import chain, pairwise
from typing import IO, NamedTuple

from pipelines.steps.common.files import compression_suffix, open_raw, read_chunks, shell_text
from pipelines.steps.wikipedia.bz2_blocks import read_blocks
from pipelines.steps.wikipedia.xml_pages import Damage, Page, Piece, cut_pages, parse_page
from pipelines.steps.wikitext.site import SiteInfo
from schemas.errors import InputError

__all__ = ["Damage", "DumpRange", "Page", "plan_ranges", "read_pages", "read_siteinfo"]

MAX_HEAD_BYTES = 1 << 20  # of the XML before the first page
READ_BYTES = 1 << 20

_SPLITTABLE = ("", ".bz2")
_TAIL_BYTES = 64


class DumpRange(NamedTuple):
    """The part of a dump file that one worker reads: its bytes [start, end), as stored."""

    path: str
    start: int
    end: int


def read_siteinfo(path: str) -> SiteInfo:
    """Reads the head of a file. Raises `InputError` if it is no export, cannot be decompressed or has a DTD."""
    head, _ = _read_head(path)
    start = head.find(b"<siteinfo")
    if start < 0:
        return SiteInfo("", "", "", True, ())
    try:
        site = ElementTree.fromstring(head[start : head.index(b"</siteinfo>") + len(b"</siteinfo>")])
        namespaces = tuple((int(name.attrib["key"]), name.text or "") for name in site.iter("namespace"))
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise InputError(f"{path}: its <siteinfo> cannot be read ({error}). Fetch the file again.") from error
    name, dbname, base, case = (site.findtext(field, "") for field in ("sitename", "dbname", "base", "case"))
    return SiteInfo(name, dbname, base, case != "case-sensitive", namespaces)


def plan_ranges(path: str, range_bytes: int) -> list[DumpRange]:
    """Cuts a file into ranges of about equal size, at most `range_bytes` each, or one range if it cannot be split.

    Reads only the head and the size. Raises the same errors as `read_siteinfo`.
    """
    _, encoding = _read_head(path)
    with open_raw(path) as file:
        size = _size(file)
    count = -(-size // range_bytes) if compression_suffix(path) in _SPLITTABLE and encoding == "UTF-8" else 1
    bounds = [number * size // count for number in range(count + 1)]
    return [DumpRange(path, start, end) for start, end in pairwise(bounds)]


def read_pages(part: DumpRange) -> Iterator[Page | Damage]:
    """Yields the pages of all namespaces that start in the range, in the file's order.

    Holds one page and one bzip2 block in memory. Raises `InputError` if nothing of the file can be read.
    """

    @cache
    def namespaces() -> dict[str, int]:
        return {name: key for key, name in read_siteinfo(part.path).namespaces if name}

    for page in cut_pages(_pieces(part)):
        yield page if isinstance(page, Damage) else parse_page(page, namespaces)


# --- the head ---------------------------------------------------------------------------------------------------------

_HEAD_ENDS = re.compile(rb"</siteinfo>|<page>|</mediawiki>")
_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml(.*?)\?>\s*)?(?:<!--.*?-->\s*)*<mediawiki[\s>]", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"encoding\s*=\s*[\"']([\w.-]+)")
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE(?!\s+html)|ENTITY)", re.IGNORECASE)


def _read_head(path: str) -> tuple[bytes, str]:
    """Reads the XML before the pages, to the end of `<siteinfo>` if there is one, as UTF-8; and the file's encoding."""
    encoding, chunks = _open_text(path)
    with closing(chunks):
        head = b""
        for chunk in chunks:
            head += chunk
            if (end := _HEAD_ENDS.search(head)) or len(head) > MAX_HEAD_BYTES:
                break
    if end and end[0] == b"</siteinfo>":
        head = head[: end.end()]
    elif end:
        head = head[: end.start()]
    if _DOCTYPE.search(head):
        raise InputError(
            f"{path}: found a DTD, which may declare entities and is not safe to read. Remove it: exports have none."
        )
    root = _ROOT.match(head)
    if root is None or end is None:
        what = head[:60].decode(errors="replace") if root is None else "neither <siteinfo> nor <page>"
        raise InputError(
            f"{path}: expected a MediaWiki export, which begins with <mediawiki>, found {what!r}. "
            f"Was the download cut short, or an error page? Look at it: {shell_text(path)} | head -c 500"
        )
    declared = _DECLARED_ENCODING.search(root[1] or b"")
    if declared and encoding == "UTF-8" and declared[1].upper() not in (b"UTF-8", b"UTF8", b"US-ASCII"):
        raise InputError(
            f"{path}: expected UTF-8, found a declaration of {declared[1].decode()}. "
            f"Convert it, and its XML declaration: {shell_text(path)} | iconv -f {declared[1].decode()} -t UTF-8"
        )
    return head, encoding


def _open_text(path: str) -> tuple[str, Generator[bytes, None, None]]:
    """Returns the encoding, UTF-8 or one of UTF-16, and an iterator over the text in UTF-8.

    The iterator raises `InputError` if the compressed file ends early.
    """
    chunks = read_chunks(path)
    first = b""
    while len(first) < 4 and (chunk := next(chunks, b"")):
        first += chunk
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "UTF-16"
    else:
        encoding = {b"<\0": "UTF-16-LE", b"\0<": "UTF-16-BE"}.get(first[:2], "UTF-8")
    return encoding, _in_utf8(path, encoding, first, chunks)


def _in_utf8(path: str, encoding: str, first: bytes, chunks: Iterator[bytes]) -> Generator[bytes, None, None]:
    if encoding == "UTF-8":
        yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chain([first], chunks):
            yield decoder.decode(chunk).encode()
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise InputError(
            f"{path}: begins as {encoding} and does not go on so: {error}. Fetch the file again."
        ) from error


# --- from a range to the XML of its pages -----------------------------------------------------------------------------

_END = b"</mediawiki>"


def _pieces(part: DumpRange) -> Iterator[Piece]:
    """Yields the XML from the range's start to the file's end."""
    encoding = _read_head(part.path)[1] if part.start == 0 else "UTF-8"
    suffix = compression_suffix(part.path)
    if encoding != "UTF-8" or suffix not in _SPLITTABLE:
        return _whole_file(part.path)
    return _bz2_pieces(part) if suffix else _plain_pieces(part)


def _whole_file(path: str) -> Iterator[Piece]:
    tail = b""
    try:
        for chunk in _open_text(path)[1]:
            yield Piece(True, chunk)
            tail = (tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
    except InputError as error:
        if not tail:
            raise
        yield Piece(True, Damage("unreadable_rest", str(error)))
    else:
        yield from _check_end(tail)


def _plain_pieces(part: DumpRange) -> Iterator[Piece]:
    with open_raw(part.path) as file:
        size, position = _size(file), part.start
        file.seek(position)
        while data := file.read(min(READ_BYTES, part.end - position) if position < part.end else READ_BYTES):
            yield Piece(position < part.end, data)
            position += len(data)
        if part.end >= size:
            file.seek(max(0, size - _TAIL_BYTES))
            yield from _check_end(file.read(_TAIL_BYTES))


def _bz2_pieces(part: DumpRange) -> Iterator[Piece]:
    piece = None
    with open_raw(part.path) as file:
        for block in read_blocks(file, part.start):
            reason = "truncated" if block.truncated else "corrupt_block"
            damage = Damage(reason, f"the bzip2 block at byte {block.start} cannot be decompressed")
            piece = Piece(block.start < part.end, damage if block.data is None else block.data)
            yield piece
    if piece and piece.ours and isinstance(piece.data, bytes):
        yield from _check_end(piece.data)


def _check_end(tail: bytes) -> Iterator[Piece]:
    # The last of several bzip2 blocks may hold only the last bytes of `</mediawiki>`.
    if not (tail.rstrip().endswith(_END) or _END.endswith(tail.rstrip())):
        yield Piece(True, Damage("truncated", f"the file ends without {_END.decode()}: pages may be missing"))


def _size(file: IO[bytes]) -> int:
    return file.seek(0, os.SEEK_END)
