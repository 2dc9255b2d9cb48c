"""Pre-training on `[QUE]` examples, then question answering from few examples in one of two languages (CLISM, 4).

    python -m benchmarks.learning.few_shot --pipelines-python .venv/bin/python   # nine minutes on one core
    python -m benchmarks.learning.few_shot --papers-temperature …                # one row: CACR with τ = 20, not 0.05
    python -m benchmarks.learning.few_shot --quick                               # a few steps: does it run?

Sentences of two made-up languages become shards by `polyspan-data clism`. Models that begin alike are pre-trained on
them with each objective, fine-tuned on 64, 256 and 1,024 questions in the source language alone, as CLISM, 3.4 has it,
and asked 500 others in both languages. CKA is between parallel sentences, each read alone, that no model has seen.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from benchmarks.learning.generate import languages, parallel, polyspan_data, questions
from benchmarks.learning.small import arguments, encoder_of, reader_of, rows_of, table, trained, write_small
from training.data.batches import ClismBatch, clism_batch, pack
from training.data.features import ClismFeatures, Limits, clism_features
from training.data.loader import StepBatches
from training.data.masking import unmasked
from training.data.plan import Plan
from training.data.tokens import TextEncoder
from training.logbook import Silent
from training.loop import train
from training.methods.clism import ClismMethod
from training.methods.reader import Reader
from training.metrics.cka import cka
from training.models.folder import Pretrained, add_que_token, load_model
from training.objectives.cacr import mean_pool
from training.recipes import CLISM, ClismObjective, PretrainConfig
from training.start import size_of

PAIRS, CLAUSES = 10_000, 3  # a sentence
QUESTIONS, PASSAGE_CLAUSES, SENTENCES = 500, 4, 500  # that each model is measured on
SHOTS = (64, 256, 1_024)

OBJECTIVE = ClismObjective(max_source_tokens=40, max_target_tokens=60)
LIMITS = Limits(source=OBJECTIVE.max_source_tokens, target=OBJECTIVE.max_target_tokens)
RECIPE = replace(CLISM, objective=OBJECTIVE, steps=600, batch_size=32, learning_rate=1e-3, warmup_steps=50)
OBJECTIVES = {
    "nothing": None,
    "MLM": replace(OBJECTIVE, clism_weight=0.0, cacr_weight=0.0),
    "CLISM + MLM": replace(OBJECTIVE, cacr_weight=0.0),
    "CLISM + CACR + MLM": OBJECTIVE,
}
PAPERS_TEMPERATURE = {"CLISM + CACR + MLM, τ = 20": replace(OBJECTIVE, cacr_temperature=20.0)}
QA = ClismMethod(replace(OBJECTIVE, cacr_weight=0.0, mlm_weight=0.0))
FINE_TUNING = replace(RECIPE, objective=QA.objective, steps=200, learning_rate=5e-4)  # 200 steps of 32: appendix C

Row = dict[str, Any]


def main() -> None:
    options = arguments(__doc__, "--papers-temperature")
    shots = SHOTS[:1] if options.quick else SHOTS
    source, target = languages(1)
    held_out = parallel(source, target, SENTENCES, CLAUSES, seed=2)
    tests = [list(questions(language, QUESTIONS, PASSAGE_CLAUSES, seed=3)) for language in (source, target)]
    results = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(folder, parallel(source, target, PAIRS, CLAUSES, seed=1), options.pipelines_python)
        for name, objective in (PAPERS_TEMPERATURE if options.papers_temperature else OBJECTIVES).items():
            found = []
            for seed in range(options.seeds):
                model = pretrained(folder, f"{name}-{seed}", objective, seed, options.quick)
                figures = [answers_found(model.parent), alignment(load_model(model), held_out)]
                for count in shots:
                    few = list(questions(source, count, PASSAGE_CLAUSES, seed=10 + seed))
                    figures += after_fine_tuning(load_model(model), few, tests, folder / f"{name}-{seed}-{count}", seed)
                found.append(figures)
            results.append([name, *zip(*found, strict=True)])
    sides = [f"{count:,}: {side}" for count in shots for side in ("source", "target")]
    print(table(["pre-trained with", "answers found then", "CKA", *sides], results))
    print(f"\nWhoever points at any name of the passage is right in {1 / PASSAGE_CLAUSES:.2f}.")


def make_shards(folder: Path, sentences: Sequence[tuple[str, str]], python: str) -> None:
    for code, lines in zip(("en", "vi"), zip(*sentences, strict=True), strict=True):
        (folder / f"text.{code}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    bitext = f"{folder / 'text.en'},{folder / 'text.vi'}"
    polyspan_data(python, "clism", "--pair", "en-vi", "--bitext", bitext, "--output", str(folder / "shards"))


def pretrained(folder: Path, name: str, objective: ClismObjective | None, seed: int, quick: bool) -> Path:
    """The folder of a model that was trained on the shards in `folder`, or of one that was not trained."""
    texts = [row[side] for row in rows_of(folder / "shards") for side in ("source_text", "target_text")]
    start = write_small(folder / f"{name} from" / "model", texts, seed)
    if objective is None:
        return start
    recipe = replace(RECIPE, objective=objective, seed=seed, steps=60 if quick else RECIPE.steps)
    return trained(recipe, start, folder / "shards", folder / name)


def after_fine_tuning(
    model: Pretrained, few: Sequence[Row], tests: Sequence[Sequence[Row]], output: Path, seed: int
) -> list[float]:
    """Exact match in each of the tests, once the model has learned from a few questions: the trainer's own loop. Its
    span head is the pre-trained one, if it has one."""
    add_que_token(model.language_model, model.tokenizer, seed)
    encoder, reader = TextEncoder(model.tokenizer), reader_of(QA, model, seed)
    learned, *asked = ([features_of(row, encoder) for row in rows] for rows in (few, *tests))
    recipe = replace(FINE_TUNING, seed=seed)
    plan = Plan(np.zeros(len(learned), np.int64), [1.0], np.ones(len(learned)), recipe.batch_size, seed)

    def batches_from(step: int) -> Iterator[StepBatches]:
        for at in itertools.count(step):
            yield StepBatches(at, (batch_of([learned[row] for row in plan.batch(at).rows]),), {}, {}, 0.0)

    config = PretrainConfig(recipe, output=str(output))
    train(reader, QA, batches_from, config, size_of(reader.encoder), torch.device("cpu"), lambda _: Silent())
    return [exact_match(reader.eval(), features) for features in asked]


def features_of(row: Row, encoder: TextEncoder) -> ClismFeatures:
    features = clism_features(row, encoder, LIMITS)
    assert isinstance(features, ClismFeatures), f"{row['id']}: {features}"
    return features


def batch_of(features: Sequence[ClismFeatures]) -> ClismBatch:
    return clism_batch(features, [unmasked(each) for each in features])


@torch.inference_mode()
def exact_match(reader: Reader, features: Sequence[ClismFeatures]) -> float:
    """How often the most likely start and the most likely end are the answer's."""
    right = 0.0
    for at in range(0, len(features), 100):
        right += QA.losses(reader, batch_of(features[at : at + 100]), None)["clism"].figures["exact"][0].item()
    return right / len(features)


def answers_found(run: Path) -> float:
    """The share of `[QUE]` that the last 20 steps of pre-training found the answers of; nan if they asked none."""
    log = run / "metrics.jsonl"
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()[-20:]] if log.exists() else []
    return mean(row.get("clism_exact", math.nan) for row in rows) if rows else math.nan


@torch.inference_mode()
def alignment(model: Pretrained, sentences: Sequence[tuple[str, str]]) -> float:
    """CKA between the mean representations of sentences and of their translations."""
    encoder, text_encoder = encoder_of(model).eval(), TextEncoder(model.tokenizer)
    sides = []
    for side in zip(*sentences, strict=True):
        inputs = pack([text_encoder.single(text_encoder.encode(text).ids) for text in side])
        words_N2 = torch.stack([inputs.bounds_N1[:-1] + 1, inputs.bounds_N1[1:] - 1], dim=1)  # <s> and </s> around them
        sides.append(mean_pool(encoder(inputs), words_N2).numpy())
    return cka(*sides)


if __name__ == "__main__":
    main()
