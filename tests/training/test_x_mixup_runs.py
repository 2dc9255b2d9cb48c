"""Whole runs of X-Mixup on a few records with their translations, with a small random model."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas import manifest
from schemas.errors import ConfigError
from schemas.mrc import RecordCounts
from tests.training.mixup_records import (
    TASKS,
    record_of,
    records,
    reversed_words,
    translation_of,
    translations,
    written,
)
from tests.training.test_finetune import rows, same, stop_in_step
from training import evaluate
from training.data.dataset_writer import write_dataset
from training.finetune import finetune
from training.models.finetuned import load_finetuned
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig
from training.recipes.inference import EvaluateConfig
from training.recipes.methods import XMixup
from training.recipes.scoring import Reporting
from training.tasks.catalog import TASKS as CATALOG

RECIPES = {"qa": "x_mixup_qa", "tagging": "x_mixup_tagging", "pairs": "x_mixup_pairs"}


def dataset(folder: Path, kind: str, found: list[Any]) -> Path:
    counts = {found[0].lang: RecordCounts(len(found), len(found))}
    write_dataset(folder, CATALOG[TASKS[kind]].shared.schema, found, counts)
    return folder


def published(folder: Path, kind: str, found: list[Any]) -> Path:
    """Writes records as the authors of the task publish them."""
    if kind == "qa":
        paragraphs = [
            {
                "context": record.context,
                "qas": [
                    {
                        "id": record.id,
                        "question": record.query,
                        "answers": [{"text": record.answer_texts[0], "answer_start": record.answers[0].start}],
                    }
                ],
            }
            for record in found
        ]
        text = json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})
    elif kind == "tagging":
        words = [zip(record.text.split(), record.tags, strict=True) for record in found]
        text = "\n".join("".join(f"xx:{word}\t{tag}\n" for word, tag in sentence) for sentence in words)
    else:
        text = "".join(f"{record.sentence1}\t{record.sentence2}\t{record.label}\n" for record in found)
    path = folder / f"gold.{'json' if kind == 'qa' else 'tsv'}"
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def config(xlmr_folder: Path, tmp_path: Path) -> Any:
    def make(kind: str, output: str = "run", back: bool = True, steps: int = 4, **changes: Any) -> FinetuneConfig:
        recipe = FINETUNE_RECIPES[RECIPES[kind]]
        method = replace(recipe.method, **{"sampling_decay": 2.0, **changes})
        sizes = {"max_tokens": 48, "max_query_tokens": 16, "stride": 8, "batch_size": 4, "learning_rate": 1e-3}
        folder = tmp_path / output
        folder.mkdir()
        return FinetuneConfig(
            replace(recipe, method=method, model=str(xlmr_folder), steps=steps, **sizes),
            train=(dataset(folder / "records", kind, records(kind)),),
            translations=(written(folder / "translations", translations(kind, back=back)),),
            output=str(folder / "run"),
            device="cpu",
        )

    return make


@pytest.mark.parametrize("kind", RECIPES)
def test_a_model_is_trained_and_evaluated_with_translations(config: Any, tmp_path: Path, kind: str) -> None:
    given = config(kind)
    finetune(given)
    run = Path(given.output)
    row = rows(run, "metrics.jsonl")[0]
    target = "teacher" if kind == "tagging" else "target"
    weights = {"source": given.recipe.method.alpha, target: 1 - given.recipe.method.alpha, "mse": 1.0, "kl": 1.0}
    present = {name.removeprefix("loss/") for name in row if name.startswith("loss/")}
    assert present == {"source", target, "mse", *(["kl"] if kind == "pairs" else [])}
    assert row["loss"] == pytest.approx(sum(weights[name] * row[f"loss/{name}"] for name in present))
    loaded = load_finetuned(run / "model")
    assert isinstance(loaded.settings.method, XMixup) and loaded.heads["mixing"].settings == {"max_ratio": 0.5}
    targets = [record_of(kind, number, "xx", reversed_words(number)) for number in range(8)]
    gold = published(tmp_path, kind, targets)
    sources = [translation_of(target, record_of(kind, number), "unknown") for number, target in enumerate(targets)]
    asked = EvaluateConfig(
        str(run), TASKS[kind], (gold,), output=str(tmp_path / "with"), reporting=Reporting(langs=("xx",))
    )
    evaluate.run(replace(asked, translations=(written(tmp_path / "test", sources),)))
    evaluate.run(replace(asked, output=str(tmp_path / "without")))
    found, alone = (
        sorted((tmp_path / name / "predictions").glob("*.jsonl"))[0].read_text("utf-8") for name in ("with", "without")
    )
    assert len(found.splitlines()) == len(alone.splitlines()) == 8 and found != alone


def test_taggers_learn_from_the_pseudo_labels_of_a_plain_model(config: Any) -> None:
    given = config("tagging")
    finetune(given)
    run = Path(given.output)
    plain = json.loads((run / "baseline" / "run.json").read_text("utf-8"))
    assert plain["recipe"]["method"] == {"name": "plain"}
    index = manifest.load(run / "soft_labels")
    assert index.schema == "soft_labels/1" and sum(shard.rows for shard in index.shards) == 8
    made = (run / "soft_labels" / "manifest.json").read_bytes()
    other = config("tagging", "other")
    finetune(replace(other, baseline=str(run / "baseline" / "model")))
    assert same(run / "model", Path(other.output) / "model")
    assert (
        json.loads(made)["config"]["teacher_sha256"]
        == json.loads((Path(other.output) / "soft_labels" / "manifest.json").read_text("utf-8"))["config"][
            "teacher_sha256"
        ]
    )


def test_only_a_plain_model_gives_pseudo_labels(config: Any) -> None:
    given = config("tagging", target_labels="given")
    finetune(given)
    other = config("tagging", "other")
    with pytest.raises(ConfigError, match="expected a plain model, which labels the translations, found one of the"):
        finetune(replace(other, baseline=str(Path(given.output) / "model")))


@pytest.mark.parametrize("kind", ["pairs"])
def test_a_stopped_run_goes_on_to_the_same_weights(config: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the draws of scheduled sampling depend on the step, not on where the run began."""
    whole, stopped = config(kind, "whole", steps=6), config(kind, "stopped", steps=6)
    finetune(whole)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.stop_signal", stop_in_step(3))
        assert finetune(stopped).stopped_by == signal.SIGTERM
    finetune(stopped)
    assert same(Path(whole.output) / "model", Path(stopped.output) / "model")


@pytest.mark.parametrize(
    "back, changes, line",
    [
        (True, {}, "scheduled sampling: 8 of 8 translations are translated back"),
        (False, {}, "have no translations back into en, so source texts are always the real ones"),
        (True, {"sampling_decay": 0.0}, "scheduled sampling: off, source texts are always the real ones"),
    ],
)
def test_the_log_says_whether_sources_are_sampled(
    config: Any, capsys: Any, back: bool, changes: Any, line: str
) -> None:
    given = config("pairs", back=back, steps=1, **changes)
    finetune(given)
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"layer": 0}, "--layer 0"),
        ({"layer": 25, "of_layers": 24}, "--layer 25"),
        ({"alpha": 1.5}, "--alpha: expected 0 to 1, found 1.5"),
        ({"max_ratio": -0.1}, "--max-ratio: expected 0 to 1, found -0.1"),
        ({"sampling_decay": -1.0}, "--sampling-decay: expected 0 or more, found -1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_starts(config: Any, changes: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        finetune(config("pairs", **changes))
