from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import yaml  # which `datasets` needs
from hypothesis import given
from hypothesis import strategies as st

from schemas.anchor_mrc import (
    ARROW_SCHEMA,
    MASK_TOKEN,
    AnchorCounts,
    AnchorMrcExample,
    ArticleRef,
    problems,
    query_holds,
)
from schemas.card import dataset_card
from schemas.errors import DatasetError
from schemas.inspection.anchor_mrc_view import render_example
from schemas.inspection.cli import main
from schemas.inspection.statistics import statistics
from schemas.manifest import Manifest, load
from schemas.shards import read_examples, read_rejects
from schemas.spans import CharSpan
from schemas.verification import find_problems

GOLDEN = Path(__file__).parents[1] / "golden" / "anchor_mrc-1"
EXAMPLE = AnchorMrcExample(
    id="8f",
    lang="en",
    entity="Hanoi",
    query_text="[MASK] is the capital of Vietnam. [MASK]!",
    query_mask_spans=(CharSpan(0, 6), CharSpan(34, 40)),
    context_text="Anna came to Hanoi in 1999. Hanoi!",
    answers=(CharSpan(13, 18), CharSpan(28, 33)),
    answerable=True,
    anchor_text="Hanoi",
    words_before_drawn=120,
    words_before_anchor=3,
    definition_article=ArticleRef(56, 560, "Hanoi"),
    mention_article=ArticleRef(7, 78, "Anna"),
)
NONE = replace(EXAMPLE, context_text="The sea is salty.", answers=(), answerable=False, anchor_text=None)


# --- one example -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", [EXAMPLE, NONE])
def test_an_example_comes_back_from_a_row_as_it_was(example):
    (row,) = pa.Table.from_pylist([example.to_row()], schema=ARROW_SCHEMA).to_pylist()
    assert AnchorMrcExample.from_row(row) == example
    assert list(example.to_row()) == ARROW_SCHEMA.names
    assert problems(example) == []


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"id": ""}, "id is empty"),
        ({"answers": (CharSpan(13, 18), CharSpan(28, 90))}, "answer 1: [28, 90) lies outside context_text"),
        ({"answers": (CharSpan(13, 13),)}, "answer 0: [13, 13) lies outside context_text, or is empty"),
        ({"answers": EXAMPLE.answers[::-1]}, "answer 1: overlaps the one before, or is out of order"),
        ({"answers": EXAMPLE.answers[:1] * 2}, "answer 1: overlaps the one before, or is out of order"),
        ({"answers": (CharSpan(12, 17),)}, "answer 0: ' Hano' is not anchor_text 'Hanoi'"),
        ({"answers": ()}, "answerable is True, but it has 0 answers"),
        ({"answerable": False}, "answerable is False, but it has 2 answers"),
        ({"answerable": False, "answers": ()}, "answerable is False, but anchor_text is 'Hanoi'"),
        ({"anchor_text": None}, "answerable is True, but anchor_text is None"),
        ({"query_mask_spans": (CharSpan(-1, 5),)}, "mask 0: [-1, 5) lies outside query_text"),
        ({"query_mask_spans": (CharSpan(0, 5),)}, "mask 0: query_text holds '[MASK' there, not [MASK]"),
        ({"query_mask_spans": EXAMPLE.query_mask_spans[::-1]}, "mask 1: overlaps the one before, or is out of order"),
        ({"query_text": "[MASK] is HANOI, capital of Viet. [MASK]!"}, "query_text holds anchor_text 'Hanoi' outside"),
        ({"words_before_anchor": -1}, "words_before_anchor is negative"),
        ({"entity": "hanoi"}, "entity 'hanoi' is not the title of definition_article"),
        ({"mention_article": ArticleRef(56, 560, "Hanoi")}, "query and context come from the same article"),
    ],
)
def test_an_example_that_breaks_the_contract_says_how(changes, said):
    assert any(said in problem for problem in problems(replace(EXAMPLE, **changes)))


@pytest.mark.parametrize(
    "phrase, query, lang, held",
    [
        ("art", "An artist of many arts.", "en", False),  # parts of other words
        ("art", "State-of-the-ART!", "en", True),
        ("New York", "In new\u00a0york.", "en", True),
        ("राम", "रामायण", "hi", False),  # a vowel sign goes on with the word
        ("राम", "राम।", "hi", True),
        ("日", "日本", "ja", True),  # where words are not spaced, nobody can say that it is part of another
        ("mask", "A [MASK] b.", "en", True),  # not a mask, but the article's own
        ("", "Any.", "en", False),
    ],
)
def test_a_query_holds_a_phrase_as_a_reader_would_find_it(phrase, query, lang, held):
    assert query_holds(phrase, query, (), lang) == held


def test_what_stands_under_a_mask_is_not_held():
    assert not query_holds("mask", "A [MASK] b.", (CharSpan(2, 8),), "en")
    assert query_holds("b", "A [MASK]b.", (CharSpan(2, 8),), "en")  # a mask is no letter


@given(st.text("ab A.", max_size=12), st.text("abA", min_size=1, max_size=2), st.integers(0, 12))
def test_holding_is_being_one_of_the_words_outside_the_masks(text, phrase, place):
    place = min(place, len(text))
    query = text[:place] + MASK_TOKEN + text[place:]
    words = re.findall(r"\w+", text[:place]) + re.findall(r"\w+", text[place:])
    held = phrase.lower() in [word.lower() for word in words]
    assert query_holds(phrase, query, (CharSpan(place, place + len(MASK_TOKEN)),), "en") == held


# --- counts ----------------------------------------------------------------------------------------------------------


def test_every_ledger_of_a_language_adds_up_or_says_where_not():
    whole = AnchorCounts(9, 6, {"redirect": 3}, 20, 17, {"red_link": 3}, {"redirect": 4}, 5, {"rare_entity": 12}, 2, 2)
    assert whole.problems() == []
    assert whole.examples == 7
    doubled = whole + whole
    assert (doubled.pages_read, doubled.links_saved_by, doubled.examples) == (18, {"redirect": 8}, 14)
    for name, said in {
        "articles": "9 pages read, but 5 articles + 3 rejects = 8",
        "mentions": "20 links found, but 16 mentions + 3 rejects = 19",
        "answerable": "17 mentions, but 4 answerable + 12 rejects = 16",
        "unanswerable": "2 contexts drawn, but 1 unanswerable + 0 rejects = 1",
    }.items():
        assert said in replace(whole, **{name: getattr(whole, name) - 1}).problems()


def test_rejects_are_counted_under_their_unit():
    assert AnchorCounts().with_rejects("link", {"red_link": 2}) == AnchorCounts(link_rejects={"red_link": 2})
    with pytest.raises(ValueError, match="one of page, link, mention, context; found 'pair'"):
        AnchorCounts().with_rejects("pair", {"no_mention": 1})


def test_the_manifest_knows_the_counts_of_its_schema(anchors):
    text = (anchors / "manifest.json").read_text(encoding="utf-8")
    index = Manifest.from_json(text)
    assert isinstance(index.totals, AnchorCounts)
    assert index.to_json() == text
    with pytest.raises(DatasetError, match=r"counts\['ar'\] lacks pairs_read"):
        Manifest.from_json(text.replace("anchor_mrc/1", "clism/1"))


# --- datasets --------------------------------------------------------------------------------------------------------


def test_the_golden_dataset_of_anchor_mrc_1_is_still_read(golden_anchors):
    examples = golden_anchors.examples()
    assert list(read_examples(GOLDEN, verify=True)) == examples
    assert [problems(example) for example in examples] == [[]] * 17
    assert sum(batch.num_rows for batch in read_rejects(GOLDEN)) == 4 * 8
    assert list(find_problems(GOLDEN)) == []


def test_the_golden_dataset_is_still_written_byte_for_byte(golden_anchors, tmp_path):
    golden_anchors.write(tmp_path)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) == 5
    for file in files:
        assert (tmp_path / file).read_bytes() == (GOLDEN / file).read_bytes(), file


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"answers": (CharSpan(4, 9),)}, "row 4 (id 00000000000000000005): answerable is False, but it has 1 answers"),
        ({"query_text": "[MASK] is at sea. So is [MASK] "}, "holds"),
        ({"lang": "xx"}, "xx has no counts in the manifest"),
        ({"entity": "Huế"}, "en: the manifest counts 2 entities, but the shards hold 3"),
        ({"lang": "sw"}, "en: the manifest counts 1 unanswerable, but the shards hold 0"),
    ],
)
def test_verify_finds_rows_that_break_the_contract_or_are_not_those_counted(golden_anchors, tmp_path, changes, said):
    rows = golden_anchors.examples()
    rows[4] = replace(rows[4], **changes)
    counts = golden_anchors.counts_of(golden_anchors.examples())
    manifest = golden_anchors.write(tmp_path, rows)
    (tmp_path / "manifest.json").write_text(replace(manifest, counts=counts).to_json(), encoding="utf-8")
    assert any(said in problem for problem in find_problems(tmp_path))


def test_verify_finds_a_query_that_contains_its_anchor(golden_anchors, tmp_path):
    rows = golden_anchors.examples()
    rows[3] = replace(rows[3], query_text=rows[3].query_text.replace("big", "HANOI"))
    golden_anchors.write(tmp_path, rows)
    (problem,) = find_problems(tmp_path)
    assert "row 3 (id 00000000000000000004): query_text holds anchor_text 'Hanoi' outside its masks" in problem


def test_a_reject_that_was_not_counted_is_found(golden_anchors, tmp_path):
    manifest = golden_anchors.write(tmp_path)
    counts = {**manifest.counts, "en": replace(manifest.counts["en"], context_rejects={}, contexts_drawn=1)}
    (tmp_path / "manifest.json").write_text(replace(manifest, counts=counts).to_json(), encoding="utf-8")
    (problem,) = find_problems(tmp_path)
    assert problem == "en: 1 context rejects mentions_entity are kept, but the manifest counts 0"


# --- what people see -------------------------------------------------------------------------------------------------


def test_an_example_is_shown_with_its_masks_and_answers_marked():
    assert render_example(EXAMPLE) == (
        "en  Hanoi  8f\n"
        "  query    ⟦?⟧ is the capital of Vietnam. ⟦?⟧!\n"
        "  context  Anna came to ⟦Hanoi⟧ in 1999. ⟦Hanoi⟧!\n"
        "  answers  2; words before the anchor: 3 (drawn: 120)\n"
        "  from     Hanoi (page 56, revision 560) · Anna (page 7, revision 78)\n"
    )
    assert "  answers  unanswerable; words before the cut: 3 (drawn: 120)\n" in render_example(NONE)


def test_marks_in_right_to_left_text_are_isolated_and_coloured(golden_anchors):
    arabic = golden_anchors.examples()[0]
    lines = render_example(arabic).splitlines()
    assert lines[2] == "  context  \u2068سافرت آنا إلى \u2068⟦القاهرة⟧\u2069 أمس.\u2069"
    assert all(line.count("\u2068") == line.count("\u2069") for line in lines)
    coloured = render_example(arabic, color=True)
    assert [line.count("\x1b[1;32m") for line in coloured.splitlines()] == [0, 1, 1, 0, 0]


def test_text_cannot_steer_the_terminal():
    hostile = replace(EXAMPLE, entity="a\x1b[2Jb", query_text="[MASK]\x1b \u202e", context_text="\x9b\x07" * 20)
    hostile = replace(hostile, mention_article=ArticleRef(1, 2, "\x1b]0;"))
    assert not set(render_example(hostile)) & {"\x1b", "\x07", "\u202e", "\x9b"}


def shown_ids(capsys, *arguments: str) -> list[int]:
    assert main(["show", *arguments, "--count", "100"]) == 0
    return sorted(int(found, 16) for found in re.findall(r"[0-9a-f]{20}", capsys.readouterr().out))


def test_examples_of_one_language_and_of_one_kind(anchors, capsys):
    assert shown_ids(capsys, str(anchors)) == list(range(1, 18))
    assert shown_ids(capsys, str(anchors), "--lang", "en") == [3, 4, 5]
    assert shown_ids(capsys, str(anchors), "--lang", "en", "--answerable") == [3, 4]
    assert shown_ids(capsys, str(anchors), "--lang", "en", "--unanswerable") == [5]


@pytest.mark.parametrize("unit, reason", [("page", "bad_page"), ("context", "mentions_entity")])
def test_rejects_of_every_unit_are_shown(anchors, capsys, unit, reason):
    assert main(["show", str(anchors), "--rejects", reason, "--lang", "sw"]) == 0
    sentence = AnchorCounts.REJECT_REASONS[unit][reason]
    assert capsys.readouterr().out == f"sw  goldenwiki:103  {103:020x}\n  {unit}: {reason}. {sentence}\n  Hello.\n"


def test_what_is_not_there_ends_with_a_message(anchors, dataset, capsys):
    assert main(["show", str(anchors), "--lang", "se"]) == 2
    assert "the dataset has no language 'se'. It has: ar, en, hi, sw" in capsys.readouterr().err
    assert main(["show", str(dataset), "--unanswerable"]) == 2
    assert "clism/1 does not say what is answerable" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["show", str(anchors), "--answerable", "--unanswerable"])


def test_statistics_agree_with_counting_by_hand(golden_anchors, tmp_path):
    plain = golden_anchors.examples()
    rows = [
        replace(plain[n % 17], id=f"{n:020x}", context_text=plain[n % 17].context_text + " x" * (n % 11))
        for n in range(5000)  # more than one batch
    ]
    golden_anchors.write(tmp_path, rows)
    numbers = statistics(tmp_path)
    assert list(numbers["languages"]) == ["ar", "en", "hi", "sw", "th", "tr", "vi", "zh"]
    for lang, found in numbers["languages"].items():
        own = [row for row in rows if row.lang == lang]
        answers = [(row.context_text, span) for row in own for span in row.answers]
        middles = [(span.start + span.end) / 2 / len(text) for text, span in answers]
        assert found["examples"] == len(own)
        assert found["entities"] == len({row.entity for row in own})
        assert found["answers_per_example"] == Counter(str(len(row.answers)) for row in own if row.answers)
        assert found["masks_per_query"] == Counter(str(len(row.query_mask_spans)) for row in own)
        assert found["answer_chars"]["max"] == max(span.end - span.start for _, span in answers)
        assert found["answer_position_deciles"] == [sum(int(m * 10) == d for m in middles) for d in range(10)]
        for kind, wanted in (("answerable", True), ("unanswerable", False)):
            alike = [row for row in own if row.answerable == wanted]
            for name, values in {
                "context_chars": [len(row.context_text) for row in alike],
                "words_before_drawn": [row.words_before_drawn for row in alike],
                "words_before_anchor": [row.words_before_anchor for row in alike],
            }.items():
                summary = found[name][kind]
                assert (summary["min"], summary["max"]) == (min(values), max(values))
                assert summary["mean"] == pytest.approx(sum(values) / len(values), abs=1e-3)


def test_stats_are_printed_as_text_and_as_json(anchors, capsys):
    assert main(["stats", str(anchors)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("wiki: anchor_mrc/1, 17 examples, 2 shards")
    assert re.search(r"^language +entities +answerable +unanswerable +examples$", text, re.MULTILINE)
    assert re.search(r"^en +2 +2 +1 +3$", text, re.MULTILINE)
    assert re.search(r"^all +9 +9 +8 +17$", text, re.MULTILINE)
    assert "en  7 pages read → 6 articles (85.7% kept)\n" in text
    assert "  3 mentions → 2 answerable (66.7% kept)\n" in text
    assert re.search(r"rare_entity +1 +33\.3%", text)
    assert "links saved by       first_letter: 1 (33.3%)" in text
    assert main(["stats", str(anchors), "--json", "--lang", "en"]) == 0
    assert json.loads(capsys.readouterr().out) == statistics(anchors, "en")
    assert main(["stats", str(anchors), "--lang", "en"]) == 0
    assert "\nall " not in capsys.readouterr().out  # which would be more than what was asked for


def test_verify_says_what_it_looked_at(anchors, capsys):
    assert main(["verify", str(anchors)]) == 0
    assert capsys.readouterr().out.startswith("wiki: ok, 17 examples (9 answerable) of 9 entities in 2 shards")


def test_the_card_names_the_source_and_its_license(anchors):
    card = dataset_card(load(anchors))
    assert yaml.safe_load(card.split("---\n")[1]) == {
        "language": ["ar", "en", "hi", "sw", "th", "tr", "vi", "zh"],
        "license": "cc-by-sa-4.0",
        "task_categories": ["question-answering"],
        "size_categories": ["n<1K"],
        "tags": ["polyspan", "anchor_mrc", "machine-reading-comprehension", "span-extraction", "wikipedia"],
        "configs": [{"config_name": "default", "data_files": "data/*.arrow"}],
    }
    assert re.search(r"Wikipedia.*CC BY-SA 4\.0.*page id and revision", card, re.DOTALL)
    assert "| `en` | 2 | 3 | 2 | 1 | 6 |" in card
    assert "| all | 9 | 17 | 9 | 8 | 34 |" in card
    assert "| mention | `rare_entity` | 8 | 47.1% |" in card


def test_the_example_on_the_card_keeps_the_contract(anchors):
    card = dataset_card(load(anchors))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .*? \|$", card, re.MULTILINE))
    (start, end), mask = (tuple(map(int, re.findall(r"\d+", rows[name]))) for name in ("answers", "query_mask_spans"))
    assert rows["context_text"][start:end] == rows["anchor_text"]
    assert rows["query_text"][slice(*mask)] == MASK_TOKEN
