"""Recipes and tasks of the trainer are documented, and documented ones exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from training.recipes.finetuning import FINETUNE_RECIPES
from training.recipes.pretraining import RECIPES
from training.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize(
    "command, recipes", [("pretrain", RECIPES), ("finetune", FINETUNE_RECIPES), ("few-shot", FINETUNE_RECIPES)]
)
def test_recipes_in_commands_of_the_documents_exist(command: str, recipes: dict[str, object]) -> None:
    named = set(re.findall(rf"polyspan-train {command} ([a-z]\w+)", DOCUMENTS))
    assert named and named - set(recipes) == set()


@pytest.mark.parametrize("recipe", [*RECIPES, *FINETUNE_RECIPES])
def test_every_recipe_is_documented(recipe: str) -> None:
    assert re.search(rf"\b{recipe}\b", DOCUMENTS), f"the README names no recipe {recipe}"


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_documented_and_has_its_paper(task: str) -> None:
    references = (ROOT / "docs/references.md").read_text(encoding="utf-8")
    assert f"`{task}`" in references, f"docs/references.md needs a row with `{task}`"


def test_tasks_in_commands_of_the_documents_exist() -> None:
    named = set(re.findall(r"--(?:test-)?task ([a-z]\w+)", DOCUMENTS))
    assert {"xquad", "mlqa"} <= named and named - set(TASKS) == set()
