"""What the readers share: lines with their numbers, languages from file names, and what a reader returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from training.errors import InputError

Flags = dict[str, list[str]]
"""What a reader of the records should know: reason → ids of the records that it concerns, in their order."""


def text_of(path: Path, encodings: tuple[str, ...] = ("utf-8",)) -> str:
    """The file's text in the first of `encodings` that fits. Line ends stay as they are; a byte order mark goes."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for encoding in encodings[:-1]:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    try:
        return content.decode(encodings[-1]).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: expected {encodings[-1]}, found byte 0x{content[error.start]:02x}") from None


def lines_of(path: Path, encodings: tuple[str, ...] = ("utf-8",)) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without LF or CR LF.

    Not `splitlines`: texts hold U+2028 and U+0085, which are characters, not ends of lines.
    """
    lines = text_of(path, encodings).split("\n")
    if not lines[-1]:
        lines.pop()
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, 1))


def lang_in(path: Path, *patterns: str, names: dict[str, str] | None = None) -> str | None:
    """The language that a file's name says, by the first pattern whose `lang` group matches; `names` translates it."""
    for pattern in patterns:
        if match := re.fullmatch(pattern, path.name):
            found = match["lang"]
            return names.get(found, found) if names else found
    return None


def known(lang: str | None, found: str | None, path: Path) -> str:
    """The language to record: the one given, or else the one found. Raises `InputError` if there is neither."""
    if lang or found:
        return lang or found or ""
    raise InputError(f"{path}: its name does not say its language. Give it: --langs de")
