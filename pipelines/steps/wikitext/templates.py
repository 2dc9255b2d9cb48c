"""Drops templates from wikitext, except the text of those that `pipelines/data/wiki/kept_templates.tsv` lists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).parents[2] / "data" / "wiki" / "kept_templates.tsv"
_MAX_DEPTH = 40  # MediaWiki's own limit
_MAX_KEPT_CHARS = 5000  # a longer text is the layout of a page, and no part of a sentence

_BRACES = re.compile(r"\{\{+|\}\}+")
_SEPARATORS = " ,;:、，；"
_NAME = re.compile(r"\s*([^{}|<>\[\]\n]{1,60}?)\s*(?=[|}])")
_FUNCTION = re.compile(r"(formatnum|uc|lc|ucfirst|lcfirst|nowrap):", re.IGNORECASE)


class _Open(NamedTuple):
    """Opening braces whose closing braces have not been read yet."""

    braces: int
    start: int  # offset in the page at which the enclosed text begins
    piece: int  # index of the piece that holds the braces; the pieces after it are enclosed


def drop_templates(text: str) -> str:
    """Replaces each template, innermost first, by the parameters that it shows, which is mostly "".

    Braces are paired as in MediaWiki: three with three are a parameter, which shows its default, two with two a
    template. Any nesting takes one pass. Templates nested deeper than `_MAX_DEPTH` show nothing. Unpaired braces are
    text.
    """
    if "{{" not in text:
        return text
    pieces: list[str] = []
    waiting: list[_Open] = []
    position = 0
    for run in _BRACES.finditer(text):
        start, end = run.span()
        if start > position:
            pieces.append(text[position:start])
        position = end
        count = end - start
        shown = ""
        if text[start] == "{":
            waiting.append(_Open(count, end, len(pieces)))
            pieces.append(run[0])
            continue
        while count > 1 and waiting:
            braces, inside, first = waiting.pop()
            closed = 3 if braces > 2 and count > 2 else 2
            shown = _shown(text, inside, pieces[first + 1 :], closed) if len(waiting) < _MAX_DEPTH else ""
            del pieces[first:]
            count -= closed
            if braces > closed:
                if braces - closed > 1:
                    waiting.append(_Open(braces - closed, len(text), first))  # its name is the inner one's text
                pieces.append("{" * (braces - closed))
            if shown:
                pieces.append(shown)
        if count:
            pieces.append("}" * count)
        elif not shown and not waiting:
            position = _close_hole(pieces, text, end)
    pieces.append(text[position:])
    return "".join(pieces)


_HOLE_END = re.compile(rf"[{_SEPARATORS}]*([)）]?)")


def _close_hole(pieces: list[str], text: str, position: int) -> int:
    """Returns where the text continues after a template that shows nothing.

    Brackets and commas that enclose only the template are dropped.

    >>> drop_templates("India ({{IPA|x}}; 1950) and Nepal ({{IPA|y}}) or Bhutan (1950, {{IPA|z}})")
    'India (1950) and Nepal  or Bhutan (1950)'
    """
    before = pieces[-1] if pieces else ""
    kept = len(before) - len(before[-8:]) + len(before[-8:].rstrip(_SEPARATORS))
    after = _HOLE_END.match(text, position)
    assert after is not None
    if before[kept - 1 : kept] in ("(", "（") and kept:
        pieces[-1] = before[: kept - 1] if after[1] else before[:kept]
        return after.end()
    if after[1]:
        if pieces:
            pieces[-1] = before[:kept]
        return after.start(1)
    return position


def _shown(text: str, inside: int, pieces: list[str], closed: int) -> str:
    """Returns the text of a template or parameter whose name begins at `inside` and whose content is `pieces`."""
    if closed == 3:
        body = "".join(pieces)
        return "".join(_split(body)[1:2]) if len(body) <= _MAX_KEPT_CHARS else ""
    match = _NAME.match(text, inside)
    if match is None:
        return ""
    name = match[1].replace("_", " ").lower()
    rule = _kept().get(name) or _by_prefix(name)
    if rule is not None and not isinstance(rule, str):
        body = "".join(pieces)
        return _text_of(body, rule) if len(body) <= _MAX_KEPT_CHARS else ""
    if rule is None and ":" in name and _FUNCTION.match(name):
        return "".join(pieces).partition(":")[2].partition("|")[0].strip()
    return rule or ""


def _text_of(body: str, rule: tuple[tuple[str, ...], ...]) -> str:
    """Returns the parameters of a template that `rule` names.

    >>> _text_of("lang|fr|[[Paris|la ville]]", (("2", "text"),))
    '[[Paris|la ville]]'
    """
    parameters: dict[str, str] = {}
    unnamed = 0
    for piece in _split(body)[1:]:
        name, equals, value = piece.partition("=")
        if equals and "[" not in name and "<" not in name:
            parameters[name.strip()] = value.strip()
        else:
            unnamed += 1
            parameters[str(unnamed)] = piece
    parameters["-1"] = parameters.get(str(unnamed), "")
    found = (next((parameters[name] for name in names if parameters.get(name)), "") for names in rule)
    return " ".join(filter(None, found))


def _split(body: str) -> list[str]:
    """Splits `body` at each "|" that is not inside a link."""
    parameters: list[str] = []
    inside = 0
    for piece in body.split("|"):
        if inside > 0:
            parameters[-1] = f"{parameters[-1]}|{piece}"
        else:
            parameters.append(piece)
        inside = max(inside + piece.count("[[") - piece.count("]]"), 0)
    return parameters


@cache
def _kept() -> dict[str, str | tuple[tuple[str, ...], ...]]:
    """Reads the table: template's name → its text, or for each parameter that it shows the parameter's names."""
    table: dict[str, str | tuple[tuple[str, ...], ...]] = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            parameters, names = line.split("\t")
            rule = parameters[1:] if parameters[0] == "=" else tuple(tuple(p.split("/")) for p in parameters.split())
            table.update(dict.fromkeys(names.split("|"), rule))
    return table


@cache
def _prefixes() -> tuple[str, ...]:
    return tuple(name[:-1] for name in _kept() if name.endswith("*"))


def _by_prefix(name: str) -> str | tuple[tuple[str, ...], ...] | None:
    if name.startswith(_prefixes()):
        return next(_kept()[f"{prefix}*"] for prefix in _prefixes() if name.startswith(prefix))
    return None
