"""Every recipe of fine-tuning learns 64 records by heart, with the settings of `benchmarks.learning.overfit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.overfit import ENOUGH, FILES, OVERRIDES, RECORDS, config_of, learn
from training.checks.finetuning import check, check_inputs
from training.recipes.finetuning import FINETUNE_RECIPES
from training.tasks.records import read_records


@pytest.mark.slow
@pytest.mark.parametrize("recipe", FINETUNE_RECIPES)
def test_a_recipe_learns_64_records_by_heart(recipe: str, tmp_path: Path) -> None:
    assert learn(recipe, tmp_path).score >= ENOUGH


@pytest.mark.parametrize("task", FILES)
def test_it_learns_from_64_labelled_records(task: str, tmp_path: Path) -> None:
    read = read_records([FILES[task](tmp_path)], task, ["en"], labelled=True)
    assert len(read.records) == RECORDS and not read.flags


@pytest.mark.parametrize("recipe", FINETUNE_RECIPES)
def test_its_configuration_of_every_recipe_is_sound(recipe: str, tmp_path: Path) -> None:
    config = config_of(recipe, tmp_path)
    check(config)
    check_inputs(config)
    assert config.recipe.method == FINETUNE_RECIPES[recipe].method
    assert {*OVERRIDES} <= {*FINETUNE_RECIPES}
