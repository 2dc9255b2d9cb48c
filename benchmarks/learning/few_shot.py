"""Pre-training on `[QUE]` examples, then question answering from few examples in one of two languages (CLISM, 4).

    python -m benchmarks.learning.few_shot --pipelines-python .venv/bin/python   # a quarter of an hour, one core
    python -m benchmarks.learning.few_shot --draw                                # and benchmarks/few_shot.svg anew
    python -m benchmarks.learning.few_shot --quick                               # a few steps: does it run?

Sentences of two made-up languages become shards by `polyspan-data clism`. Models that begin alike are pre-trained on
them with each objective; `polyspan-train few-shot` fine-tunes them on 64, 256 and 1,024 questions in the source
language alone and asks them 500 others in both languages. CKA is between parallel sentences, each read alone, that no
model has seen.
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
from training.few_shot import few_shot
from training.finetune import finetune
from training.metrics.cka import cka
from training.models.folder import Pretrained, load_model
from training.objectives.cacr import mean_pool
from training.recipes.few_shot import FewShotConfig, Try
from training.recipes.finetuning import CLISM_FEW_SHOT, FinetuneRecipe
from training.recipes.methods import Plain
from training.recipes.pretraining import CLISM, ClismObjective
from training.reports.plots import as_svg, few_shot_curves

PICTURE = Path(__file__).resolve().parents[1] / "few_shot.svg"
PAIRS, CLAUSES = 10_000, 3  # a sentence
QUESTIONS, PASSAGE_CLAUSES, SENTENCES = 500, 4, 500  # that each model is measured on
SIZES = (64, 256, 1_024)
SIDES = {"en": "source", "vi": "target"}  # what the made-up languages pass for

OBJECTIVE = ClismObjective(max_source_tokens=40, max_target_tokens=60)
RECIPE = replace(CLISM, objective=OBJECTIVE, steps=600, batch_size=32, learning_rate=1e-3, warmup_steps=50)
OBJECTIVES = {
    "nothing": None,
    "MLM": replace(OBJECTIVE, clism_weight=0.0, cacr_weight=0.0),
    "CLISM + MLM": replace(OBJECTIVE, cacr_weight=0.0),
    "CLISM + CACR + MLM": OBJECTIVE,
    "CLISM + CACR + MLM, τ = 20": replace(OBJECTIVE, cacr_temperature=20.0),  # to the letter of the paper
}
QUE = replace(  # 200 steps of 32: CLISM, appendix C
    CLISM_FEW_SHOT, max_tokens=POSITIONS, max_query_tokens=16, stride=16, max_answer_tokens=8, learning_rate=5e-4
)
STANDARD_HEAD = replace(QUE, method=Plain())  # without [QUE], as in CLISM's figure 4 (b)
ROWS = {name: (name, QUE) for name in OBJECTIVES} | {
    f"{name}, standard head": (name, STANDARD_HEAD) for name in ("MLM", "CLISM + CACR + MLM")
}


def main() -> None:
    options = arguments(__doc__, "--draw")
    sizes, pairs = (SIZES[:1], PAIRS // 10) if options.quick else (SIZES, PAIRS)
    source, target = languages(1)
    held_out = parallel(source, target, SENTENCES, CLAUSES, seed=2)
    columns = ["answers found then", "CKA", *(column(size, side) for size in sizes for side in SIDES.values())]
    found: dict[str, dict[str, list[float]]] = {row: {name: [] for name in columns} for row in ROWS}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(folder, parallel(source, target, pairs, CLAUSES, seed=1), options.pipelines_python)
        tests = tuple(
            squad_file(folder / f"test.{lang}.json", questions(language, QUESTIONS, PASSAGE_CLAUSES, seed=3))
            for lang, language in zip(SIDES, (source, target), strict=True)
        )
        for seed in range(options.seeds):
            asked = questions(source, max(SIZES), PASSAGE_CLAUSES, seed=10 + seed)
            train = squad_file(folder / f"train-{seed}.json", asked)
            models = {
                name: pretrained(folder, f"{name}-{seed}", objective, seed, options.quick)
                for name, objective in OBJECTIVES.items()
            }
            for row, (name, recipe) in ROWS.items():
                model = models[name]
                recipe = replace(recipe, model=str(model), seed=seed, steps=20 if options.quick else recipe.steps)
                exact = after_fine_tuning(recipe, train, tests, sizes, folder / f"{row}-{seed}-few-shot")
                figures = [answers_found(model.parent), alignment(load_model(model), held_out), *exact]
                for values, figure in zip(found[row].values(), figures, strict=True):
                    values.append(figure)
    print(table(["pre-trained with", *columns], [[row, *of.values()] for row, of in found.items()]))
    print(f"\nWhoever points at any name of the passage is right in {1 / PASSAGE_CLAUSES:.2f}.")
    if options.draw:
        panels = {
            f"{side} language: exact match": {
                row: {size: [100 * figure for figure in of[column(size, side)]] for size in sizes}
                for row, of in found.items()
            }
            for side in SIDES.values()
        }
        PICTURE.write_text(as_svg(few_shot_curves(panels)), encoding="utf-8")


def column(size: int, side: str) -> str:
    return f"{size:,}: {side}"


def make_shards(folder: Path, sentences: Sequence[tuple[str, str]], python: str) -> None:
    for code, lines in zip(SIDES, zip(*sentences, strict=True), strict=True):
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
    recipe: FinetuneRecipe, train: Path, tests: tuple[Path, ...], sizes: tuple[int, ...], output: Path
) -> list[float]:
    """Exact match with each size in each of the tests, as shares; what `polyspan-train few-shot` finds with one draw of
    `train`."""
    config = FewShotConfig(
        recipe,
        train=(train,),
        train_langs=("en",),
        test=tests,
        test_langs=tuple(SIDES),
        sizes=sizes,
        resamples=1,
        output=str(output),
        device="cpu",
    )
    with contextlib.redirect_stderr(io.StringIO()):
        series, _ = few_shot(config, finetune, evaluate)
    if series.failed:
        sys.exit("\n".join(f"{each}: {error}" for each, error in series.failed.items()))
    return [series.scores[Try(recipe.model, size, 1)][lang]["exact_match"] / 100 for size in sizes for lang in SIDES]


def answers_found(run: Path) -> float:
    """The share of `[QUE]` that the last 20 steps of pre-training found the answers of; nan if they asked none."""
    log = run / "metrics.jsonl"
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()[-20:]] if log.exists() else []
    return mean(row.get("clism_exact", math.nan) for row in rows) if rows else math.nan


@torch.inference_mode()
def alignment(model: Pretrained, sentences: Sequence[tuple[str, str]]) -> float:
    """Returns the CKA between the mean representations of sentences and of their translations."""
    encoder, text_encoder = encoder_of(model).eval(), TextEncoder(model.tokenizer)
    sides = []
    for side in zip(*sentences, strict=True):
        inputs = pack([text_encoder.single(text_encoder.encode(text).ids) for text in side])
        words_N2 = torch.stack([inputs.bounds_N1[:-1] + 1, inputs.bounds_N1[1:] - 1], dim=1)  # <s> and </s> around them
        sides.append(mean_pool(encoder(inputs), words_N2).numpy())
    return cka(*sides)


if __name__ == "__main__":
    main()
