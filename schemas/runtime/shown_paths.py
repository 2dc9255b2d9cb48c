"""Paths as they are written to files: enough to recognise them, without private parts of the machine's paths.

A path inside the working folder is written relative to it. Of any other path only the last two parts are written, or
more if two files have these in common, but never a home folder or its parents. An address such as `gs://bucket/news.en`
is written without user, password and query. Names on a hub are not changed.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/@]*@)?")
_QUERY = re.compile(r"[?#][^/?#]*=.*")  # another ? is a pattern's
_ABSOLUTE = re.compile(r"(?<![\w.~:/*?-])(?:~/|/)[^\s'\"`:;,()\[\]<>|]+")
_NO_WORKING_FOLDERS = ("/", "/home", "/Users")  # relative to these, a path names people
_PARTS = 2


def shown_path(path: str | Path) -> str:
    """Returns a path or pattern as it may be written to a file that others read.

    >>> shown_path("/home/anna/work/data/news.en")  # in /home/anna/work
    'data/news.en'
    >>> shown_path("/home/anna/models/clism/model"), shown_path("/home/anna/news.en")
    ('clism/model', 'news.en')
    >>> shown_path("https://anna:secret@example.org/news.en?token=1"), shown_path("xlm-roberta-base")
    ('https://example.org/news.en', 'xlm-roberta-base')
    """
    return _shown(str(path), _PARTS)


def shown_paths(paths: Iterable[str | Path]) -> dict[str, str]:
    """Returns path → how it may be written. The texts of two files differ unless only their home folders differ."""
    names = {text: _shown(text, _PARTS) for text in map(str, paths)}
    namesakes = defaultdict(set)
    for text, name in names.items():
        namesakes[name].add(_place(text))
    for text, name in names.items():
        parts = _PARTS
        others = namesakes[name] - {_place(text)}
        while others and parts <= len(Path(_place(text)).parts):
            parts += 1
            others = {other for other in others if _shown(other, parts) == _shown(text, parts)}
        names[text] = _shown(text, parts)
    return names


def shown_text(text: str) -> str:
    """Returns a message whose paths are written as `shown_path` does: in /home/anna/work, the text
    `/home/anna/work/a.json:3: expected an object` becomes `a.json:3: expected an object`."""
    return _ABSOLUTE.sub(lambda found: shown_path(found[0]), text)


def _shown(path: str, parts: int) -> str:
    if scheme := _SCHEME.match(path):
        return scheme[1] + _QUERY.sub("", path[scheme.end() :])
    if not path:
        return ""
    place, here = _place(path), os.getcwd()
    if here not in _NO_WORKING_FOLDERS:
        for found in (place, os.path.realpath(place)):
            if os.path.commonpath([found, here]) == here:
                return os.path.relpath(found, here)
    return "/".join(_below_homes(place)[-parts:]) or "."


def _place(path: str) -> str:
    """Returns the absolute path. Symbolic links are not resolved."""
    return path if _SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))


def _below_homes(place: str) -> list[str]:
    parts = place.split("/")[1:]
    home = os.path.expanduser("~").split("/")[1:]
    if home != [""] and parts[: len(home)] == home:
        return parts[len(home) :]
    return parts[2:] if parts[0] in ("home", "Users") else parts
