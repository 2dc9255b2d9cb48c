"""Converts wikitext to plain text with anchors (mPMR, 2.2, "Wikipedia articles with anchor annotations").

Each stage rewrites the whole page with compiled regexes and leaves links unchanged, with their brackets. The last stage
removes the brackets and computes the offsets of the links' texts, so that no other stage has to carry offsets. Every
pattern reads any page in time linear in its length.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from pipelines.steps.wikitext.lines import BOLD, NOT_BOLD, plain_lines
from pipelines.steps.wikitext.literals import (
    JOINT,
    decode_entities,
    drop_extensions,
    hidden_in,
    plain_spaces,
    restore,
)
from pipelines.steps.wikitext.markup import (
    LABEL,
    convert_variants,
    drop_magic_words,
    drop_prefixed_links,
    drop_tables,
    drop_tags,
    show_external_links,
)
from pipelines.steps.wikitext.site import Site
from pipelines.steps.wikitext.templates import drop_templates


class Anchor(NamedTuple):
    """The text of a link: `text[start:end]` is what a reader sees, including the link's trail."""

    start: int  # characters
    end: int
    target: str  # as written, including "#section"


class PlainText(NamedTuple):
    """The text of a page that a reader sees: paragraphs, headings and list items, one per line, without outer blanks.

    `plain_text("'''Nairobi''' ni [[Mji mkuu|mji]] wa [[Kenya]].", site)` returns
    `PlainText("Nairobi ni mji wa Kenya.", (Anchor(11, 14, "Mji mkuu"), Anchor(18, 23, "Kenya")), ((0, 7),))`.
    """

    text: str
    anchors: tuple[Anchor, ...]  # links to articles of this wiki, by position
    bold: tuple[tuple[int, int], ...]  # [start, end) of bold text before the first heading


def plain_text(wikitext: str, site: Site) -> PlainText:
    """Returns the text, anchors and bold names of a page, in time linear in its length. It never raises.

    Templates (with a list of exceptions), tables, references, files, categories and code are dropped. Markup that its
    author left open is text, as in MediaWiki.
    """
    page = drop_extensions(f"\n{wikitext}\n")
    # These pairs must not meet other markup when the second is dropped.
    for before, after in (("]]", "''"), ("]]", "{{"), ("''", "{{")):
        page = page.replace(f"{before}{after}", f"{before}{JOINT}{after}")
    page = drop_tags(drop_tables(drop_templates(page)))
    page = decode_entities(plain_spaces(page))
    page = show_external_links(drop_magic_words(convert_variants(page, site.lang)))
    page = drop_prefixed_links(page, site)
    lead_lines, body_lines = plain_lines(page)
    text, links, bold = _tidied(*_split_links(lead_lines, site))
    body, body_links = _split_links(body_lines, site)
    if any(mark in body for mark in _MARKS):
        body, body_links, _ = _tidied(body, body_links)
    if text and body:
        text += "\n"
    offset = len(text)
    text += body
    anchors = [Anchor(*link) for link in links]
    anchors += [Anchor(start + offset, end + offset, target) for start, end, target in body_links]
    if hidden := hidden_in(f"{lead_lines}{body_lines}"):
        text = restore(text, hidden)
        anchors = [anchor._replace(target=restore(anchor.target, hidden)) for anchor in anchors]
    return PlainText(text, tuple(anchors), tuple(bold))


# Links

# No link has a third bracket before it or only blanks in it.
_LINK = re.compile(rf"\[\[(?<!\[\[\[)(?! *[|\]])([^\[\]|\n<>{{}}{JOINT}]+)(?:\|({LABEL}))?\]\]")
_EDGES = f" {BOLD}{NOT_BOLD}{JOINT}"
_Links = list[tuple[int, int, str]]


def _split_links(text: str, site: Site) -> tuple[str, _Links]:
    """Returns the text without the links' brackets and targets, and the links: start, end, target."""
    trail_of = site.link_trail.match
    pieces = _LINK.split(text)
    shown_pieces = ["", pieces[0]]
    links: _Links = []
    position = len(pieces[0])
    for target, label, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        shown = label or _without_label(target, label)
        if after and after[0] not in " ,.)\n":
            if after[0] == JOINT:
                after = after[1:]
            elif (trail := trail_of(after)) and trail.end():
                shown += trail[0]
                after = after[trail.end() :]
        if site.link_prefix and (prefix := _letters_at_end(shown_pieces[-1], site.link_prefix)):
            shown_pieces[-1] = shown_pieces[-1].removesuffix(prefix)
            shown = prefix + shown
            position -= len(prefix)
        if "\n" in shown:
            shown = shown.replace("\n", " ")
        bare = shown.strip(_EDGES)
        if not bare:
            shown = JOINT + shown
        elif len(bare) < len(shown):
            if shown[0] == " " and (shown_pieces[-1] or shown_pieces[-2])[-1:] in ("", " ", "\n"):
                shown = shown[1:]
            if shown[-1:] == " " and after[:1] in (" ", "\n"):
                shown = shown[:-1]
        shown_pieces += (shown, after)
        if bare:
            start = position if len(bare) == len(shown) else position + shown.index(bare)
            links.append((start, start + len(bare), target))
        position += len(shown) + len(after)
    return "".join(shown_pieces).rstrip(" "), links


def _letters_at_end(text: str, letters: frozenset[str]) -> str:
    start = len(text)
    while start and text[start - 1] in letters:
        start -= 1
    return text[start:]


def _percent_decoded(title: str) -> str:
    """Decodes %C3%A9 to é if the title is valid UTF-8 and printable then."""
    try:
        decoded = unquote(title, errors="strict")
    except UnicodeDecodeError:
        return title
    return decoded if decoded.isprintable() else title


_BRACKETED_END = re.compile(r" ?(?:\([^()]*\)|（[^（）]*）)$")


def _without_label(target: str, label: str | None) -> str:
    """Returns the text of a link without a label; with an empty one (`[[a|]]`), the title without prefix and qualifier.

    The qualifier is its parenthesis, or the part after a comma ("Boston, Lincolnshire").
    """
    if label is None:
        title = target.lstrip(" ").removeprefix(":")
        return _percent_decoded(title) if "%" in title else title
    title = target.rpartition(":")[2]
    short, count = _BRACKETED_END.subn("", title)
    return short if count else title.partition(", ")[0]


# The last stage: drops marks, and the blanks that meet when a mark is dropped

_MARKS = f"{BOLD}{NOT_BOLD}{JOINT}"
_MARK_RUN = re.compile(rf"[{_MARKS}][ \n{_MARKS}]*")


class _Cut(NamedTuple):
    """A run of marks and blanks in the old text, which is replaced by one blank, one newline or "" in the new text."""

    start: int
    end: int
    new_start: int  # in the new text
    new_end: int


def _tidied(text: str, links: _Links) -> tuple[str, _Links, list[tuple[int, int]]]:
    """Returns the text without marks, the links with their new offsets, and the bold spans that the marks enclosed."""
    pieces: list[str] = []
    cuts: list[_Cut] = []
    bold: list[tuple[int, int]] = []
    position = new_position = 0
    bold_start = -1
    for match in _MARK_RUN.finditer(text):
        start, end = match.span()
        if start > position and text[start - 1] in " \n":
            start -= 1
        run = text[start:end]
        kept = "" if start == 0 or end == len(text) else "\n" if "\n" in run else " " if " " in run else ""
        pieces += (text[position:start], kept)
        cut = _Cut(start, end, new_position + start - position, new_position + start - position + len(kept))
        cuts.append(cut)
        position, new_position = end, cut.new_end
        for mark in run:
            if mark == BOLD:
                bold_start = cut.new_end
            elif mark == NOT_BOLD:
                if -1 < bold_start < cut.new_start:
                    bold.append((bold_start, cut.new_start))
                bold_start = -1
    if not cuts:
        return text, links, bold
    pieces.append(text[position:])
    return "".join(pieces), list(_moved(links, cuts)), bold


def _moved(links: _Links, cuts: list[_Cut]) -> Iterator[tuple[int, int, str]]:
    """Yields the links with their offsets after the cuts; marks at a link's edges do not belong to it."""
    starts = [cut.start for cut in cuts]
    for start, end, target in links:
        before = bisect_right(starts, start) - 1
        if before >= 0:
            cut = cuts[before]
            start = cut.new_end + max(start - cut.end, 0)
        before = bisect_left(starts, end) - 1
        if before >= 0:
            cut = cuts[before]
            end = cut.new_end + end - cut.end if end > cut.end else cut.new_start
        if start < end:
            yield start, end, target
