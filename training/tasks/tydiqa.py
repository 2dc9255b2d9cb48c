"""Reads TyDiQA-GoldP (Clark et al. 2020): questions that were asked in nine languages, without translation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from schemas.errors import InputError
from schemas.mrc import MrcExample
from training.tasks import squad_json
from training.tasks.files import FileRecords, lang_in

CODES = {
    "english": "en", "arabic": "ar", "bengali": "bn", "finnish": "fi", "indonesian": "id",
    "korean": "ko", "russian": "ru", "swahili": "sw", "telugu": "te",
}  # fmt: skip
LANGS = tuple(CODES.values())


def read(path: Path, lang: str | None = None) -> FileRecords[MrcExample]:
    """Reads `tydiqa-goldp-v1.1-train.json` (all languages; ids name them), `tydiqa-goldp-dev-arabic.json`; XTREME's
    `tydiqa.goldp.ar.dev.json`, whose labels are in `test-ar.json`; `tydiqa.translate.train.en-ar.json`."""
    lang = lang or lang_in(
        path,
        r"tydiqa-goldp-(?:dev|train|test)-(?P<lang>[a-z]+)\.json",
        r"tydiqa\.goldp\.(?P<lang>\w+)\.(?:train|dev|test)\.json",
        r"tydiqa\.translate\..*\.en-(?P<lang>\w+)\.json",
        r"test-(?P<lang>\w+)\.json",
        names=CODES,
    )
    return squad_json.read(path, "tydiqa", lang or partial(_lang_of, path))


def _lang_of(path: Path, id_: str) -> str:
    name = id_.partition("-")[0]
    if name not in CODES:
        raise InputError(f"{path}: {id_}: neither the file's name nor the id says the language. Give it: --langs ar")
    return CODES[name]
