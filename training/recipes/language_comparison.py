"""The options of `compare-languages`. Does not import torch, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from training.recipes.inference import Computing
from training.recipes.scoring import TaskName


@dataclass(frozen=True)
class LanguageComparisonConfig:
    """Compares how models represent the same records in several languages: CKA with the source language beside that of
    random weights, and a picture of the languages' centroids (X-Mixup, section 3 and appendix B).

    polyspan-train compare-languages xlm-roberta-base runs/qa --task xquad --files xquad.en.json xquad.de.json
    """

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL …")]
    """Folders of runs or of models, pre-trained or fine-tuned, or names on Hugging Face's hub. Each text is read alone,
    also by models that were trained with translations."""
    task: TaskName
    files: tuple[Path, ...]
    """Files of the same records in several languages, one for each language, as the task's authors or XTREME publish
    them, or dataset folders. Records are joined by id."""
    output: str
    """The folder for comparison.json, comparison.txt and report.html, a page with pictures that needs no network. An
    older comparison in it is replaced."""
    langs: tuple[str, ...] = ()
    """One language for each file, if the files' names do not say it."""
    source_lang: str = "en"
    """The language that the others are compared with."""
    records: int = 1_000
    """The most records to compare, chosen by a hash of the seed and of their ids. CKA rises where there are fewer
    records than the hidden size of the model."""
    max_tokens: int = 256
    """Maximum tokens of a record, special tokens included. Longer texts are cut."""
    seed: int = 1
    """Seed of the chosen records and of the random weights."""
    computing: Computing = field(default_factory=Computing)
