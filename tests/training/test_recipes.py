from __future__ import annotations

import ast
import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

from training import recipes
from training.recipes import ABOUT, RECIPES, ClismObjective, WaeObjective
from training.run_folder import RECIPES_FOR


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


def test_every_recipe_is_known_by_its_name_and_told_of() -> None:
    assert [recipe.name for recipe in RECIPES.values()] == list(RECIPES) == list(ABOUT)
    for schema, objective in (("clism/1", ClismObjective), ("anchor_mrc/1", WaeObjective)):
        assert RECIPES_FOR[schema] == [name for name, each in RECIPES.items() if isinstance(each.objective, objective)]


def test_every_field_says_what_it_is() -> None:
    tree = ast.parse(inspect.getsource(recipes))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            told = [
                field.target.id
                for field, after in zip(node.body, node.body[1:], strict=False)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(after)
            ]
            named = [field.name for field in fields(getattr(recipes, node.name))]
            assert [name for name in named if name not in told] in ([], ["recipe"], ["objective"])


def test_recipes_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPES["clism"].steps = 1  # type: ignore[misc]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
