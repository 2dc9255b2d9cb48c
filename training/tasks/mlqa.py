"""MLQA (Lewis et al. 2020): contexts in seven languages, each with questions in all seven (49 pairs)."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.mrc import MrcExample
from training.tasks import squad_json
from training.tasks.files import FileRecords, lang_in, require_lang

LANGS = ("en", "ar", "de", "es", "hi", "vi", "zh")
PAIR = r"(?:.*-)?context-(?P<lang>\w\w)-question-(?P<question>\w\w)\.json"


def read(path: Path, lang: str | None = None) -> FileRecords[MrcExample]:
    """`test-context-de-question-es.json`, also where XTREME keeps it; its labels are in `test-de.json`.

    `lang` is the context's, which is the answer's: the official scorer's argument. The questions' is in the name.
    """
    found = lang_in(path, PAIR, r"(?:dev|test)-(?P<lang>\w\w)\.json")
    match = re.fullmatch(PAIR, path.name)
    return squad_json.read(path, "mlqa", require_lang(lang, found, path), match and match["question"])


def row(path: Path, lang: str) -> str:
    """What a table calls the file: `de`, or `de-es` for a German context with Spanish questions (G-XLT)."""
    match = re.fullmatch(PAIR, path.name)
    return f"{lang}-{match['question']}" if match and match["question"] != lang else lang
