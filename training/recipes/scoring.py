"""The options of `polyspan-train score`, and those of `evaluate` that concern its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from training.metrics.mlqa import Arabic
from training.tasks.catalog import TASKS

TaskName = Annotated[str, tyro.conf.arg(metavar="TASK", help=f"The benchmark: {', '.join(TASKS)}.")]


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How figures are computed and shown, whichever program made the predictions."""

    langs: tuple[str, ...] = ()
    """One language for each gold file, in their order, for files whose names do not say it."""
    format: Literal["text", "markdown", "latex", "json"] = "text"
    """The format of the report. Markdown and LaTeX tables have a column for each language, as in papers."""
    name: str = "model"
    """The name of the evaluated model or system in Markdown and LaTeX tables."""
    mlqa_arabic: Arabic = "official"
    """How Arabic answers of MLQA are normalised. MLQA's scorer deletes the article inside words too; word_start deletes
    it only at the start of a word."""
    resamples: int = 1_000
    """Resamples of the bootstrap that gives the confidence intervals; 0: no intervals."""
    confidence: float = 0.95
    """Confidence level of the intervals, between 0 and 1."""
    seed: int = 1
    """Seed of the bootstrap's resamples."""


@dataclass(frozen=True)
class Files:
    """Gold files and the files of predictions, in the same order."""

    task: TaskName
    gold: tuple[Path, ...]
    """Files as the task's authors or XTREME publish them; XTREME's label files are read too."""
    predictions: tuple[Path, ...]
    """One file of predictions for each gold file. Questions: a JSON object {id: text}. Entities: a tag on each line, in
    the last column, with a blank line after each sentence. Pairs: a label on each line."""


@dataclass(frozen=True)
class ScoreConfig(Reporting, Files):  # dataclasses take the fields of the last base class first
    """Score predictions. The gold files and the files of predictions are given in the same order."""
