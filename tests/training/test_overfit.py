"""Every recipe of fine-tuning learns 64 records by heart, with the settings of `benchmarks.learning.overfit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.overfit import ENOUGH, FILES, OVERRIDES, RECORDS, config_of, learn
from training.checks.finetuning import check, check_inputs
from training.finetune import read_data, starting_model
from training.recipes.finetuning import FINETUNE_RECIPES
from training.tasks.queries import pair_queries, tag_queries
from training.tasks.records import labels_of, read_records


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


@pytest.mark.parametrize(
    "recipe, task", [("mpmr_paws_x", "paws_x"), ("mpmr_conll", "conll"), ("clism_ner_que", "wikiann")]
)
def test_the_tiny_models_tokenizer_knows_the_words_of_the_queries_for_labels(
    recipe: str, task: str, tmp_path: Path
) -> None:
    config = config_of(recipe, tmp_path)
    records = read_data(config).records
    tokenizer = starting_model(config, records)[0].tokenizer
    ask = pair_queries if task == "paws_x" else tag_queries
    for query in ask(records[0], labels_of(records, task)):
        tokens = tokenizer.tokenize(query.query)
        assert tokenizer.unk_token not in tokens and len(tokens) < 3 * len(query.query.split())
