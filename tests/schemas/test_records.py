"""Labelled records and candidates as datasets: the golden ones; looked at, counted, verified."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from schemas import candidates, mrc
from schemas.candidates import Candidate, CandidateCounts, CandidateSet
from schemas.card import dataset_card
from schemas.catalog import SCHEMAS
from schemas.inspection.candidates_view import render_example
from schemas.inspection.cli import main
from schemas.inspection.records_view import render_pair, render_question, render_sentence
from schemas.inspection.statistics import statistics
from schemas.manifest import Manifest, load
from schemas.mrc import RecordCounts
from schemas.shards import read_examples, read_rejects
from schemas.spans import CharSpan
from schemas.verification import find_problems

GOLDEN = Path(__file__).parents[1] / "golden"
LANGS = {"candidates/1": 3, "mrc/1": 5, "pair/1": 3, "tagging/1": 4}
FSI, PDI = "\u2068", "\u2069"
SET = CandidateSet("q2", "en", (Candidate(2, 6, 0.5), Candidate(16, 21, 0.25)), 2)


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", LANGS)
def test_the_golden_datasets_are_still_read(golden_records, schema):
    folder = GOLDEN / schema.replace("/", "-")
    assert list(read_examples(folder, verify=True)) == golden_records.EXAMPLES[schema]()
    assert sum(batch.num_rows for batch in read_rejects(folder)) == LANGS[schema]
    assert list(find_problems(folder)) == []


@pytest.mark.parametrize("schema", LANGS)
def test_the_golden_datasets_are_still_written_byte_for_byte(golden_records, tmp_path, schema):
    golden_records.write(tmp_path, schema)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) == 5
    for file in files:
        assert (tmp_path / file).read_bytes() == (GOLDEN / schema.replace("/", "-") / file).read_bytes(), file


def test_the_golden_dataset_of_the_second_version_is_still_read_and_written_byte_for_byte(golden_records, tmp_path):
    folder = GOLDEN / "mrc-2"
    assert list(read_examples(folder, verify=True)) == golden_records.questions_2()
    assert list(find_problems(folder)) == []
    golden_records.write(tmp_path, "mrc/2")
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) == 5
    assert all((tmp_path / file).read_bytes() == (folder / file).read_bytes() for file in files)


@pytest.mark.parametrize(
    "row, changes, said",
    [
        (2, {"answers": ()}, "de: the manifest counts 3 labels_kept, but the shards hold 2"),
        (1, {"query_lang": None}, "lang de, id q1 occurs in 2 rows"),
        (2, {"id": "q1"}, "lang de, query_lang es, id q1 occurs in 2 rows"),
        (0, {"query_lang": "de"}, "row 0 (id q1): query_lang is de, as lang"),
    ],
)
def test_verify_knows_questions_by_both_languages_and_counts_their_labels(golden_records, tmp_path, row, changes, said):
    rows = golden_records.questions_2()
    index = golden_records.write(tmp_path, "mrc/2", shards=1)
    rows[row] = replace(rows[row], **changes)
    shard = golden_records.write_file(tmp_path, index.shards[0].file, "mrc/2", rows)
    (tmp_path / "manifest.json").write_text(replace(index, shards=(shard,)).to_json(), encoding="utf-8")
    assert any(said in problem for problem in find_problems(tmp_path))


@pytest.mark.parametrize("schema", ["pair/1", "tagging/1"])
def test_verify_counts_the_labels_of_every_kind(golden_records, tmp_path, schema):
    index = golden_records.write(tmp_path, schema)
    labels = Counter()
    for each in golden_records.EXAMPLES[schema]():
        labels[each.lang] += mrc.labels_in(each)
    for wrong, said in ((0, []), (1, [f"vi: the manifest counts {labels['vi'] + 1} labels_kept, but the shards hold"])):
        counts = {
            lang: of + RecordCounts(0, 0, {}, labels[lang] + wrong, labels[lang] + wrong)
            for lang, of in index.counts.items()
        }
        (tmp_path / "manifest.json").write_text(replace(index, counts=counts).to_json(), encoding="utf-8")
        found = list(find_problems(tmp_path))
        assert len(found) == wrong * len(counts) and all(any(each in one for one in found) for each in said)


def test_manifests_without_labels_are_read_and_written_as_they_were():
    index = load(GOLDEN / "tagging-1")
    assert index.totals.labels_found == 0 and "labels" not in index.to_json()
    assert "label" not in dataset_card(index)
    with_labels = replace(
        index, counts={**index.counts, "vi": RecordCounts(2, 1, {"breaks_contract": 1}, 3, 2, {"x": 1})}
    )
    assert Manifest.from_json(with_labels.to_json()) == with_labels
    assert "| label | `x` | 1 | 33.3% |" in dataset_card(with_labels)
    assert with_labels.problems() == []
    broken = replace(index, counts={**index.counts, "vi": RecordCounts(2, 1, {"breaks_contract": 1}, 3, 2)})
    assert broken.problems() == ["vi: 3 labels found, but 2 labels kept + 0 rejects = 2"]


def test_accounts_are_sentences():
    counts = RecordCounts(1_190, 1_188, {"breaks_contract": 2}, 3_000, 2_990, {"answer_elsewhere": 8, "null": 2})
    assert counts.accounts() == [
        "1,190 records read = 1,188 examples + 2 refused (breaks_contract 2)",
        "3,000 labels found = 2,990 labels kept + 10 refused (answer_elsewhere 8, null 2)",
    ]
    assert RecordCounts(3, 3).accounts() == ["3 records read = 3 examples + 0 refused"]


def test_a_question_asked_in_another_language_says_so(golden_records, capsys):
    assert render_question(golden_records.questions_2()[2]).startswith(
        "de, asked in es  golden  q1#2  (published as q1)\n"
    )
    assert main(["stats", str(GOLDEN / "mrc-2"), "--lang", "hi"]) == 0
    told = capsys.readouterr().out
    assert "2 labels found → 1 labels kept (50.0% kept)\n    answer_elsewhere" in told and "asked in" in told
    assert main(["stats", str(GOLDEN / "mrc-1")]) == 0
    assert "labels found" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"id": ""}, "id is empty"),
        ({"candidates": (Candidate(3, 3, 0.5),), "gold_rank": None}, "candidate 1 is no span: [3, 3)"),
        ({"candidates": (Candidate(3, 4, 1.5),), "gold_rank": None}, "candidate 1: score 1.5 is not in 0..1"),
        ({"candidates": (Candidate(3, 4, float("nan")),), "gold_rank": None}, "score nan is not in 0..1"),
        ({"candidates": SET.candidates[::-1]}, "not in the order of their scores"),
        ({"candidates": (Candidate(2, 6, 0.5), Candidate(2, 6, 0.25))}, "a candidate occurs twice"),
        ({"gold_rank": 3}, "gold_rank is 3, but there are 2 candidates"),
        ({"gold_rank": 0}, "gold_rank is 0"),
    ],
)
def test_candidates_that_break_the_contract_say_how(changes, said):
    assert candidates.problems(SET) == []
    assert [said in found for found in candidates.problems(replace(SET, **changes))] == [True]


@pytest.mark.parametrize(
    "rank, hits", [(None, (0, 0, 0, 0, 0)), (1, (1, 1, 1, 1, 1)), (4, (0, 0, 1, 1, 1)), (21, (0, 0, 0, 0, 0))]
)
def test_an_answer_at_a_rank_is_found_among_so_many(rank, hits):
    counts = replace(SET, gold_rank=rank).counts
    assert tuple(counts.hits.values()) == hits
    assert tuple((counts + counts).hits.values()) == tuple(2 * hit for hit in hits)
    assert counts.problems() == []


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema, row, changes, said",
    [
        ("mrc/1", 1, {"answers": (CharSpan(2, 6),)}, "row 1 (id q2): answer 'Anna' is none of answer_texts"),
        ("mrc/1", 1, {"lang": "xx"}, "xx has no counts in the manifest"),
        ("tagging/1", 1, {"tags": ("O",)}, "row 1 (id s2): 7 tokens, but 1 tags"),
        ("pair/1", 1, {"task": ""}, "row 1 (id p2): task is empty"),
        ("pair/1", 1, {"id": "p3"}, "lang en, id p3 occurs in 2 rows"),
        ("candidates/1", 1, {"gold_rank": 9}, "row 1 (id q2): gold_rank is 9"),
        ("candidates/1", 1, {"gold_rank": 1}, "en: the manifest counts 0 hits_at_1, but the shards hold 1"),
    ],
)
def test_verify_finds_rows_that_break_the_contract_or_are_not_those_counted(
    golden_records, tmp_path, schema, row, changes, said
):
    rows = golden_records.EXAMPLES[schema]()
    index = golden_records.write(tmp_path, schema, shards=1)
    rows[row] = replace(rows[row], **changes)
    shard = golden_records.write_file(tmp_path, index.shards[0].file, schema, rows)
    (tmp_path / "manifest.json").write_text(replace(index, shards=(shard,)).to_json(), encoding="utf-8")
    assert any(said in problem for problem in find_problems(tmp_path))


def test_parallel_records_have_one_id_in_every_language(golden_records, tmp_path):
    rows = [replace(golden_records.pairs()[1], lang=lang) for lang in ("de", "en", "fr")]
    golden_records.write(tmp_path, "pair/1", rows)
    assert list(find_problems(tmp_path)) == []


def test_candidates_are_known_by_their_place(golden_records, tmp_path):
    golden_records.write(tmp_path, "candidates/1", [SET, SET])
    assert list(find_problems(tmp_path)) == []


@pytest.mark.parametrize("schema", LANGS)
def test_a_damaged_shard_is_named(golden_records, tmp_path, capsys, schema):
    golden_records.write(tmp_path, schema)
    path = tmp_path / "data/part-00001-of-00002.arrow"
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["verify", str(tmp_path)]) == 1
    assert "part-00001-of-00002.arrow: expected" in capsys.readouterr().out


# --- show ------------------------------------------------------------------------------------------------------------


def test_a_question_is_shown_with_its_answers_marked(golden_records):
    rows = golden_records.questions()
    assert render_question(rows[1]) == (
        "en  golden  q2\n"
        "  query    Where does Anna live?\n"
        "  context  😀 Anna lives in ⟦Hanoi⟧, yes, ⟦Hanoi⟧.\n"
        "  answers  Hanoi | the city of Hanoi\n"
    )
    assert render_question(rows[2]).endswith("  answers  none: unanswerable\n")
    assert render_question(rows[4]).startswith("en  golden  LOC  q5\n")
    assert f"context  {FSI}تعيش آنا في {FSI}⟦هانوي⟧{PDI}.{PDI}\n" in render_question(rows[0])


def test_of_answers_that_overlap_the_longest_is_marked(golden_records):
    row = replace(golden_records.questions()[1], answers=(CharSpan(16, 21), CharSpan(13, 21), CharSpan(13, 21)))
    assert "Anna lives ⟦in Hanoi⟧, yes, Hanoi." in render_question(row)


def test_a_sentence_is_shown_with_its_entities_marked(golden_records):
    rows = golden_records.sentences()
    assert render_sentence(rows[1]) == (
        "en  golden  s2\n  text   😀 ⟦PER Anna Lee⟧ lives in ⟦LOC Hanoi⟧.\n  words  7, entities 2\n"
    )
    assert "words  3, no tags" in render_sentence(rows[3])
    assert "她住在⟦LOC 北京⟧。" in render_sentence(rows[5])
    coloured = render_sentence(rows[1], color=True)
    assert "\x1b[1;32m⟦LOC Hanoi⟧\x1b[0m" in coloured and "\x1b[1;33m⟦PER Anna Lee⟧\x1b[0m" in coloured
    beside = replace(rows[1], tags=("O", "B-PER", "B-PER", "O", "O", "I-LOC", "O"))  # the last breaks the contract
    assert "⟦PER Anna⟧ ⟦PER " in render_sentence(beside)


def test_pairs_and_candidates_are_shown(golden_records):
    assert render_pair(golden_records.pairs()[3]).endswith("  label      none\n")
    assert render_example(SET) == "en  q2\n  1  [2, 6)  0.500\n  2  [16, 21)  0.250  true answer\n"
    assert render_example(replace(SET, gold_rank=None)).endswith("  no true answer among them\n")


def test_text_cannot_steer_the_terminal(golden_records):
    hostile = "\x1b]0;\x07\u202e"
    question = replace(golden_records.questions()[2], id=hostile, query=hostile, context=hostile, task=hostile)
    sentence = replace(golden_records.sentences()[3], id=hostile, text=hostile, task=hostile)
    pair = replace(golden_records.pairs()[0], id=hostile, sentence1=hostile, label=hostile, task=hostile)
    for text in (render_question(question), render_sentence(sentence), render_pair(pair)):
        assert not set(text) & set(hostile[:1] + hostile[-2:])


@pytest.mark.parametrize("schema", LANGS)
def test_records_are_shown_by_language_and_id(golden_records, tmp_path, capsys, schema):
    golden_records.write(tmp_path, schema)
    example = golden_records.EXAMPLES[schema]()[1]
    assert main(["show", str(tmp_path), "--lang", "en", "--id", example.id]) == 0
    assert example.id in capsys.readouterr().out.splitlines()[0]
    assert main(["show", str(tmp_path), "--rejects", "breaks_contract", "--lang", "en"]) == 0
    assert "record: breaks_contract" in capsys.readouterr().out


def test_unanswerable_questions_are_shown_alone(golden_records, tmp_path, capsys):
    golden_records.write(tmp_path / "mrc", "mrc/1")
    assert main(["show", str(tmp_path / "mrc"), "--unanswerable"]) == 0
    assert re.findall(r"q\d", capsys.readouterr().out) == ["q3"]
    golden_records.write(tmp_path / "pair", "pair/1")
    assert main(["show", str(tmp_path / "pair"), "--unanswerable"]) == 2
    assert "pair/1 does not say what is answerable" in capsys.readouterr().err


# --- stats -----------------------------------------------------------------------------------------------------------


def test_statistics_agree_with_counting_by_hand(golden_records, tmp_path):
    plain = golden_records.questions()
    rows = [replace(plain[n % 8], id=f"{n}", context=plain[n % 8].context + " x" * (n % 11)) for n in range(5000)]
    golden_records.write(tmp_path, "mrc/1", rows)  # more than one batch
    for lang, found in statistics(tmp_path)["languages"].items():
        own = [row for row in rows if row.lang == lang]
        answers = [(row.context, span) for row in own for span in row.answers]
        middles = [(span.start + span.end) / 2 / len(text) for text, span in answers]
        assert (found["examples"], found["records_read"]) == (len(own), len(own) + 1)
        assert found["answers_per_question"] == Counter(str(len(row.answer_texts)) for row in own)
        assert found["answer_position"] == [sum(int(m * 10) == tenth for m in middles) for tenth in range(10)]
        assert found["answer_chars"]["max"] == max(span.end - span.start for _, span in answers)
        assert found["context_chars"]["mean"] == pytest.approx(sum(len(r.context) for r in own) / len(own), abs=1e-3)
        assert found.get("labels") == ({"LOC": len(own) // 4} if lang == "en" else None)


def test_entities_labels_and_recall_are_counted(golden_records, tmp_path, capsys):
    for schema in LANGS:
        golden_records.write(tmp_path / schema, schema)
    assert statistics(tmp_path / "tagging/1", "en")["languages"]["en"]["entities"] == {"LOC": 1, "PER": 1}
    assert statistics(tmp_path / "pair/1")["languages"]["en"]["labels"] == {"0": 1, "1": 1, "none": 1}
    assert main(["stats", str(tmp_path / "candidates/1")]) == 0
    text = capsys.readouterr().out
    assert "candidates for 3 questions, 2 shards" in text
    assert "recall                   @1 0.0% · @3 100.0% · @5 100.0%" in text.partition("en  ")[2]
    assert main(["stats", str(tmp_path / "pair/1"), "--json", "--lang", "vi"]) == 0
    assert json.loads(capsys.readouterr().out) == statistics(tmp_path / "pair/1", "vi")


# --- the card --------------------------------------------------------------------------------------------------------


def test_the_card_counts_and_says_whose_the_texts_are():
    card = dataset_card(load(GOLDEN / "mrc-1"))
    assert "| `en` | 5 | 4 | 80.0% |" in card
    assert "| all | 13 | 8 | 61.5% |" in card
    assert "| record | `breaks_contract` | 5 | 38.5% |" in card
    assert "under the license of those files" in card
    assert "| `en` | 1 | 0.0% | 100.0% | 100.0%" in dataset_card(load(GOLDEN / "candidates-1"))


def test_the_examples_on_the_cards_keep_the_contract():
    def rows(schema):
        card = dataset_card(load(GOLDEN / schema))
        return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", card, re.MULTILINE))

    question = rows("mrc-1")
    start, end = map(int, re.findall(r"\d+", question["answers"]))
    assert question["context"][start:end] == question["answer_texts"] == "Broncos"
    sentence = rows("tagging-1")
    places = [int(place) for place in re.findall(r"\d+", sentence["tokens"])]
    words = [sentence["text"][start:end] for start, end in zip(places[::2], places[1::2], strict=True)]
    assert words == re.findall(r"\((.*?)\)", sentence["tokens"])
    assert len(sentence["tags"].split(", ")) == len(words)


def test_every_schema_has_counts_that_add_up():
    assert RecordCounts(3, 2, {"breaks_contract": 1}).problems() == []
    assert "3 records read" in RecordCounts(3, 2).problems()[0]
    assert "1 records read" in CandidateCounts(1, 2).problems()[0]
    assert {"mrc/1", "tagging/1", "pair/1"} <= SCHEMAS.keys()
    assert [SCHEMAS[name].example for name in ("mrc/1", "pair/1")] == [mrc.MrcExample, mrc.PairExample]
