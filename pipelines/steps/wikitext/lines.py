"""Stages of the wikitext scanner that handle lines with their marks (headings, lists) and quotes (bold, italic)."""

from __future__ import annotations

import re

from pipelines.steps.wikitext.literals import JOINT, hide

BOLD, NOT_BOLD = "\x16", "\x17"
"""They enclose bold text of the lead."""

_LIST_MARKS = frozenset("*#:;")
_ROW_MARKS = frozenset("|{ ")  # a row outside a table is the rest of a broken table
_COLON = re.compile(r"\[\[[^\[\]\n]*\]\]|:")


def plain_lines(text: str) -> tuple[str, str]:
    """Returns the lines of the lead, and the lines from the first heading on: paragraphs, headings and list items.

    Marks of lines, quotes, blanks at the ends of lines and empty lines are dropped. In the lead, bold text is enclosed
    in `BOLD` and `NOT_BOLD`.
    """
    pieces: list[str] = []  # lines, each after the newline or blank that separates it from the line before
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
    """Returns the text of a line that begins with "=", and whether it is a heading."""
    line = line.rstrip(" ")
    level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), (len(line) - 1) // 2, 6)
    return line[level : len(line) - level], level > 0


def _term_and_definition(item: str) -> tuple[str, str]:
    """Splits a list item at its first colon outside links into a term and its definition."""
    colon = next((match.start() for match in _COLON.finditer(item) if match[0] == ":"), len(item))
    return item[:colon], item[colon + 1 :]


_OPEN_TARGET = re.compile(r"\[\[[^\[\]|]*\Z")  # a link's target ends on its line
_QUOTES = re.compile(f"(''+){JOINT}?")
_TARGET = re.compile(r"\[\[[^\[\]|]+(?=[|\]])")


def _drop_quotes(line: str, mark_bold: bool) -> str:
    """Drops the quotes that make text italic ('') or bold (''').

    The rules are MediaWiki's: of four apostrophes the first is text, of more than five all but five are. If both bold
    and italic text would stay open at the line's end, one bold mark is an apostrophe and an italic mark.
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
    """Hides the quotes in a link's target, where they are text."""
    return f"[[{hide(target[0][2:])}" if "''" in target[0] else target[0]


def _apostrophe(marks: list[int], texts: list[str]) -> int | None:
    """Returns which bold mark is an apostrophe: one after a word of one letter, a longer word, or a blank."""
    candidates: dict[str, int] = {}
    for number, (mark, before) in enumerate(zip(marks, texts, strict=False)):
        if mark == 3:
            kind = "blank" if before[-1:] == " " else "letter" if before[-2:-1] == " " else "word"
            candidates.setdefault(kind, number)
    return next((candidates[kind] for kind in ("letter", "word", "blank") if kind in candidates), None)
