from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.aligner.links import Link
from pipelines.recipes import ANCHOR_MRC, ANCHOR_MRC_RECIPES, CLISM, CLISM_PAPER, CLISM_RECIPES
from pipelines.steps.bitext.filters import length_reject, text_reject
from pipelines.steps.clism.masking import TokenizedPair, mask_mentions
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair
from schemas.languages import LanguagePair
from schemas.spans import CharSpan
from tests import paper_settings

RECIPES = {**CLISM_RECIPES, **ANCHOR_MRC_RECIPES}
ROWS = paper_settings.rows("data")
# Recipes that are ours: named here, or the table has all of their fields.
OURS = ("clism", "anchor_mrc_filled")


# --- docs/paper_settings.md -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_have_the_values_of_the_table_of_paper_settings(name: str) -> None:
    of_recipe = [row for row in ROWS if row.names(name)]
    assert paper_settings.differences(RECIPES[name], of_recipe) == []
    assert paper_settings.named_twice(of_recipe) == []


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in OURS])
def test_every_field_of_a_papers_recipe_has_a_row(name: str) -> None:
    assert paper_settings.uncovered(RECIPES[name], [row for row in ROWS if row.names(name)]) == []


def test_the_table_names_recipes_that_exist_and_explains_what_is_not_the_papers() -> None:
    assert paper_settings.unknown(ROWS, RECIPES) == [] == paper_settings.unexplained(ROWS)
    assert not [name for name in OURS if name.endswith("_paper")]


def test_a_recipe_that_leaves_the_table_is_noticed(tmp_path: Path) -> None:
    of_recipe = [row for row in ROWS if row.names("clism_paper")]
    changed = replace(CLISM_PAPER, masking=replace(CLISM_PAPER.masking, max_span_words=9), seed=7)
    found = paper_settings.differences(changed, of_recipe)
    assert [re.sub(r"line \d+: ", "", each) for each in found] == [
        "masking.max_span_words is 9, and `10` in the table",
        "seed is 7, and default in the table",
    ]
    fewer = [row for row in of_recipe if row.fields != ("masking.max_span_words",)]
    assert paper_settings.uncovered(CLISM_PAPER, fewer) == ["masking.max_span_words"]
    (row,) = (row for row in of_recipe if row.fields == ("masking.max_span_words",))
    assert paper_settings.unexplained([row._replace(ours="`9`", why="")]) == [f"line {row.line}"]


# --- clism_paper ------------------------------------------------------------------------------------------------------


def asked(source: list[str], target: list[str], mention: CharSpan, links: list[Link]) -> str:
    """What `clism_paper` makes of a mention, in words of the source: "asked", or the reason why it is refused."""

    def spans(words: list[str]) -> list[CharSpan]:
        starts = [sum(len(word) + 1 for word in words[:at]) for at in range(len(words))]
        return [CharSpan(start, start + len(word)) for start, word in zip(starts, words, strict=True)]

    pair = SentencePair("id", LanguagePair("en", "vi"), "news.en", 1, " ".join(source), " ".join(target))
    words = spans(source)
    entity = EntityMention(CharSpan(words[mention.start].start, words[mention.end - 1].end), "GPE")
    row = TokenizedPair(pair, words, spans(target), [entity])
    example, rejects = mask_mentions(row, links, CLISM_PAPER.masking)
    return "asked" if example else rejects[0].reason


def test_the_papers_recipe_leaves_out_spans_of_stop_words_alone() -> None:
    assert asked(["see", "this"], ["Huế", "đây"], CharSpan(1, 2), [Link(1, 0)]) == "only_stop_words"
    assert asked(["in", "Hue"], ["thì", "là"], CharSpan(1, 2), [Link(1, 0)]) == "only_stop_words"
    assert asked(["in", "Hue"], ["ở", "Huế"], CharSpan(1, 2), [Link(1, 1)]) == "asked"


@pytest.mark.parametrize(
    "source_words, target_words, expected",
    [(10, 10, "asked"), (11, 1, "mention_too_long"), (1, 11, "answer_too_long")],
)
def test_the_papers_recipe_leaves_out_spans_of_more_than_10(
    source_words: int, target_words: int, expected: str
) -> None:
    source, target = ([f"{side}{at}" for at in range(12)] for side in ("Saigon", "Sàigòn"))
    links = [Link(at % source_words, at % target_words) for at in range(12)]
    assert asked(source, target, CharSpan(0, source_words), links) == expected


def test_the_papers_recipe_has_no_other_filter_of_spans() -> None:
    inconsistent = [Link(1, 1, 0.01), Link(0, 1, 0.9), Link(1, 2, 0.01)]
    assert asked(["in", "Hanoi"], ["ở", "Hà", "Nội"], CharSpan(1, 2), inconsistent) == "asked"


def test_the_papers_recipe_refuses_pairs_for_their_length_alone() -> None:
    pair = SentencePair("id", LanguagePair("en", "vi"), "news.en", 1, "NATO", "NATO")
    assert text_reject(pair, CLISM_PAPER.filters) is None and text_reject(pair, CLISM.filters) == "identical_sides"
    assert length_reject(["word"] * 128, ["từ"], CLISM_PAPER.filters) is None
    assert length_reject(["word"] * 129, ["từ"], CLISM_PAPER.filters) == "too_long"


def test_the_papers_recipe_of_anchor_mrc_is_the_default() -> None:
    assert ANCHOR_MRC_RECIPES["anchor_mrc_paper"] == ANCHOR_MRC
    assert [ANCHOR_MRC.triplets.least_mentions(lang) for lang in ("en", "vi")] == [10, 5]
