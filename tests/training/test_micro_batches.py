"""Cutting a step into micro-batches changes the rounding only: not the losses, nor which units dropout drops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.mixup_records import TASKS, records, translations, written
from tests.training.runs import small
from tests.training.test_finetune import rows
from tests.training.test_x_mixup_runs import dataset
from training.finetune import finetune
from training.pretrain import pretrain
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig

SIZES = {"max_tokens": 48, "max_query_tokens": 16, "stride": 8, "batch_size": 8, "steps": 3, "learning_rate": 1e-3}


def losses_of(run: Path) -> list[dict[str, float]]:
    return [{name: row[name] for name in row if name.startswith("loss")} for row in rows(run, "metrics.jsonl")]


def assert_equal_losses(runs: list[list[dict[str, float]]]) -> None:
    whole, *cut = runs
    for other in cut:
        for expected, found in zip(whole, other, strict=True):
            assert found == pytest.approx(expected, rel=2e-3, abs=1e-5)


@pytest.mark.parametrize(
    "recipe, kind",
    [
        ("plain_qa", "qa"),
        ("plain_tagging", "tagging"),
        ("clism_qa", "qa"),
        ("mpmr_squad", "qa"),
        ("mpmr_xnli", "pairs"),
        ("filter_pairs", "pairs"),
        ("x_mixup_qa", "qa"),
    ],
)
def test_fine_tuning_has_the_same_losses_with_any_micro_batches(
    recipe: str, kind: str, xlmr_folder: Path, tmp_path: Path
) -> None:
    chosen = FINETUNE_RECIPES[recipe]
    train = dataset(tmp_path / "records", kind, records(kind))
    beside = written(tmp_path / "translations", translations(kind, back=False))
    found = []
    for number, micro_batch_tokens in enumerate((100_000, 90, 40)):
        config = FinetuneConfig(
            replace(chosen, task=TASKS[kind], model=str(xlmr_folder), **SIZES),
            train=(train,),
            translations=(beside,) if chosen.method.reads_translations else (),
            output=str(tmp_path / f"run-{number}"),
            micro_batch_tokens=micro_batch_tokens,
            activation_checkpointing=number == 2,
            device="cpu",
        )
        finetune(config)
        found.append(losses_of(Path(config.output)))
    assert_equal_losses(found)


@pytest.mark.parametrize("recipe", ["tiny_clism", "tiny_mpmr"])
def test_pre_training_has_the_same_losses_with_any_micro_batches(recipe: str, tmp_path: Path) -> None:
    found = []
    for micro_batch_tokens in (0, 60):
        config = small(recipe, tmp_path / str(micro_batch_tokens), steps=3, micro_batch_tokens=micro_batch_tokens)
        pretrain(config)
        found.append(losses_of(Path(config.output)))
    assert_equal_losses(found)
