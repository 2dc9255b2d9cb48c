"""Compares a baseline with hard learning, answer-aware contrastive learning and both, with the same seeds and steps.

    python -m benchmarks.learning.two_stage --pipelines-python .venv/bin/python --seeds 5
    python -m benchmarks.learning.two_stage --pipelines-python .venv/bin/python --long     # three times the steps
    python -m benchmarks.learning.two_stage --quick        # a few steps: does it run?

Two made-up languages, as in `benchmarks.learning.few_shot`: models are pre-trained with CLISM + CACR + MLM on parallel
sentences, then fine-tuned by `polyspan-train finetune` on questions of the source language alone and judged on 500
others in each language, zero-shot in the target. One baseline for each seed gives Z, and every method begins where the
baseline began.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.learning.few_shot import OBJECTIVE, PAIRS, PASSAGE_CLAUSES, make_shards, pretrained
from benchmarks.learning.generate import languages, parallel, questions, squad_file
from benchmarks.learning.small import POSITIONS, arguments, table
from training.evaluate import DevSet, dev_scores
from training.finetune import finetune
from training.inference.predictor import load_predictor, predict
from training.recipes.finetuning import TWO_STAGE, FinetuneConfig
from training.recipes.methods import Plain, TwoStage
from training.tasks.records import read_records

QUESTIONS, TESTED, CLAUSES = 1_024, 500, 3
RECIPE = replace(
    TWO_STAGE,
    max_tokens=POSITIONS,
    max_query_tokens=16,
    stride=16,
    max_answer_tokens=8,
    steps=300,
    learning_rate=5e-4,
    weight_decay=0.0,
)
METHODS = {
    "baseline": Plain(),
    "HL": TwoStage(alpha=0.0),
    "AA-CL": TwoStage(hard="none"),
    "HL + AA-CL": TwoStage(),
    "HL + AA-CL, τ = 10": TwoStage(temperature=10.0),
    "HL, the true answer at its rank": TwoStage(alpha=0.0, gold_first=False),
    "MML": TwoStage(hard="mml", alpha=0.0, gold_first=False),
    "hard EM": TwoStage(hard="hard_em", alpha=0.0, gold_first=False),
}
TOP = (3, 5)


def main() -> None:
    options = arguments(__doc__, "--long")
    steps = 20 if options.quick else 3 * RECIPE.steps if options.long else RECIPE.steps
    source, target = languages(1)
    found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(folder, parallel(source, target, PAIRS, CLAUSES, seed=1), options.pipelines_python)
        tests = [
            squad_file(folder / f"test.{code}.json", questions(language, TESTED, PASSAGE_CLAUSES, seed=3))
            for code, language in (("en", source), ("vi", target))
        ]
        for seed in range(options.seeds):
            model = pretrained(folder, f"start-{seed}", OBJECTIVE, seed, options.quick)
            train = squad_file(
                folder / f"train-{seed}.json", questions(source, QUESTIONS, PASSAGE_CLAUSES, seed=10 + seed)
            )
            baseline = ""
            for name, method in METHODS.items():
                recipe = replace(RECIPE, method=method, seed=seed, model=str(model), steps=steps)
                wants_baseline = isinstance(method, TwoStage) and method.hard != "none"
                output = folder / f"{name}-{seed}"
                config = FinetuneConfig(
                    recipe,
                    train=(train,),
                    train_langs=("en",),
                    baseline=baseline if wants_baseline else "",
                    output=str(output),
                    device="cpu",
                )
                with contextlib.redirect_stderr(io.StringIO()):
                    finetune(config)
                if name == "baseline":
                    baseline = str(output / "model")
                found[name].append(judged(output / "model", tests))
    columns = [
        f"{side}: {what}" for side in ("source", "target") for what in ("EM", "F1", *(f"in top {k}" for k in TOP))
    ]
    print(table(["trained with", *columns], [[name, *zip(*rows, strict=True)] for name, rows in found.items()]))


def judged(model: Path, tests: Iterable[Path]) -> list[float]:
    """EM, F1, and how often the answer is among the best few, in each test; shares."""
    import torch

    predictor, figures = load_predictor(model, torch.device("cpu")), []
    for path in tests:
        records = read_records([path], "squad", ["en"], labelled=True).records
        sets = [DevSet("test", "squad", records)]
        scores = dev_scores(predictor.model, predictor.formulation, sets, predictor.device, "fp32")["test"]
        figures += [scores["exact_match"] / 100, scores["f1"] / 100]
        predictions = predict(predictor.model, predictor.formulation, records, predictor.device)
        for k in TOP:
            hits = [
                any((span.start_char, span.end_char) in record.answers for span in each.spans[:k])
                for record, each in zip(records, predictions, strict=True)
            ]
            figures.append(sum(hits) / len(hits))
    return figures


if __name__ == "__main__":
    main()
