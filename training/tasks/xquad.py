"""Reads XQuAD (Artetxe et al. 2020): 240 paragraphs of SQuAD's dev set, translated by people into all languages."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import MrcExample
from training.tasks import squad_json
from training.tasks.files import FileRecords, lang_in, require_lang

LANGS = ("en", "ar", "de", "el", "es", "hi", "ru", "th", "tr", "vi", "zh")
"""The eleven languages that papers average over (mPMR, table 7). Romanian was added later."""


def read(path: Path, lang: str | None = None) -> FileRecords[MrcExample]:
    """Reads `xquad.de.json`, also from XTREME, whose labels are in `test-de.json`."""
    named = lang_in(path, r"xquad\.(?P<lang>\w+)\.json", r"test-(?P<lang>\w+)\.json")
    return squad_json.read(path, "xquad", require_lang(lang, named, path))
