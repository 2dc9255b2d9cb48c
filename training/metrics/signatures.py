"""A number's origin in one line, as sacrebleu does it: who counted, what, on which files."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from pathlib import Path

from schemas.provenance import polyspan_version as polyspan_version


def signature(what: str, scorer: str, **origin: object) -> str:
    """`xquad.de|scorer:squad1.1|examples:1190|…`; options left None are not named.

    Scorers cut words and lower-case them as the running Python's Unicode has it, so that is named too.
    """
    found = {
        "scorer": scorer,
        **origin,
        "unicode": unicodedata.unidata_version,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "polyspan": polyspan_version(),
    }
    return "|".join([what, *(f"{name}:{value}" for name, value in found.items() if value is not None)])


def checksum(*paths: Path) -> str:
    """The first eight hexadecimal digits of the SHA-256 of the files' contents, one after another."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
