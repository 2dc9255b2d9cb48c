from __future__ import annotations

import ast
import inspect
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from tests import paper_settings
from training.data.features import Limits
from training.methods.pretraining_tasks import pretraining_task, recipes_for
from training.recipes import pretraining
from training.recipes.few_shot import FewShotConfig
from training.recipes.finetuning import FINETUNE_ABOUT, FINETUNE_RECIPES
from training.recipes.methods import MethodSettings, TwoStage
from training.recipes.pretraining import ABOUT, RECIPES, ClismObjective, Recipe, WaeObjective


@pytest.mark.parametrize(
    "name, expected",
    [
        ("clism_paper", ("xlm-roberta-base", "adam", 64, 15_000, 1_500, 1e-5)),
        ("mpmr_base", ("xlm-roberta-base", "adamw", 256, 250_000, 15_000, 1e-5)),
        ("mpmr_large", ("xlm-roberta-large", "adamw", 80, 100_000, 6_000, 1e-5)),
    ],
)
def test_recipes_hold_the_papers_numbers(name: str, expected: tuple[object, ...]) -> None:
    names = ("model", "optimizer", "batch_size", "steps", "warmup_steps", "learning_rate")
    assert tuple(getattr(RECIPES[name], each) for each in names) == expected


def test_variants_differ_in_what_their_names_say() -> None:
    objectives = {name: recipe.objective for name, recipe in RECIPES.items()}
    assert objectives["clism_paper"] == ClismObjective(cacr_temperature=20.0)
    assert objectives["clism"] == ClismObjective(cacr_temperature=1 / 20)
    assert objectives["clism_no_cacr"] == ClismObjective(cacr_weight=0.0)
    assert objectives["mlm_only"] == ClismObjective(clism_weight=0.0, cacr_weight=0.0)


def test_every_recipe_has_its_name_as_key_and_a_description() -> None:
    assert [recipe.name for recipe in RECIPES.values()] == list(RECIPES) == list(ABOUT)
    of_clism, of_wae = (
        {name for name, recipe in RECIPES.items() if isinstance(recipe.objective, objective)}
        for objective in (ClismObjective, WaeObjective)
    )
    assert of_clism <= {*recipes_for("clism/1")} and of_wae <= {*recipes_for("anchor_mrc/1")}
    assert not {*recipes_for("clism/1")} & {*recipes_for("anchor_mrc/1")}


# Recipes of no paper, and variants of a paper's to compare with: named here, or the table has all of their fields.
OURS = {
    "pretrain": ("clism_no_cacr", "mlm_only", "tiny_clism", "tiny_mpmr"),
    "finetune": (
        *("plain_qa", "plain_tagging", "plain_pairs", "clism_ner_que"),
        *("two_stage_hl", "two_stage_aacl", "two_stage_mml", "two_stage_hard_em"),
        *("translate_train_qa", "translate_train_pairs", "translate_train_tagging"),
    ),
}
OF_COMMAND: dict[str, dict[str, Any]] = {"pretrain": {**RECIPES}, "finetune": {**FINETUNE_RECIPES}}
NAMED = [(command, name) for command, known in OF_COMMAND.items() for name in known]


def plain(value: Any) -> Any:
    """As the table has it: a method by its name."""
    return {"name": value.name} if isinstance(value, MethodSettings) else value


@pytest.mark.parametrize("command, name", NAMED)
def test_recipes_have_the_values_of_the_table_of_paper_settings(command: str, name: str) -> None:
    of_recipe = [row for row in paper_settings.rows(command) if row.names(name)]
    assert paper_settings.differences(OF_COMMAND[command][name], of_recipe, plain) == []
    assert paper_settings.named_twice(of_recipe) == []


@pytest.mark.parametrize("command, name", [(of, name) for of, name in NAMED if name not in OURS[of]])
def test_every_field_of_a_papers_recipe_has_a_row(command: str, name: str) -> None:
    of_recipe = [row for row in paper_settings.rows(command) if row.names(name)]
    by_leaf = [row._replace(fields=tuple(each for each in row.fields if each != "method")) for row in of_recipe]
    uncovered = paper_settings.uncovered(OF_COMMAND[command][name], by_leaf)
    assert uncovered == [], f"docs/paper_settings.md needs a row for each, or OURS above the name {name}"


@pytest.mark.parametrize("command", OF_COMMAND)
def test_the_table_names_recipes_that_exist_and_explains_what_is_not_the_papers(command: str) -> None:
    of_command = paper_settings.rows(command)
    assert paper_settings.unknown(of_command, OF_COMMAND[command]) == [] == paper_settings.unexplained(of_command)
    assert not [name for name in OURS[command] if name.endswith("_paper")]


def test_few_shot_training_has_the_values_of_the_table_of_paper_settings() -> None:
    of_command = paper_settings.rows("few-shot")
    assert {name for row in of_command for name in row.fields} == {"sizes", "resamples"}
    assert paper_settings.differences(FewShotConfig(FINETUNE_RECIPES["clism_few_shot"]), of_command) == []


def limits_of(recipe: Recipe) -> Limits:
    return pretraining_task(recipe).limits(recipe.objective)


def test_the_lengths_of_a_recipe_are_those_of_its_batches() -> None:
    clism, mpmr = (limits_of(RECIPES[name]) for name in ("clism_paper", "mpmr_base"))
    assert (clism.source, clism.target, clism.total) == (128, 128, 256)
    assert (mpmr.query, mpmr.context, mpmr.total) == (128, 512, 512)
    objective = WaeObjective(max_tokens=300, max_context_tokens=200)
    assert limits_of(replace(RECIPES["mpmr_base"], objective=objective)) == Limits(query=128, context=200, total=300)


def test_the_papers_two_stage_training_keeps_the_true_answer_at_its_rank() -> None:
    assert FINETUNE_RECIPES["two_stage_paper"].method == TwoStage(temperature=10.0, gold_first=False)
    assert FINETUNE_RECIPES["two_stage"].method == TwoStage(temperature=0.1, gold_first=True)
    assert list(FINETUNE_RECIPES) == list(FINETUNE_ABOUT)


def test_every_field_says_what_it_is() -> None:
    tree = ast.parse(inspect.getsource(pretraining))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            described = [
                field.target.id
                for field, after in zip(node.body, node.body[1:], strict=False)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(after)
            ]
            named = [field.name for field in fields(getattr(pretraining, node.name))]
            assert [name for name in named if name not in described] in ([], ["recipe"], ["objective"])


def test_recipes_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPES["clism"].steps = 1  # type: ignore[misc]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
