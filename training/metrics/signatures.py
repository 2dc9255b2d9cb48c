"""Writes the origin of a number in one line, as sacrebleu does: the scorer, its options and the files."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from pathlib import Path

from schemas.provenance import polyspan_version


def signature(what: str, scorer: str, **origin: object) -> str:
    """Returns a signature such as `xquad.de|scorer:squad1.1|examples:1190|…`. Leaves out options that are None.

    Scorers split and lower-case words by the Unicode version of the running Python, so the signature names it.
    """
    parts = {
        "scorer": scorer,
        **origin,
        "unicode": unicodedata.unidata_version,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "polyspan": polyspan_version(),
    }
    return "|".join([what, *(f"{name}:{value}" for name, value in parts.items() if value is not None)])


def checksum(*paths: Path) -> str:
    """Returns the first eight hexadecimal digits of the SHA-256 of the files' joined contents."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
