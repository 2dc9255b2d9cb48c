"""Triplets: texts cut out of articles, and examples made of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.steps.anchor_mrc.link_resolution import is_own_row, linked_articles, resolve_links
from pipelines.steps.anchor_mrc.stage_tables import ANSWERABLE, DEFINITION, TEXTS_SCHEMA, UNANSWERABLE, WANTED_SCHEMA
from pipelines.steps.anchor_mrc.triplets import TripletConfig, cut_texts, pair_texts
from schemas.anchor_mrc import problems
from schemas.errors import ConfigError
from tests.pipelines.steps.anchor_mrc.wiki_pages import WikiPage, pages_of, titles_of

# --- texts of one chunk ---------------------------------------------------------------------------

PAGES = pages_of(
    WikiPage("Dog (animal)", "The '''hound''' or dog is a pet that barks at night."),
    WikiPage("Anna", "Anna went home with her [[Dog (animal)|dog]] at seven, to [[Bonn]]."),
    WikiPage("Bonn", "The town of Bonn, where [[Anna]] was born, is old."),
    WikiPage("Fox", "A fox, which is not a Hound, saw [[Anna]] at home."),
)
TITLES = titles_of(PAGES)
LINKED = linked_articles(resolve_links(PAGES, TITLES, is_own_row(PAGES, TITLES, 0)), len(PAGES))
DOG = TITLES.resolve("Dog (animal)").article
NAMES = ["Dog (animal)", "Dog", "hound"]


def cut(kind: int, row: int, anchor: int = 0, position_hash: int = 0, **config) -> dict:
    wanted = {"entity": DOG, "kind": kind, "ordinal": 0, "row": row, "anchor": anchor, "position_hash": position_hash,
              "names": NAMES}  # fmt: skip
    tables = [pa.Table.from_pylist([wanted], WANTED_SCHEMA), WANTED_SCHEMA.empty_table()]
    (text,) = cut_texts(PAGES, LINKED, tables, "en", TripletConfig(**config)).to_pylist()
    return text


def test_a_definition_is_the_first_words_with_all_names_of_the_entity():
    text = cut(DEFINITION, row=0, query_words=5)
    assert text["text"] == "The hound or dog is"
    assert text["names"] == ["Dog (animal)", "Dog", "hound"]


@pytest.mark.parametrize("position_hash, before", [(0, 0), (1 << 63, 2), ((1 << 64) - 1, 4)])
def test_the_hash_decides_how_many_words_precede_the_anchor(position_hash, before):
    text = cut(ANSWERABLE, row=1, position_hash=position_hash, context_words=4)
    words = "Anna went home with her dog at seven , to Bonn .".split()
    expected = " ".join(words[5 - before : 5 + 1 + 4 - before])
    assert text["text"] == expected.replace(" ,", ",")
    assert text["words_before_drawn"] == text["words_before"] == before


def test_an_answerable_context_names_its_answers_and_its_page():
    text = cut(ANSWERABLE, row=1, position_hash=(1 << 64) - 1, context_words=4)
    start, end = text["answers"]
    assert text["text"][start:end] == text["anchor_text"] == "dog"
    assert (text["page_id"], text["revision_id"], text["title"], text["reject"]) == (2, 20, "Anna", None)


def test_an_unanswerable_context_comes_from_an_article_that_does_not_know_the_entity():
    text = cut(UNANSWERABLE, row=2, context_words=4)
    assert text["reject"] is None and text["anchor_text"] == "Anna" and text["text"].startswith("Anna was born")


@pytest.mark.parametrize("row, reason", [(1, "links_to_entity"), (3, "mentions_entity")])
def test_an_article_that_knows_the_entity_gives_no_unanswerable_context(row, reason):
    text = cut(UNANSWERABLE, row)
    assert (text["reject"], text["text"]) == (reason, "")


def test_a_chunk_of_which_nothing_is_wanted_gives_no_texts():
    table = cut_texts(PAGES, LINKED, [WANTED_SCHEMA.empty_table()], "en", TripletConfig())
    assert table.schema == TEXTS_SCHEMA and len(table) == 0


# --- examples of one entity -----------------------------------------------------------------------


def text(kind: int, ordinal: int = 0, **changes) -> dict:
    """Returns a row that makes an example; the query is "[MASK] is a pet that barks."."""
    texts = {
        DEFINITION: {"text": "Dog is a pet that barks.", "page_id": 1, "title": "Dog", "names": ["Dog"]},
        ANSWERABLE: {"text": "Anna has a dog.", "answers": [11, 14], "anchor_text": "dog", "page_id": 2},
        UNANSWERABLE: {"text": "Bonn is a town.", "answers": [0, 4], "anchor_text": "Bonn", "page_id": 3},
    }
    empty = {"text": "", "answers": [], "anchor_text": "", "words_before_drawn": 0, "words_before": 0, "page_id": 0,
             "revision_id": 0, "title": f"Page {kind}", "anchor": 0, "names": []}  # fmt: skip
    return {"entity": 5, "kind": kind, "ordinal": ordinal, "reject": None} | empty | texts[kind] | changes


def paired(*rows: dict, lang: str = "en"):
    examples, counts, rejects = pair_texts(pa.Table.from_pylist(list(rows), TEXTS_SCHEMA), lang)
    assert [problem for example in examples for problem in problems(example)] == []
    return examples, counts, [(reject.unit, reject.reason) for reject in rejects]


def test_a_mention_makes_an_answerable_and_an_unanswerable_example_of_one_query():
    examples, counts, rejects = paired(text(UNANSWERABLE), text(DEFINITION), text(ANSWERABLE))
    assert [example.answerable for example in examples] == [True, False] and rejects == []
    assert {example.query_text for example in examples} == {"[MASK] is a pet that barks."}
    assert [example.context_text for example in examples] == ["Anna has a dog.", "Bonn is a town."]
    assert examples[0].answers[0].of(examples[0].context_text) == examples[0].anchor_text == "dog"
    assert examples[1].answers == () and examples[1].anchor_text is None
    assert (counts.entities, counts.answerable, counts.unanswerable, counts.contexts_drawn) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"reject": "mentions_entity"}, "mentions_entity"),
        ({"reject": "links_to_entity"}, "links_to_entity"),
        ({"page_id": 1}, "definition_article"),
    ],
)
def test_an_unanswerable_context_that_cannot_be_used_is_rejected_and_the_next_one_is_taken(changes, reason):
    spare = text(UNANSWERABLE, 1, text="Rome is a town.", page_id=4)
    examples, counts, rejects = paired(text(DEFINITION), text(ANSWERABLE), text(UNANSWERABLE, **changes), spare)
    assert rejects == [("context", reason)]
    assert [example.context_text for example in examples] == ["Anna has a dog.", "Rome is a town."]
    assert (counts.contexts_drawn, counts.unanswerable) == (2, 1)


def test_an_answerable_example_is_made_even_if_no_unanswerable_context_is_left():
    examples, _, rejects = paired(text(DEFINITION), text(ANSWERABLE), text(UNANSWERABLE, reject="mentions_entity"))
    assert [example.answerable for example in examples] == [True] and rejects == [("context", "mentions_entity")]


def test_contexts_to_spare_are_counted_as_not_needed():
    _, counts, rejects = paired(
        text(DEFINITION), text(ANSWERABLE), *(text(UNANSWERABLE, number) for number in range(4))
    )
    assert counts.context_rejects == {"not_needed": 3} and rejects == []


def test_a_query_without_words_is_rejected_and_needs_no_unanswerable_context():
    examples, counts, rejects = paired(text(DEFINITION, text="Dog."), text(ANSWERABLE), text(UNANSWERABLE))
    assert examples == [] and rejects == [("mention", "query_has_no_words")]
    assert counts.entities == 0 and counts.context_rejects == {"not_needed": 1}


def test_a_query_that_shows_the_anchor_inside_a_word_is_rejected():
    definition = text(DEFINITION, text="東京都は日本の首都である。", names=["古都"], title="古都")
    mention = text(ANSWERABLE, text="彼は京都に住む。", answers=[2, 4], anchor_text="京都")
    examples, _, rejects = paired(definition, mention, lang="ja")  # the word is 東京, not 京都
    assert examples == [] and rejects == [("mention", "query_contains_anchor")]


@pytest.mark.parametrize("name", ["query_words", "context_words", "per_entity"])
def test_a_configuration_that_cannot_work_is_refused(name):
    with pytest.raises(ConfigError, match=rf"--triplets\.{name.replace('_', '-')} 0: expected at least 1"):
        TripletConfig(**{name: 0})


@pytest.mark.parametrize("lang, least", [("en", 10), ("vi", 5)])
def test_the_least_number_of_mentions_depends_on_the_language(lang, least):
    assert TripletConfig().least_mentions(lang) == least
    assert TripletConfig(min_mentions=3).least_mentions(lang) == 3
