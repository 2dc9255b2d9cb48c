"""Recipes of the data jobs are documented, and the README's languages and formats are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.recipes import ANCHOR_MRC_RECIPES, CLISM_RECIPES
from pipelines.steps.bitext.formats import FORMATS
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


def test_the_readme_lists_the_formats_of_parallel_corpora() -> None:
    examples = [example for format_ in FORMATS.values() for example in format_.examples]
    assert [example for example in examples if f"`{example}`" not in README] == []


def test_the_readme_reads_answers_from_a_shard_as_it_says() -> None:
    pytest.importorskip("pandas")
    block = re.search(r"```python\n(import pandas.*?)```", README, re.DOTALL)
    assert block
    shard = min((ROOT / "tests/golden/clism-1/data").glob("*.arrow"))
    code = block[1].replace("clism-en-vi/data/part-00000-of-00001.arrow", shard.as_posix())
    *statements, answers = code.partition("  # the answers")[0].strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(statements), names)
    found = eval(answers, names)
    assert found and all(isinstance(answer, str) and answer for answer in found)


def test_schemas_that_the_readme_lists_are_those_of_the_code() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "schemas").rglob("*.py")]
    known = {name for source in sources for name in re.findall(r'"([a-z_]+/\d)"', source)}
    named = set(re.findall(r"\b((?:clism|anchor_mrc|mrc|tagging|pair|candidates)/\d)\b", README))
    assert len(named) >= 6 and named - known == set()
