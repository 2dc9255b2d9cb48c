"""Tests `score` as a function, with small files of every kind and then the real ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, InputError
from training import score
from training.metrics.reports import as_json, as_text
from training.metrics.tags import Entity
from training.recipes.scoring import ScoreConfig
from training.tasks.catalog import TASKS


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
        return path

    return written


def squad(**answers: str) -> dict[str, Any]:
    paragraphs = [
        {"context": text, "qas": [{"id": id_, "question": "?", "answers": [{"text": text, "answer_start": 0}]}]}
        for id_, text in answers.items()
    ]
    return {"version": "1.1", "data": [{"paragraphs": paragraphs}]}


def figures(config: ScoreConfig) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(score.run(replace(config, format="json")))
    return found


@pytest.fixture
def xquad(write: Any) -> ScoreConfig:
    """Makes English predictions, one exact and one partly correct, and German ones, one exact and one missing."""
    return ScoreConfig(
        "xquad",
        gold=(
            write("xquad.de.json", squad(a="Hanoi", b="Bonn")),
            write("xquad.en.json", squad(a="Hanoi", b="Denver Broncos")),
        ),
        predictions=(write("de.json", {"a": "Hanoi"}), write("en.json", {"a": "the Hanoi!", "b": "Denver", "z": ""})),
    )


def test_questions_are_scored_by_language_and_averaged(xquad: ScoreConfig) -> None:
    found = figures(xquad)
    english, german = found["rows"]  # in the order in which papers print them
    half = 100 * (1 + 2 / 3) / 2
    assert (english["lang"], english["examples"], english["unknown_ids"]) == ("en", 2, 1)
    assert (english["exact_match"]["value"], english["f1"]["value"]) == (50.0, pytest.approx(half))
    assert (german["lang"], german["unanswered"], german["f1"]["value"]) == ("de", 1, 50.0)
    (average,) = found["averages"]
    assert average["f1"]["value"] == pytest.approx((half + 50) / 2)
    assert found["xtreme"] == pytest.approx(((half + 50) / 2 + 50) / 2)
    assert found["transfer_gap_f1"] == pytest.approx(half - 50) and found["transfer_gap_exact_match"] == 0.0


def test_text_shows_figures_intervals_notes_and_where_each_number_comes_from(xquad: ScoreConfig) -> None:
    lines = score.run(replace(xquad, resamples=20)).splitlines()
    assert re.split(r"  +", lines[0]) == ["xquad", "F1", "interval", "EM", "interval", "examples"]
    assert re.fullmatch(r"en +83\.33 +\S+ to 100\.0 +50\.00 +\S+ to \S+ +2", lines[1])
    assert "de: unanswered 1" in lines and "en: unknown_ids 1" in lines
    signed = (
        r"xquad\.en\|scorer:squad1\.1\|examples:2\|gold:\w{8}\|predictions:\w{8}\|bootstrap:20x1@0\.95\|unicode:\S+"
    )
    assert sum(bool(re.fullmatch(signed, line)) for line in lines) == 1
    assert any(line.startswith("xquad.avg(en,de)|scorer:squad1.1|examples:4|") for line in lines)


def test_what_became_of_the_gold_files_labels_is_told(write: Any) -> None:
    content = squad(a="Hanoi", b="Bonn")
    content["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["answer_start"] = 2
    config = ScoreConfig("xquad", (write("xquad.de.json", content),), (write("p", {"a": "Hanoi", "b": "Bonn"}),))
    told = "de: 2 labels found = 1 labels kept + 1 refused (answer_elsewhere 1)"
    assert told in score.run(config).splitlines()
    assert f"- `{told}`" in score.run(replace(config, format="markdown")).splitlines()
    assert f"% {told}" in score.run(replace(config, format="latex")).splitlines()
    found = figures(config)
    assert found["gold"]["de"]["label_rejects"] == {"answer_elsewhere": 1}
    assert found["rows"][0]["exact_match"]["value"] == 100.0  # its text counts, although its offset is wrong
    tags = ScoreConfig("wikiann", (write("test-de.tsv", "B-LOC\nO\n\nO\n"),), (write("t", "O\nO\n\nO"),))
    labels = ScoreConfig("paws_x", (write("labels/test-ko.tsv", "1\n0\n"),), (write("l", "1\n1\n"),))
    assert figures(tags)["gold"]["de"]["labels_kept"] == 1 and figures(labels)["gold"]["ko"]["labels_kept"] == 2
    strange = replace(tags, gold=(write("test-fr.tsv", "B-LOC\nO\n\nB-CITY\n"),))
    with pytest.raises(InputError, match=r"test-fr\.tsv:4: expected O or a tag of LOC, ORG, PER; found 'B-CITY'"):
        score.run(strange)


def test_markdown_and_latex_are_laid_out_as_papers_are(xquad: ScoreConfig) -> None:
    markdown = score.run(replace(xquad, format="markdown", name="mPMR_base", resamples=0)).splitlines()
    assert markdown[0] == "| xquad | en | de | avg |"
    assert markdown[2] == "| mPMR_base | 83.3 / 50.0 | 50.0 / 50.0 | 66.7 / 50.0 |"
    assert markdown[4].startswith("- `xquad.en|scorer:squad1.1|") and "bootstrap" not in markdown[4]
    latex = score.run(replace(xquad, format="latex", name="mPMR_base", resamples=0))
    assert "\nmPMR\\_base & 83.3 / 50.0 & 50.0 / 50.0 & 66.7 / 50.0 \\\\\n" in latex and latex.startswith("% xquad.en|")
    assert "\\begin{tabular}{lccc}" in latex and r"\usepackage{booktabs, adjustbox}" in latex


def test_the_same_command_says_the_same(xquad: ScoreConfig) -> None:
    assert score.run(xquad) == score.run(xquad)
    assert score.run(replace(xquad, seed=2)) != score.run(xquad)


def test_mlqas_pairs_are_scored_in_the_contexts_language(write: Any) -> None:
    gold = squad(a="der Mann", b="أطفال")
    names = [("de", "de"), ("de", "es"), ("ar", "ar"), ("ar", "de")]
    config = ScoreConfig(
        "mlqa",
        gold=tuple(write(f"test-context-{c}-question-{q}.json", gold) for c, q in names),
        predictions=(write("p.json", {"a": "Mann", "b": "أطف"}),) * 4,
        resamples=0,
    )
    found = {row["name"]: row["exact_match"]["value"] for row in figures(config)["rows"]}
    assert found == {"ar": 50.0, "ar-de": 50.0, "de": 50.0, "de-es": 50.0}  # German articles; Arabic ones inside words
    assert {row["name"]: row["examples"] for row in figures(config)["averages"]} == {"XLT": 4, "G-XLT": 8}
    assert "|scorer:mlqa1.0|" in score.run(config) and "|arabic:" not in score.run(config)
    corrected = replace(config, mlqa_arabic="word_start")
    assert {row["name"]: row["exact_match"]["value"] for row in figures(corrected)["rows"]}["ar"] == 0.0
    assert "mlqa.ar|scorer:mlqa1.0|arabic:word_start|" in score.run(corrected)
    table = score.run(replace(config, format="markdown", name="ours")).splitlines()
    assert table[0] == "| ours, c/q | ar | de | es |"
    assert table[2:4] == ["| ar | 83.3 / 50.0 | 83.3 / 50.0 |  |", "| de |  | 50.0 / 50.0 | 50.0 / 50.0 |"]


def test_entities_are_scored_whatever_scheme_either_side_has(write: Any) -> None:
    gold = write("eng.testa", "-DOCSTART- -X- O O\n\nEU N X I-ORG\nin N X O\nBonn N X I-LOC\n\nAnna N X I-PER\n")
    config = ScoreConfig("conll", (gold,), (write("p.txt", "S-ORG\nO\nO\n\nS-LOC\n"),))
    (row,) = figures(config)["rows"]
    assert (row["examples"], row["precision"]["value"], row["recall"]["value"]) == (2, 50.0, pytest.approx(100 / 3))
    assert row["f1"]["value"] == pytest.approx(40.0) and "conll.en|scorer:conll|" in row["signature"]


def test_what_a_model_found_before_overlaps_were_resolved_has_its_own_f1(write: Any) -> None:
    golds = write("eng.testa", "EU N X I-ORG\n\n"), write("deu.testa", "In N X O\nBonn N X I-LOC\n\n")
    config = ScoreConfig("conll", golds, (write("e.txt", "S-ORG\n"), write("d.txt", "O\nO\n")), resamples=20)
    unresolved = [[[Entity(0, 1, "ORG"), Entity(0, 1, "LOC")]], [[]]]

    report = score.report_of(config, unresolved)

    figures_of = {row.name: {name: each.value for name, each in row.figures.items()} for row in report.rows}
    assert figures_of["en"]["span_f1"] == pytest.approx(200 / 3) and figures_of["de"]["span_f1"] == 0.0
    (average,) = report.averages
    assert average.figures["span_f1"].value == pytest.approx(100 / 3) and average.figures["f1"].value == 50.0
    assert average.figures["span_f1"].interval is not None
    assert "span F1" in as_text(report) and "span_f1" in json.loads(as_json(report))["averages"][0]
    assert "span_f1" not in figures(config)["rows"][0]


def test_xtremes_label_files_are_gold_too(write: Any) -> None:
    tags = ScoreConfig("wikiann", (write("test-de.tsv", "B-LOC\nO\n\nO\n"),), (write("p.txt", "O\nO\n\nO"),))
    assert [(row["lang"], row["f1"]["value"]) for row in figures(tags)["rows"]] == [("de", 0.0)]
    labels = ScoreConfig("paws_x", (write("labels/test-ko.tsv", "1\n0\n0\n1\n"),), (write("p.tsv", "1\n1\n0\n0\n"),))
    assert [(row["lang"], row["accuracy"]["value"]) for row in figures(labels)["rows"]] == [("ko", 50.0)]


def test_one_file_of_several_languages_gives_a_row_each(write: Any) -> None:
    rows = "".join(f"{lang}\tneutral\tA\tB\n" for lang in ("bg", "en", "bg"))
    gold = write("xnli.test.tsv", f"language\tgold_label\tsentence1\tsentence2\n{rows}")
    config = ScoreConfig("xnli", (gold,), (write("p", "neutral\nneutral\nentailment\n"),))
    found = {row["name"]: (row["accuracy"]["value"], row["examples"]) for row in figures(config)["rows"]}
    assert found == {"en": (100.0, 1), "bg": (50.0, 2)}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"task": "xquda"}, "unknown task 'xquda'. Did you mean 'xquad'?"),
        ({"predictions": ()}, "expected one file of predictions for each gold file, found 2 gold and 0"),
        ({"langs": ("de",)}, "expected a language for each of 2 gold files, found 1"),
        ({"langs": ("de", "de")}, "two gold files are both 'de'"),
        ({"resamples": -1}, "resamples of 0 or more"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], message: str, xquad: ScoreConfig) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        score.run(replace(xquad, **change))


@pytest.mark.parametrize(
    "task, name, gold, predictions, message",
    [
        ("xquad", "xquad.de.json", squad(a="x"), ["x"], "p: expected a JSON object with a text for each question's id"),
        ("xquad", "xquad.de.json", squad(a="x"), {"a": None}, "p: expected a JSON object with a text"),
        ("xquad", "xquad.de.json", squad(a=""), {"a": "x"}, "de.json: 1 of 1 records have no label"),
        ("mlqa", "test-fr.json", squad(a="x"), {"a": "x"}, "scorer knows en, ar, de, es, hi, vi, zh; found 'fr'"),
        ("conll", "eng.train", "EU O\nin O\n\nBonn O\n", "O\nO\n", "p: expected 2 sentences, as"),
        ("conll", "eng.train", "EU O\nin O\n\nBonn O\n", "O\nO\n\nO\nO\n", "p:4: expected a sentence of 1 tags, as e"),
        ("conll", "eng.train", "EU O\n", "LOC\n", "p:1: expected a tag such as O, B-LOC or I-LOC, found 'LOC'"),
        ("wikiann", "test-de.tsv", "Bonn\nam\n", "O\nO\n", "test-de.tsv: 1 of 1 records have no label"),
        ("xnli", "test-de.tsv", "a\tb\n", "neutral\n", "test-de.tsv: 1 of 1 records have no label"),
        ("xnli", "test-de.tsv", "neutral\nneutral\n", "neutral\n", "p: expected 2 labels, as"),
        ("xnli", "test-de.tsv", "neutral\n", "\n1\n", "p:2: expected a label of contradiction, entailment, neutral"),
        ("xnli", "test-de.tsv", "", "", "test-de.tsv: holds nothing to score"),
        ("conll", "eng.train", "\n\n", "", "eng.train: holds nothing to score"),
        ("xquad", "xquad.de.json", {"data": []}, {}, "xquad.de.json: holds nothing to score"),
        ("xnli", "labels.tsv", "neutral\n", "neutral\n", "labels.tsv: its name does not say its language"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused(
    task: str, name: str, gold: Any, predictions: Any, message: str, write: Any
) -> None:
    with pytest.raises((InputError, ConfigError), match=re.escape(message)):
        score.run(ScoreConfig(task, (write(name, gold),), (write("p", predictions),)))


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.parametrize(
    "task, pattern",
    [
        ("squad", "qa/squad/dev-*.json"),
        ("xquad", "qa/xquad/*.json"),
        ("tydiqa", "qa/tydiqa/*.dev.json"),
        ("universal_ner", "ner/UNER_*/*test.iob2"),
        ("paws_x", "pairs/pawsx/test-*.tsv"),
    ],
)
def test_perfect_predictions_score_100_on_every_real_file(
    task: str, pattern: str, shared_data: Path, tmp_path: Path
) -> None:
    golds = tuple(sorted(shared_data.glob(pattern)))
    predictions = []
    for gold in golds:
        examples = TASKS[task].read(gold, None)[0]
        path = tmp_path / gold.name
        if task in ("squad", "xquad", "tydiqa"):
            path.write_text(json.dumps({example.id: example.answer_texts[0] for example in examples}))
        elif task == "paws_x":
            path.write_text("".join(f"{example.label}\n" for example in examples))
        else:
            path.write_text("\n".join("\n".join([*example.tags, ""]) for example in examples))
        predictions.append(path)
    found = figures(ScoreConfig(task, golds, tuple(predictions), resamples=10))
    assert len(found["rows"]) == len(golds)
    for row in [*found["rows"], *found["averages"]]:
        for name in ("f1", "exact_match", "precision", "recall", "accuracy"):
            if name in row:
                assert row[name] == {"value": 100.0, "interval": [100.0, 100.0]}, row["name"]


@pytest.mark.real_data
@pytest.mark.parametrize(
    "lang, exact_match, f1",
    [
        ("de", 33.865546218487395, 41.35263494867895),
        ("zh", 8.907563025210084, 11.440418125292073),
        ("ar", 10.168067226890756, 13.560023566536174),
        ("ru", 10.756302521008404, 15.652973283101806),
    ],
)
def test_real_answers_in_another_language_score_what_the_official_scorer_gives_to_the_bit(
    lang: str, exact_match: float, f1: float, shared_data: Path, tmp_path: Path
) -> None:
    """Scores the gold answers of one language as predictions for the same questions in English."""
    folder = shared_data / "qa" / "xquad"
    others = TASKS["xquad"].read(folder / f"xquad.{lang}.json", None)[0]
    (tmp_path / "p.json").write_text(json.dumps({example.id: example.answer_texts[0] for example in others}))
    (row,) = figures(ScoreConfig("xquad", (folder / "xquad.en.json",), (tmp_path / "p.json",), resamples=0))["rows"]
    assert (row["exact_match"]["value"], row["f1"]["value"]) == (exact_match, f1)
