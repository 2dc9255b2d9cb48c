"""Reads XNLI (Conneau et al. 2018): pairs in 15 languages, whose first sentence entails or contradicts the second."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import PairExample
from training.tasks import tsv
from training.tasks.files import FileRecords, lang_in

LANGS = ("en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
LABELS = ("contradiction", "entailment", "neutral")
SPELLINGS = {label: label for label in LABELS} | {
    "contradictory": "contradiction"  # in the translated training set
}
COLUMNS = {
    "pairID": "id",
    "language": "lang",
    "sentence1": "sentence1",
    "sentence2": "sentence2",
    "gold_label": "label",
    "premise": "sentence1",
    "hypo": "sentence2",
    "label": "label",
}


def read(path: Path, lang: str | None = None) -> FileRecords[PairExample]:
    """Reads the authors' `xnli.test.tsv` (lines name the language), `multinli.train.de.tsv`; XTREME's `test-de.tsv`."""
    named = lang_in(path, r"multinli\.train\.(?P<lang>\w\w)\.tsv", r"(?:train|dev|test)-(?P<lang>\w\w)\.tsv")
    return tsv.read(path, "xnli", lang or named, SPELLINGS, COLUMNS)
