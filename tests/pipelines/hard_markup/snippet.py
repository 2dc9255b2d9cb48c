"""What one snippet says. Its expectations come from MediaWiki's documented rules, never from the scanner's output."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """An anchor that a reader sees: the `occurrence`-th (from 0) occurrence of `text` in the plain text."""

    text: str
    target: str  # as written, comments removed, entities and %-escapes still in it
    occurrence: int = 0


class Snippet(NamedTuple):
    """A piece of wikitext with what a reader of the rendered page sees of it.

    Text is compared exactly, but for one thing: any one Unicode space is as good as another (a no-break space may stay
    or become a space). Targets are too, but for what titles lose anyway: bidirectional marks, spaces at the ends.
    Where MediaWiki or our design leaves more open, the snippet says so in `space_open` or `also`.
    """

    name: str
    lang: str
    wikitext: str
    text: str
    links: tuple[Link, ...] = ()
    bold: tuple[str, ...] | None = None  # texts of the lead's bold spans, in order; None: not checked
    space_open: bool = False  # every run of white space, line breaks included, counts as one space
    also: tuple[str, ...] = ()  # other texts that are as right
    why: str = ""  # the rule, where it is little known
