"""Reads SQuAD 1.1 (Rajpurkar et al. 2016), and its machine translations as XTREME and MLQA publish them."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import MrcExample
from training.tasks import squad_json
from training.tasks.files import FileRecords, lang_in

LANGS = ("en",)


def read(path: Path, lang: str | None = None) -> FileRecords[MrcExample]:
    """Reads `train-v1.1.json`, `dev-v1.1.json`, XTREME's translations `squad.translate.train.en-de.json`, and MLQA's
    `de_squad-translate-train-train-v1.1.json`."""
    named = lang_in(path, r"squad\.translate\..*\.en-(?P<lang>\w+)\.json", r"(?P<lang>\w\w)_squad-translate-.*\.json")
    return squad_json.read(path, "squad", lang or named or "en")
