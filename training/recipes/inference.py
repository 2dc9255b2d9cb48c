"""The options of `evaluate` and `predict`. Does not import torch, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from training.recipes.scoring import Reporting, TaskName


@dataclass(frozen=True)
class Computing:
    """Where the model runs, and with which precision and batch size."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that computes. auto: a GPU if there is one, else the CPU."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the encoder's matrix products. auto: bf16 on a GPU, fp32 on a CPU."""
    batch_tokens: int | None = None
    """The most tokens that go through the encoder at once. None: 16,384 on a GPU and 4,096 on a CPU. Smaller values
    take less memory."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Predicts a benchmark's files in the formats of its own scorers, and scores them with confidence intervals:

    polyspan-train evaluate runs/qa --task xquad --gold xquad.de.json xquad.hi.json

    Several benchmarks at once, with one load of the model: TASK= precedes the files of each task.

    polyspan-train evaluate runs/qa --gold xquad= xquad.*.json tydiqa= tydiqa.goldp.*.dev.json
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The folder of a run or of a model, or a name on Hugging Face's hub."""
    task: TaskName = ""
    gold: tuple[Path, ...] = ()
    """Files as the task's authors or XTREME publish them. For several tasks, TASK= precedes the files of each, here and
    in --labels, --langs, --translations and --translation-langs."""
    labels: tuple[Path, ...] = ()
    """One label file for each gold file, for XTREME's test files, whose labels are in files of their own."""
    translations: tuple[Path, ...] = ()
    """For a model of a method that reads translations, such as filter: those of the records of --gold, as folders that
    `polyspan-train translate` wrote or as XTREME publishes them (translate-test). A record without one is read beside
    itself."""
    translation_langs: tuple[str, ...] = ()
    """The languages of each file of --translations, such as de-en, if the files' names do not say them."""
    output: str = ""
    """The folder for predictions/, report.json and report.txt. An older evaluation in it is replaced. Several tasks use
    a folder TASK in it for each. Empty: use results/TASK in the run's folder."""
    reporting: Reporting = field(default_factory=Reporting)
    computing: Computing = field(default_factory=Computing)


@dataclass(frozen=True)
class PredictConfig:
    """Answers JSON lines with a fine-tuned model. Input and output have one object on each line, in the same order:

    - questions: {"query": …, "context": …} gives {"answers": [{"text": …, "start_char": …, "end_char": …,
      "score": …}], "no_answer": …}
    - tagging: {"text": …} gives {"entities": [{"text": …, "start_char": …, "end_char": …, "label": …,
      "score": …}]}; if it has "tokens", which are words or [start, end] pairs, also their "tags"
    - pairs: {"sentence1": …, "sentence2": …} gives {"label": …, "scores": {…}}

    For a model of a method that reads translations, such as filter, an object may have a "translation" into the
    language of the training records: an object with the same texts.

    An object may have an "id" (a string, a number, true, false or null), which is returned unchanged; the default is
    the line's number. Offsets count code points and are half-open. A line that cannot be read, such as a blank one,
    gives {"id": …, "error": …}, so that line i of the output always answers line i of the input.

    Sentences without "tokens" are split into words at blanks and punctuation. Every punctuation character is a word,
    and so is every letter of Han, Kana, Thai, Lao, Khmer and Burmese script, as WikiAnn splits Chinese.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The folder of a run or of a model, or a name on Hugging Face's hub."""
    input: str = "-"
    """The file of JSON lines to read; -: standard input."""
    output: str = "-"
    """The file to write, which appears when it is complete; -: standard output."""
    overwrite: bool = False
    """Replace an existing file at --output."""
    best: int = 1
    """The number of answers to return for a question, or of rationales for each sentence of a pair, at most 20."""
    rationales: bool = False
    """Also return the words that make a pair's label true. Needs a model of the unified method and a second pass."""
    interactive: bool = False
    """Answer each line immediately, as on a terminal, instead of many lines together."""
    batch_size: int = 1_024
    """The number of lines that are read before they are answered."""
    computing: Computing = field(default_factory=Computing)
