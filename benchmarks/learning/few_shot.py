"""Pre-training on `[QUE]` examples, then question answering from few examples in one of two languages (CLISM, 4).

    python -m benchmarks.learning.few_shot --pipelines-python .venv/bin/python   # ten minutes on one core
    python -m benchmarks.learning.few_shot --draw                                # and benchmarks/few_shot.svg anew
    python -m benchmarks.learning.few_shot --quick                               # a few steps: does it run?

Sentences of two made-up languages become shards by `polyspan-data clism`. Models that begin alike are pre-trained on
them with each objective; `polyspan-train few-shot` fine-tunes them on 64, 256 and 1,024 questions in the source language
alone, and asks them 500 others in both languages. CKA is between parallel sentences, each read alone, that no model has
seen.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import torch

from benchmarks.learning.generate import languages, parallel, polyspan_data, questions, squad_file
from benchmarks.learning.small import POSITIONS, arguments, encoder_of, rows_of, table, trained, write_small
from training.data.batches import pack
from training.data.tokens import TextEncoder
from training.evaluate import evaluate
from training.few_shot import FewShotConfig, Try, few_shot
from training.finetune import finetune
from training.finetune_recipes import CLISM_FEW_SHOT, Plain
from training.metrics.cka import cka
from training.models.folder import Pretrained, load_model
from training.objectives.cacr import mean_pool
from training.plots import as_svg, few_shot_curves
from training.recipes import CLISM, ClismObjective

PICTURE = Path(__file__).resolve().parents[1] / "few_shot.svg"
PAIRS, CLAUSES = 10_000, 3  # a sentence
QUESTIONS, PASSAGE_CLAUSES, SENTENCES = 500, 4, 500  # that each model is measured on
SIZES = (64, 256, 1_024)
LANGS = {"en": "source", "vi": "target"}  # what the made-up languages pass for

OBJECTIVE = ClismObjective(max_source_tokens=40, max_target_tokens=60)
RECIPE = replace(CLISM, objective=OBJECTIVE, steps=600, batch_size=32, learning_rate=1e-3, warmup_steps=50)
QUE = replace(  # 200 steps of 32: CLISM, appendix C
    CLISM_FEW_SHOT,
    max_tokens=POSITIONS,
    max_query_tokens=16,
    stride=16,
    max_answer_tokens=8,
    learning_rate=5e-4,
)
STANDARD = replace(QUE, method=Plain())  # the same in all but the head and [QUE] (CLISM, 5, figure 4b)
MLM = replace(OBJECTIVE, clism_weight=0.0, cacr_weight=0.0)
ROWS = {
    "nothing": (None, QUE),
    "MLM": (MLM, QUE),
    "MLM, standard head": (MLM, STANDARD),
    "CLISM + MLM": (replace(OBJECTIVE, cacr_weight=0.0), QUE),
    "CLISM + CACR + MLM": (OBJECTIVE, QUE),
    "CLISM + CACR + MLM, standard head": (OBJECTIVE, STANDARD),
    "CLISM + CACR + MLM, the paper's τ = 20": (replace(OBJECTIVE, cacr_temperature=20.0), QUE),
}

Exact = dict[str, dict[int, float]]  # language → training examples → exact matches, in percent


def main() -> None:
    options = arguments(__doc__, "--draw")
    sizes = SIZES[:1] if options.quick else SIZES
    source, target = languages(1)
    held_out = parallel(source, target, SENTENCES, CLAUSES, seed=2)
    results, curves = [], {lang: {row: {size: [] for size in sizes} for row in ROWS} for lang in LANGS}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(folder, parallel(source, target, PAIRS, CLAUSES, seed=1), options.pipelines_python)
        tests = tuple(
            squad_file(folder / f"test.{lang}.json", questions(language, QUESTIONS, PASSAGE_CLAUSES, seed=3))
            for lang, language in zip(LANGS, (source, target), strict=True)
        )
        for row, (objective, recipe) in ROWS.items():
            for seed in range(options.seeds):
                pass
