"""Stages of the wikitext scanner: lines and their marks (headings, lists), and the quotes of bold and italic text."""

from __future__ import annotations

import re

from pipelines.steps.wikitext.literals import JOINT, hide

BOLD, NOT_BOLD = "\x16", "\x17"
"""Around bold text of the lead."""

_LIST_MARKS = frozenset("*#:;")
_ROW_MARKS = frozenset("|{ ")  # a row outside a table is what is left of a broken one
_COLON = re.compile(r"\[\[[^\[\]\n]*\]\]|:")


def plain_lines(text: str) -> tuple[str, str]:
    """The lines of the lead, and those from the first heading on: paragraphs, headings and items of lists.

    Marks and quotes, blanks at the ends of lines and empty lines are gone; in the lead, bold text stands between marks.
    """
    pieces: list[str] = []  # lines, each after the newline or blank that parts it from what is before
    lead: int | None = None
    in_paragraph = False
    for line in text.split("\n"):
        mark = line[:1]
        is_plain = False
        if mark == "=":
            line, is_heading = _heading_text(line)
            if is_heading and lead is None:
                lead = len(pieces)
        elif mark == "-" and line.startswith("----"):
            line = line.lstrip("-")
        elif mark in _LIST_MARKS:
            item = line.lstrip("*#:;")
            if ";" in line[: len(line) - len(item)]:
                term, item = _term_and_definition(item)
                if term := _plain_line(term, lead is None):
                    pieces += ("\n", term)
            line = item
        elif mark in _ROW_MARKS and line.lstrip().startswith(("|", "{|")):
            continue
        else:
            is_plain = mark != " "
        line = _plain_line(line, lead is None)
        if line:
            joined = in_paragraph and is_plain and not _OPEN_TARGET.search(pieces[-1])
            pieces += (" " if joined else "\n", line)
        in_paragraph = is_plain and line != ""
    if lead is None:
        lead = len(pieces)
    return "".join(pieces[1:lead]), "".join(pieces[lead + 1 :])


def _plain_line(line: str, mark_bold: bool) -> str:
    if "''" in line:
        line = _drop_quotes(line, mark_bold)
    return " ".join(line.split()) if "  " in line else line.strip(" ")


def _heading_text(line: str) -> tuple[str, bool]:
    """The text of a line that begins with "=", and whether it is a heading."""
    line = line.rstrip(" ")
    level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), (len(line) - 1) // 2, 6)
    return line[level : len(line) - level], level > 0


def _term_and_definition(item: str) -> tuple[str, str]:
    """A term and its definition, if one stands behind a colon outside links."""
    colon = next((match.start() for match in _COLON.finditer(item) if match[0] == ":"), len(item))
    return item[:colon], item[colon + 1 :]


_OPEN_TARGET = re.compile(r"\[\[[^\[\]|]*\Z")  # a link's target ends on its line
_QUOTES = re.compile(f"(''+){JOINT}?")
_TARGET = re.compile(r"\[\[[^\[\]|]+(?=[|\]])")


def _drop_quotes(line: str, mark_bold: bool) -> str:
    """`line` without the quotes that make text italic ('') or bold (''').

    MediaWiki's rules: of four apostrophes the first is text, of more than five all but five; and where both bold and
    italic text would stay open at the line's end, one bold mark is an apostrophe and an italic mark.
    """
    if "[[" in line:
        line = _TARGET.sub(_hide_quotes, line)
    pieces = _QUOTES.split(line)
    runs = pieces[1::2]
    bold, italic = runs.count("'''"), runs.count("''")
    if not mark_bold and bold + italic == len(runs) and not (bold % 2 and italic % 2):
        return "".join(pieces[::2])
    marks = []
    for number in range(1, len(pieces), 2):
        length = len(pieces[number])
        mark = 3 if length == 4 else min(length, 5)
        pieces[number - 1] += "'" * (length - mark)
        marks.append(mark)
    if sum(mark != 2 for mark in marks) % 2 and sum(mark != 3 for mark in marks) % 2:
        apostrophe = _apostrophe(marks, pieces[::2])
        if apostrophe is not None:
            marks[apostrophe] = 2
            pieces[2 * apostrophe] += "'"
    is_bold = False
    for number, mark in enumerate(marks):
        if mark != 2:
            is_bold = not is_bold
        pieces[2 * number + 1] = "" if mark == 2 or not mark_bold else BOLD if is_bold else NOT_BOLD
    if is_bold and mark_bold:
        pieces.append(NOT_BOLD)
    return "".join(pieces)


def _hide_quotes(target: re.Match[str]) -> str:
    """A link's target, in which quotes are text."""
    return f"[[{hide(target[0][2:])}" if "''" in target[0] else target[0]


def _apostrophe(marks: list[int], texts: list[str]) -> int | None:
    """Which bold mark is an apostrophe: after a word of one letter, else after a longer word, else after a blank."""
    candidates: dict[str, int] = {}
    for number, (mark, before) in enumerate(zip(marks, texts, strict=False)):
        if mark == 3:
            kind = "blank" if before[-1:] == " " else "letter" if before[-2:-1] == " " else "word"
            candidates.setdefault(kind, number)
    return next((candidates[kind] for kind in ("letter", "word", "blank") if kind in candidates), None)
