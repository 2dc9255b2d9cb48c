"""Recipes of the data jobs are documented, and languages that the README lists are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.recipes import ANCHOR_MRC_RECIPES, CLISM_RECIPES
from schemas.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("recipe", [*CLISM_RECIPES, *ANCHOR_MRC_RECIPES])
def test_every_recipe_is_documented(recipe: str) -> None:
    assert re.search(rf"\b{recipe}\b", DOCUMENTS)


def test_recipes_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"--recipe (\w+)", DOCUMENTS))
    assert named and named - {*CLISM_RECIPES, *ANCHOR_MRC_RECIPES} == set()


def test_the_readme_lists_the_languages() -> None:
    match = re.search(r"\*\*(\d+) languages\*\*: ([a-z ]+)\.", README)
    assert match
    codes = match[2].split()
    assert int(match[1]) == len(codes) and codes == sorted(LANGUAGES)
