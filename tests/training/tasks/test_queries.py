"""Table 6 of mPMR, example by example, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.mrc import PairExample, TaggingExample, problems
from schemas.spans import CharSpan
from training.tasks.catalog import TASKS
from training.tasks.columns import joined, located
from training.tasks.queries import pair_queries, pair_query, rationale_queries, span_query, tag_queries


def _sentence(words: str, tags: str, lang: str = "en") -> TaggingExample:
    text, tokens = joined(words.split(" "))
    return TaggingExample("1", lang, text, tokens, tuple(tags.split(" ")), "conll")


JAPAN = _sentence(
    "Two goals in the last six minutes gave holders Japan an uninspiring 2-1 Asian Cup victory over Syria on Friday .",
    "O O O O O O O O O B-LOC O O O B-MISC I-MISC O O B-LOC O O O",
)
PLACE = _sentence("Nice ambience , but highly overrated place .", "O B-POS O O O O B-NEG O")
TABACI = PairExample(
    "1",
    "en",
    "The Tabaci River is a tributary of the River Leurda in Romania .",
    "The Leurda River is a tributary of the River Tabaci in Romania .",
    "0",
    "paws_x",
)


def test_a_sentence_is_asked_for_every_label() -> None:
    queries = tag_queries(JAPAN, ("ORG", "PER", "LOC", "MISC"))

    assert [(each.label, each.query, each.answer_texts) for each in queries] == [
        (
            "ORG",
            '"ORG" . Organization entities are limited to named corporate, governmental, or other organizational '
            "entities.",
            (),
        ),
        ("PER", '"PER" . Person entities are named persons or family .', ()),
        (
            "LOC",
            '"LOC" . Location entities are the name of politically or geographically defined locations such as '
            "cities , countries .",
            ("Japan", "Syria"),
        ),
        (
            "MISC",
            '"MISC" . Examples of miscellaneous entities include events , nationalities , products and works of art .',
            ("Asian Cup",),
        ),
    ]
    assert {each.context for each in queries} == {JAPAN.text}
    assert queries[2].answers == (CharSpan(47, 52), CharSpan(95, 100))
    assert [each.answerable for each in queries] == [False, False, True, True]
    assert [problem for each in queries for problem in problems(each)] == []


def test_a_sentence_is_asked_for_every_sentiment() -> None:
    queries = tag_queries(PLACE, ("POS", "NEG", "NEU"))

    assert [(each.query, each.answer_texts) for each in queries] == [
        ('"POS" . For aspect terms of positive sentiment .', ("ambience",)),
        ('"NEG" . For aspect terms of negative sentiment .', ("place",)),
        ('"NEU" . For aspect terms of neutral sentiment .', ()),
    ]


def test_a_sentence_without_tags_is_asked_the_same() -> None:
    (query,) = tag_queries(replace(JAPAN, tags=()), ("LOC",))

    assert (query.query, query.context, query.answers) == (span_query("LOC"), JAPAN.text, ())


@pytest.mark.parametrize(
    "text, words, tags, answer",
    [
        ("在河内。", "在 河 内 。", "O B-LOC I-LOC O", "河内"),
        ("สมชายไปกรุงเทพ", "สม ชาย ไป กรุงเทพ", "O O O B-LOC", "กรุงเทพ"),
        ("يعيش في القاهرة الجديدة", "يعيش في القاهرة الجديدة", "O O B-LOC I-LOC", "القاهرة الجديدة"),
    ],
)
def test_queries_are_english_and_answers_the_texts_own(text: str, words: str, tags: str, answer: str) -> None:
    tokens = located(words.split(" "), text)
    assert tokens is not None

    (query,) = tag_queries(TaggingExample("1", "xx", text, tokens, tuple(tags.split(" ")), "wikiann"), ("LOC",))

    assert query.query.startswith('"LOC" . Location entities')
    assert query.answer_texts == (answer,)


def test_every_span_label_of_the_tasks_has_the_wording_of_table_6() -> None:
    labels = {label for task in TASKS.values() if task.kind == "tagging" for label in task.labels}

    assert not [label for label in labels if span_query(label).startswith(f'"{label}" . Entities of the type')]


def test_another_label_is_asked_for_by_its_name() -> None:
    assert span_query("creative-work") == '"creative-work" . Entities of the type creative work .'
    assert pair_query("unrelated") == "Unrelated . The relation of the hypothesis to the premise is unrelated ."


def test_a_pair_is_asked_for_every_label() -> None:
    contradiction, entailment = pair_queries(TABACI, TASKS["paws_x"].labels)

    assert (contradiction.label, contradiction.query) == (
        "0",
        "Contradiction . The hypothesis is a sentence with a contradictory meaning to the premise .",
    )
    assert (entailment.label, entailment.query) == (
        "1",
        "Entailment . The hypothesis is a sentence with a similar meaning as the premise .",
    )
    assert contradiction.context == entailment.context
    assert contradiction.context == (
        "Hypothesis : The Tabaci River is a tributary of the River Leurda in Romania . "
        "Premise : The Leurda River is a tributary of the River Tabaci in Romania ."
    )
    assert problems(contradiction) == []


def test_xnli_has_the_hypothesis_second() -> None:
    pair = PairExample("1", "en", "Anna lives in Hanoi .", "Anna lives .", "entailment", "xnli")

    queries = pair_queries(pair, TASKS["xnli"].labels)

    assert [each.query.split(" . ")[0] for each in queries] == ["Contradiction", "Entailment", "Neutral"]
    assert {each.context for each in queries} == {"Hypothesis : Anna lives . Premise : Anna lives in Hanoi ."}


def test_rationales_are_asked_of_either_sentence() -> None:
    first, second = rationale_queries(TABACI, "0")

    assert (first.label, first.query, first.context) == (
        "sentence1",
        f"Contradiction . {TABACI.sentence2}",
        TABACI.sentence1,
    )
    assert (second.label, second.query, second.context) == (
        "sentence2",
        f"Contradiction . {TABACI.sentence1}",
        TABACI.sentence2,
    )
