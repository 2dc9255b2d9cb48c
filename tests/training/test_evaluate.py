"""Tests `evaluate` as a function, with small models, published formats and the scorer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from tests.training.tuned import TEXTS, UNIFIED, save_tuned
from training import score
from training.checks.inference import evaluations_of
from training.evaluate import DevSet, counted, dev_scores, evaluate, main_score, run
from training.inference.predictor import Predictor, load_predictor, predict
from training.metrics.tags import entities, tags_of
from training.recipes.inference import EvaluateConfig
from training.recipes.methods import MethodSettings, Plain
from training.recipes.scoring import Reporting, ScoreConfig
from training.tasks.catalog import TASKS
from training.tasks.predictions import Prediction, Span

CPU = torch.device("cpu")
FEW = Reporting(resamples=20)


@pytest.fixture(scope="module")
def models(xlmr_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Makes a finished run for each kind of task."""
    found = {}
    methods: dict[str, MethodSettings] = {"qa": Plain(), "tagging": UNIFIED, "pairs": UNIFIED}
    for kind, method in methods.items():
        folder = tmp_path_factory.mktemp("run")
        (folder / "run.json").write_text("{}")
        save_tuned(folder / "model", xlmr_folder, method, kind)  # type: ignore[arg-type]
        found[kind] = folder
    return found


def squad(path: Path, answers: dict[str, str]) -> Path:
    """Writes a question for each context of `TEXTS`, with an answer or, as XTREME does, a blank."""
    paragraphs = [
        {
            "context": text,
            "qas": [{"id": lang, "question": "Where ?", "answers": [{"text": answers[lang], "answer_start": 0}]}],
        }
        for lang, text in TEXTS.items()
    ]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def tagged(path: Path, tags_of: Any = None) -> Path:
    """Writes the words of `TEXTS` and an empty one, as WikiAnn has them, with or without tags."""
    path.parent.mkdir(exist_ok=True)
    sentences = []
    for at, text in enumerate(TEXTS.values()):
        words = [*text.split(), *([""] if at == 0 else [])]
        tags = tags_of(at, len(words)) if tags_of else [None] * len(words)
        sentences.append("".join(f"{w}\t{t}\n" if t else f"{w or '-'}\n" for w, t in zip(words, tags, strict=True)))
    path.write_text("\n".join(sentences), encoding="utf-8")
    return path


def paired(path: Path, labels: list[str] | None) -> Path:
    lines = [f"{text}\tBonn 東京" + (f"\t{labels[at]}" if labels else "") for at, text in enumerate(TEXTS.values())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def of(run_folder: Path) -> Predictor:
    return load_predictor(run_folder / "model", CPU)


def said_by(folder: Path, task: str, gold: Path, lang: str | None = None) -> Any:
    predictor = of(folder)
    return predict(predictor.model, predictor.formulation, TASKS[task].read(gold, lang)[0], CPU)


def same_as_score(config: EvaluateConfig, predictions: list[str]) -> dict[str, Any]:
    """Evaluates and returns report.json. Asserts that the score command and the scores of dev sets give the same."""
    printed = run(config)
    output = Path(config.output)
    assert printed == (output / "report.txt").read_text(encoding="utf-8")
    files = tuple(output / "predictions" / name for name in predictions)
    assert sorted(path.name for path in (output / "predictions").iterdir()) == sorted(
        name for path in files for name in (path.name, path.with_suffix(".jsonl").name)
    )
    scoring = ScoreConfig(config.task, config.labels or config.gold, files, langs=config.reporting.langs, resamples=20)
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    about = report.pop("model")
    if TASKS[config.task].kind == "tagging":  # the files cannot hold what overlaps
        assert all("span_f1" in row for row in (*report["rows"], *report["averages"]))
        assert without_span_f1(report) == json.loads(score.run(replace(scoring, format="json")))
    else:
        assert printed == score.run(scoring)
        assert report == json.loads(score.run(replace(scoring, format="json")))
    assert about["provenance"]["base_model"] == "xlmr"

    predictor = of(Path(config.model))
    langs = config.reporting.langs or (None,) * len(config.gold)
    sets = [
        DevSet(path.name, config.task, TASKS[config.task].read(path, lang)[0])
        for path, lang in zip(config.gold, langs, strict=True)
    ]
    if not config.labels and len(report["rows"]) == len(sets) == 1:
        figures = dev_scores(predictor.model, predictor.formulation, sets, CPU)
        assert figures == {
            sets[0].name: {name: each["value"] for name, each in report["rows"][0].items() if isinstance(each, dict)}
        }
        assert main_score(figures) > 0
    found: dict[str, Any] = report
    return found


def without_span_f1(report: dict[str, Any]) -> dict[str, Any]:
    rows = {
        name: [{figure: of for figure, of in row.items() if figure != "span_f1"} for row in report[name]]
        for name in ("rows", "averages")
    }
    return {name: of for name, of in report.items() if not name.endswith("span_f1")} | rows


def test_questions(models: dict[str, Path], tmp_path: Path) -> None:
    gold = squad(tmp_path / "xquad.en.json", TEXTS)
    config = EvaluateConfig(str(models["qa"]), "xquad", (gold,), output=str(tmp_path / "out"), reporting=FEW)
    (row,) = same_as_score(config, ["xquad.en.json"])["rows"]
    assert row["examples"] == len(TEXTS) and row["f1"]["value"] > 0
    answers = json.loads((tmp_path / "out" / "predictions" / "xquad.en.json").read_text(encoding="utf-8"))
    lines = (tmp_path / "out" / "predictions" / "xquad.en.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    for line in map(json.loads, lines):
        best = line["spans"][0]
        assert answers[line["id"]] == best["text"] == TEXTS[line["id"]][best["start_char"] : best["end_char"]]


def test_sentences_of_files_with_the_same_name(models: dict[str, Path], tmp_path: Path) -> None:
    said = said_by(models["tagging"], "wikiann", tagged(tmp_path / "test", lambda at, n: ["O"] * n), "de")

    def right_at_times(at: int, words: int) -> list[str]:
        assert len(said[at].tags) == words
        return list(said[at].tags) if at % 2 else ["O"] * words

    golds = tuple(tagged(tmp_path / lang / "test", right_at_times) for lang in ("th", "de"))
    config = EvaluateConfig(str(models["tagging"]), "wikiann", golds, output=str(tmp_path / "out"), reporting=FEW)
    report = same_as_score(config, ["th-test.tsv", "de-test.tsv"])
    assert [(row["lang"], row["recall"]["value"]) for row in report["rows"]] == [("de", 100.0), ("th", 100.0)]
    assert 0 < report["rows"][0]["precision"]["value"] < 100
    one = replace(config, gold=golds[:1], output=str(tmp_path / "one"))
    same_as_score(one, ["test.tsv"])


def test_entities_that_overlap_count_in_span_f1(models: dict[str, Path], tmp_path: Path) -> None:
    said = said_by(models["tagging"], "wikiann", tagged(tmp_path / "test-de.tsv", lambda at, n: ["O"] * n))
    gold = tagged(tmp_path / "test-de.tsv", lambda at, n: tags_of(said[at].unresolved[-1:], n))
    records, *_ = TASKS["wikiann"].read(gold, "de")
    config = EvaluateConfig(str(models["tagging"]), "wikiann", (gold,), output=str(tmp_path / "out"), reporting=FEW)

    report = evaluate(config)

    found = {(each.id, *entity) for each in said for entity in each.unresolved}
    golds = {(each.id, *entity) for each in records for entity in entities(each.tags)}
    assert len(found) > sum(len(entities(each.tags)) for each in said) > 0
    assert golds & found
    expected = 200 * len(golds & found) / (len(golds) + len(found))
    assert report.rows[0].figures["span_f1"].value == pytest.approx(expected)
    assert report.rows[0].figures["f1"].value != pytest.approx(expected)


def test_pairs_of_several_languages_in_a_file(models: dict[str, Path], tmp_path: Path) -> None:
    said = said_by(models["pairs"], "xnli", paired(tmp_path / "test-de.tsv", ["neutral"] * len(TEXTS)))
    labels = [each.label if at else "neutral" for at, each in enumerate(said)]
    gold = paired(tmp_path / "test-de.tsv", labels)
    config = EvaluateConfig(str(models["pairs"]), "xnli", (gold,), output=str(tmp_path / "out"), reporting=FEW)
    (row,) = same_as_score(config, ["test-de.txt"])["rows"]
    assert row["accuracy"]["value"] >= 80.0

    header = "language\tgold_label\tsentence1\tsentence2\n"
    lines = [f"{lang}\t{labels[at]}\t{text}\tBonn 東京\n" for at, (lang, text) in enumerate(TEXTS.items())]
    several = tmp_path / "xnli.test.tsv"
    several.write_text(header + "".join(lines), encoding="utf-8")
    report = same_as_score(replace(config, gold=(several,), output=str(tmp_path / "all")), ["xnli.test.txt"])
    assert {row["lang"]: row["accuracy"]["value"] for row in report["rows"]}.keys() == TEXTS.keys()
    predictor = of(models["pairs"])
    figures = dev_scores(
        predictor.model, predictor.formulation, [DevSet("all", "xnli", TASKS["xnli"].read(several, None)[0])], CPU
    )
    assert figures["all"]["accuracy"] == pytest.approx(report["averages"][0]["accuracy"]["value"])


def test_the_main_score_is_the_mean_of_the_sets() -> None:
    assert main_score({"a": {"f1": 80.0, "exact_match": 10.0}, "b": {"f1": 60.0, "exact_match": 0.0}}) == 70.0
    assert main_score({"a": {"accuracy": 80.0}}) == 80.0


def test_files_without_labels_are_predicted_but_not_scored(models: dict[str, Path], tmp_path: Path) -> None:
    gold, output = tagged(tmp_path / "test-de.tsv"), tmp_path / "out"
    config = EvaluateConfig(str(models["tagging"]), "wikiann", (gold,), output=str(output), reporting=FEW)
    with pytest.raises(InputError, match=r"test-de\.tsv: has no labels, so nothing is scored\. The predictions"):
        run(config)
    assert (output / "predictions" / "test-de.tsv").is_file() and not (output / "report.json").exists()

    said = said_by(models["tagging"], "wikiann", gold)
    labels = tmp_path / "labels.tsv"
    labels.write_text("\n".join("".join(f"{tag}\n" for tag in each.tags) for each in said), encoding="utf-8")
    report = same_as_score(replace(config, labels=(labels,), reporting=replace(FEW, langs=("de",))), ["test-de.tsv"])
    assert report["rows"][0]["f1"]["value"] == 100.0
    assert run(replace(config, labels=(labels,))) == (output / "report.txt").read_text()  # the gold file says: German

    blank = squad(tmp_path / "xquad.th.json", dict.fromkeys(TEXTS, ""))
    plain = paired(tmp_path / "test-fr.tsv", None)
    for kind, task, each in (("qa", "xquad", blank), ("pairs", "xnli", plain), ("tagging", "conll", gold)):
        reporting = replace(FEW, langs=("de",))
        with pytest.raises(InputError, match=r"has no labels, so nothing is scored\. The predictions"):
            run(EvaluateConfig(str(models[kind]), task, (each,), output=str(tmp_path / kind), reporting=reporting))
        assert len(list((tmp_path / kind / "predictions").iterdir())) == 2


def test_results_stand_in_the_runs_folder(models: dict[str, Path], tmp_path: Path) -> None:
    gold = squad(tmp_path / "xquad.en.json", TEXTS)
    for model in (models["qa"], models["qa"] / "model"):
        run(EvaluateConfig(str(model), "xquad", (gold,), reporting=FEW))
        assert (models["qa"] / "results" / "xquad" / "report.json").is_file()
    (tmp_path / "alone").mkdir()
    with pytest.raises(ConfigError, match="is no run's folder: name the folder to write with --output"):
        run(EvaluateConfig(str(tmp_path / "alone"), "xquad", (gold,)))


def test_markdown_is_asked_for_as_of_the_scorer(models: dict[str, Path], tmp_path: Path) -> None:
    gold, reporting = squad(tmp_path / "xquad.en.json", TEXTS), Reporting(format="markdown", name="ours", resamples=0)
    printed = run(
        EvaluateConfig(str(models["qa"]), "xquad", (gold,), output=str(tmp_path / "out"), reporting=reporting)
    )
    assert printed.startswith("| xquad | en |") and "| ours | " in printed


def test_what_is_cut_is_told(models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "test-de.tsv"
    gold.write_text(f"{TEXTS['de']}\tBonn\tneutral\nBonn\tBonn\tneutral\n", encoding="utf-8")
    run(EvaluateConfig(str(models["pairs"]), "xnli", (gold,), output=str(tmp_path / "out"), reporting=FEW))
    assert "to the limit of tokens: " in capsys.readouterr().err


def test_labels_that_the_model_lacks_are_told(
    models: dict[str, Path], xlmr_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = tagged(tmp_path / "eng.testb", lambda at, n: ["B-MISC"] + ["O"] * (n - 1))
    evaluate(EvaluateConfig(str(models["tagging"]), "conll", (gold,), output=str(tmp_path / "o"), reporting=FEW))
    assert "does not know MISC of conll: none will be found" in capsys.readouterr().err
    more = save_tuned(tmp_path / "more", xlmr_folder, Plain(), "tagging", labels=("LOC", "MISC", "ORG", "PER"))
    gold = tagged(tmp_path / "test-de.tsv", lambda at, n: ["B-LOC"] + ["O"] * (n - 1))
    evaluate(EvaluateConfig(str(more), "wikiann", (gold,), output=str(tmp_path / "o"), reporting=FEW))
    assert "also finds MISC, which wikiann lacks: these count as wrong" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind, changes, message",
    [
        ("qa", {"task": "xquda"}, "unknown task 'xquda'. Did you mean 'xquad'?"),
        ("qa", {"task": "wikiann"}, "was trained for qa, but wikiann is tagging. Its tasks: squad, xquad"),
        ("tagging", {"task": "absa"}, "has the labels LOC, ORG, PER, but those of absa are NEG, NEU, POS"),
        ("pairs", {"task": "paws_x"}, "has the labels contradiction, entailment, neutral, but those of paws_x"),
        ("qa", {"labels": (Path("a"), Path("b"))}, "expected a label file for each of 1 gold files, found 2"),
        ("qa", {"reporting": Reporting(langs=("de", "en"))}, "expected a language for each of 1 gold files, found 2"),
        ("qa", {"task": "mlqa", "reporting": Reporting(langs=("fr",))}, "the mlqa1.0 scorer knows en, ar, de"),
        ("qa", {"gold": ()}, "no gold files: name them with --gold FILE"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_written(
    kind: str, changes: dict[str, Any], message: str, models: dict[str, Path], tmp_path: Path
) -> None:
    task = changes.get("task", "xquad")
    files = {
        "wikiann": lambda: tagged(tmp_path / "test-de.tsv", lambda at, n: ["O"] * n),
        "absa": lambda: tagged(tmp_path / "gold-en-test.txt", lambda at, n: ["T-POS"] + ["O"] * (n - 1)),
        "paws_x": lambda: paired(tmp_path / "test-de.tsv", ["1"] * len(TEXTS)),
    }
    gold = files.get(task, lambda: squad(tmp_path / "xquad.en.json", TEXTS))()
    config = replace(EvaluateConfig(str(models[kind]), "xquad", (gold,), output=str(tmp_path / "out")), **changes)
    with pytest.raises(ConfigError, match=re.escape(message)):
        run(config)
    assert not (tmp_path / "out").exists()


def test_two_files_of_a_language_are_refused_before_anything_is_predicted(
    models: dict[str, Path], tmp_path: Path
) -> None:
    golds = tuple(squad(tmp_path / name, TEXTS) for name in ("xquad.en.json", "other.en.json"))
    config = EvaluateConfig(
        str(models["qa"]), "xquad", golds, output=str(tmp_path / "out"), reporting=Reporting(langs=("en", "en"))
    )
    with pytest.raises(ConfigError, match="two gold files are both 'en'"):
        run(config)
    (empty := tmp_path / "xquad.de.json").write_text('{"data": []}')
    with pytest.raises(InputError, match="holds nothing to score"):
        run(replace(config, gold=(empty,), reporting=FEW))
    assert not (tmp_path / "out").exists()


def test_questions_of_one_id_are_counted_one_by_one() -> None:
    """TyDiQA's English training file has the id 0 1,651 times."""
    first, second = (
        MrcExample("0", "en", "Who?", "Anna and Bao", (CharSpan(0, 4),), (name,), True, "tydiqa", None)
        for name in ("Anna", "Bao")
    )
    said = [Prediction("0", (Span(0, 4, "Anna", 0.9),)), Prediction("0", (Span(9, 12, "Bao", 0.9),))]
    assert counted("tydiqa", [first, second], said)["en"].figures["exact_match"][0] == 100.0
    assert counted("tydiqa", [first, second], said[::-1])["en"].figures["exact_match"][0] == 0.0


# --- several tasks ----------------------------------------------------------------------------------------------------


def test_several_tasks_are_evaluated_with_one_load_of_the_model_as_each_by_itself(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    german, english = squad(tmp_path / "xquad.de.json", TEXTS), squad(tmp_path / "tydiqa.goldp.en.dev.json", TEXTS)
    marks = (Path("xquad="), german, Path("tydiqa="), english)
    config = EvaluateConfig(str(models["qa"]), gold=marks, output=str(tmp_path / "all"), reporting=FEW)
    loads: list[Any] = []

    def counted_load(*given: Any) -> Predictor:
        loads.append(given)
        return load_predictor(*given)

    monkeypatch.setattr("training.evaluate.load_predictor", counted_load)
    printed = run(config)
    assert len(loads) == 1
    for task, gold in (("xquad", german), ("tydiqa", english)):
        alone = replace(config, task=task, gold=(gold,), output=str(tmp_path / task))
        assert run(alone) in printed
        for path in (tmp_path / task).rglob("*.*"):
            assert (tmp_path / "all" / task / path.relative_to(tmp_path / task)).read_bytes() == path.read_bytes()
    reports = json.loads(run(replace(config, reporting=replace(FEW, format="json"))))
    assert [report["task"] for report in reports] == ["xquad", "tydiqa"]


def test_label_files_and_languages_belong_to_the_task_that_precedes_them() -> None:
    config = EvaluateConfig(
        "run",
        gold=(Path("xquad=a.json"), Path("b.json"), Path("mlqa="), Path("c.json")),
        labels=(Path("mlqa=d.json"),),
        reporting=Reporting(langs=("xquad=", "de", "hi")),
        output="out",
    )
    found = [(each.task, each.gold, each.labels, each.reporting.langs, each.output) for each in evaluations_of(config)]
    assert found == [
        ("xquad", (Path("a.json"), Path("b.json")), (), ("de", "hi"), "out/xquad"),
        ("mlqa", (Path("c.json"),), (Path("d.json"),), (), "out/mlqa"),
    ]
    (one,) = evaluations_of(EvaluateConfig("run", "xquad", (Path("a.json"),), output="out"))
    assert (one.task, one.output) == ("xquad", "out")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"gold": (Path("a.json"),)}, "--gold a.json: of which task"),
        ({"gold": (Path("xquad=a.json"),), "labels": (Path("mlqa=b.json"),)}, "--labels mlqa=: --gold has no files"),
        ({"gold": (Path("xquda=a.json"),)}, "--gold xquda=a.json: of which task"),
    ],
)
def test_files_of_no_task_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluations_of(EvaluateConfig("run", **changes))


def test_a_task_of_another_kind_is_refused_before_anything_is_predicted(
    models: dict[str, Path], tmp_path: Path
) -> None:
    gold = (Path("xquad="), squad(tmp_path / "xquad.de.json", TEXTS), Path("paws_x="), paired(tmp_path / "a.tsv", None))
    langs = ("xquad=", "de", "paws_x=", "en")
    config = EvaluateConfig(
        str(models["qa"]), gold=gold, output=str(tmp_path / "out"), reporting=Reporting(langs=langs)
    )
    with pytest.raises(ConfigError, match="paws_x is pairs"):
        run(config)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*.json*"))
