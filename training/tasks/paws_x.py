"""Reads PAWS-X (Yang et al. 2019): adversarial pairs in seven languages, labelled as paraphrases or not."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import PairExample
from training.tasks import tsv
from training.tasks.files import FileRecords, lang_in

LANGS = ("en", "de", "es", "fr", "ja", "ko", "zh")
LABELS = ("0", "1")  # 1: a paraphrase
LABEL_NAMES = {"0": "contradiction", "1": "entailment"}
COLUMNS = {"id": "id", "sentence1": "sentence1", "sentence2": "sentence2", "label": "label"}


def read(path: Path, lang: str | None = None) -> FileRecords[PairExample]:
    """Reads the authors' `x-final/de/test_2k.tsv`, which has a header, or XTREME's `test-de.tsv`, which has none."""
    named = lang_in(path, r"(?:train|dev|test)-(?P<lang>\w\w)\.tsv")
    lang = lang or named or (path.parent.name if path.parent.name in LANGS else None)
    return tsv.read(path, "paws_x", lang, {label: label for label in LABELS}, COLUMNS)
