"""The options of `translate`. Does not import torch, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from training.recipes.inference import Computing
from training.recipes.scoring import TaskName


@dataclass(frozen=True)
class TranslateConfig:
    """Translates labelled records with a sequence-to-sequence model, and carries their labels over:

    polyspan-train translate facebook/nllb-200-distilled-600M --task squad --input train-v1.1.json --to de es \\
      --output translations/squad

    Texts are translated sentence by sentence. Pairs keep their labels. Answers and tags are carried over by word
    alignment, each record with a score; where that fails, the record's labels are unknown. A repeated command goes on
    with a run that was stopped.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The folder of a model such as Marian, M2M-100, NLLB or mBART-50, or its name on Hugging Face's hub."""
    input: tuple[Path, ...]
    """Files as the task's authors or XTREME publish them, or dataset folders of their records. With --back: folders
    that this command wrote."""
    output: Path
    """The folder to write: translations, rejects, manifest and dataset card."""
    task: TaskName = ""
    to: tuple[str, ...] = ()
    """The languages to translate into, such as de es. With --back: only translations of records in these languages are
    translated back; none: all."""
    source_lang: Annotated[str, tyro.conf.arg(name="from")] = ""
    """The language of the input files, if their names do not say it. With --back: only translations in this language
    are translated back; empty: all."""
    back: bool = False
    """Translate the translations of another run back into the languages of their records."""
    codes: tuple[str, ...] = ()
    """The model's own codes of languages, where they are not found by themselves, such as zh=zho_Hant."""
    beams: int = 1
    """Beams of the search; 1: greedy. More beams translate better and take about as many times the time and memory."""
    aligner: str = ""
    """The model of a word aligner that `polyspan-data align train` saved. It adapts to the texts. {pair} in the path is
    replaced by the two languages, such as en-de. Empty: the aligner learns from the texts alone."""
    overwrite: bool = False
    """Replace another dataset in the output folder, or begin anew where another command was stopped."""
    computing: Computing = field(default_factory=Computing)
