"""What `evaluate` and `predict` are asked for. Free of torch, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from training.recipes.scoring import Reporting, TaskName


@dataclass(frozen=True)
class Computing:
    """Where the model runs, and how."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the encoder's products. auto: bf16 on a GPU, fp32 on a CPU."""
    batch_tokens: int | None = None
    """The most tokens that go through the encoder at once; None: 16,384 on a GPU and 4,096 on a CPU. Fewer take less
    memory."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Predictions of a model in the formats of a benchmark's own scorers, and its figures with confidence intervals:

    polyspan-train evaluate runs/qa --task xquad --gold xquad.de.json xquad.hi.json
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder (its model/ is taken), a model's, or a name on Hugging Face's hub."""
    task: TaskName
    gold: tuple[Path, ...]
    """Files as the task's authors or XTREME publish them."""
    labels: tuple[Path, ...] = ()
    """One label file for each gold file, where XTREME keeps the labels of its test files apart."""
    output: str = ""
    """The folder to write: predictions/, report.json and report.txt, in place of an evaluation that may be there.
    Empty: results/TASK in the run's folder."""
    reporting: Reporting = field(default_factory=Reporting)
    computing: Computing = field(default_factory=Computing)


@dataclass(frozen=True)
class PredictConfig:
    """What to ask of a model. Input and output have one object a line, in the same order:

    - questions: {"query": …, "context": …} gives {"answers": [{"text": …, "start_char": …, "end_char": …,
      "score": …}], "no_answer": …}
    - tagging: {"text": …} gives {"entities": [{"text": …, "start_char": …, "end_char": …, "label": …,
      "score": …}]}; and if it holds "tokens", which are words or [start, end] pairs, their "tags"
    - pairs: {"sentence1": …, "sentence2": …} gives {"label": …, "scores": {…}}

    Each may hold an "id", any string, number, true, false or null, which is given back as it is; else it is the line's
    number. Places are code points, half-open. What cannot be read, a blank line too, gives {"id": …, "error": …} in its
    place: line i of the output answers line i of the input.

    Sentences without "tokens" are cut into words at blanks and punctuation, whose every character is a word of its own;
    so is every letter of Han, Kana, Thai, Lao, Khmer and Burmese script, as WikiAnn has it for Chinese.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder (its model/ is taken), a model's, or a name on Hugging Face's hub."""
    input: str = "-"
    """JSON lines; -: standard input."""
    output: str = "-"
    """The file to write, whole or not at all; -: standard output."""
    overwrite: bool = False
    """Replace the file that stands at --output."""
    best: int = 1
    """How many answers of a question, or rationales in each sentence of a pair; the best first, at most 20."""
    rationales: bool = False
    """Of pairs: the words that make the label true. For models of the unified method; takes a second pass."""
    interactive: bool = False
    """Answer each line at once, as on a terminal, instead of many together."""
    batch_size: int = 1_024
    """How many lines are read before they are answered."""
    computing: Computing = field(default_factory=Computing)
