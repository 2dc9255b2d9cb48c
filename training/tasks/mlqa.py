"""Reads MLQA (Lewis et al. 2020): contexts in seven languages, each with questions in all seven (49 pairs)."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.mrc import MrcExample
from training.tasks import squad_json
from training.tasks.files import FileRecords, lang_in, require_lang

LANGS = ("en", "ar", "de", "es", "hi", "vi", "zh")
PAIR = r"(?:.*-)?context-(?P<lang>\w\w)-question-(?P<question>\w\w)\.json"


def read(path: Path, lang: str | None = None) -> FileRecords[MrcExample]:
    """Reads `test-context-de-question-es.json`, also from XTREME, whose labels are in `test-de.json`.

    `lang` is the language of contexts and answers, as for the official scorer. The file's name has the questions'.
    """
    named = lang_in(path, PAIR, r"(?:dev|test)-(?P<lang>\w\w)\.json")
    match = re.fullmatch(PAIR, path.name)
    return squad_json.read(path, "mlqa", require_lang(lang, named, path), match and match["question"])


def row(path: Path, lang: str) -> str:
    """Returns the name of the file's row: `de`, or `de-es` for German contexts with Spanish questions (G-XLT)."""
    match = re.fullmatch(PAIR, path.name)
    return f"{lang}-{match['question']}" if match and match["question"] != lang else lang
