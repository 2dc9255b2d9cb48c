"""The command on run folders as finetune, evaluate and few-shot leave them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.errors import ConfigError
from training import report
from training.metrics.reports import Figure, Report, Row, as_json
from training.metrics.tables import Table
from training.report import ReportConfig
from training.reports import run_results
from training.reports.html_page import Section, page

RECIPE = {"name": "plain_qa", "method": {"name": "plain"}, "model": "xlmr", "steps": 3, "seed": 1, "sample": 1}


def results(folder: Path, task: str, f1: dict[str, float], averages: tuple[str, ...] = ("avg",)) -> None:
    """A report as evaluate writes it; exact match is half of F1, intervals go 2 to both sides."""

    def row(name: str, value: float) -> Row:
        figures = {
            figure: Figure(each, (each - 2, each + 2), np.zeros(0))
            for figure, each in {"f1": value, "exact_match": value / 2}.items()
        }
        return Row(name, name.split("-")[0], 5, figures, {}, f"{task}.{name}|gold:1234")

    mean = sum(f1.values()) / len(f1)
    rows = [row(name, value) for name, value in f1.items()]
    written = as_json(Report(task, "model", list(f1), rows, [row(name, mean) for name in averages], {}))
    path = folder / "results" / task / "report.json"
    path.parent.mkdir(parents=True)
    path.write_text(written, encoding="utf-8")


def make(folder: Path, finished: bool = True, losses: int = 3, **changes: Any) -> Path:
    """Makes a run's folder; `changes` of the recipe."""
    folder.mkdir(parents=True)
    run = {"recipe": {**RECIPE, **changes}, "data": {"1 train.json": "3fa9" * 16}, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    rows = [{"step": step, "loss": 4 - step} for step in range(1, losses + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if finished:
        (folder / "model").mkdir()
    return folder


def dev(folder: Path, *scores: float) -> None:
    rows, best = [], 0.0
    for step, score in enumerate(scores, start=1):
        rows.append({"step": step, "epoch": step / 2, "score": score, "figures": {}, "best": score > best})
        best = max(best, score)
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def lines(*folders: Path, **fields: Any) -> list[list[str]]:
    """The printed lines as cells."""
    return [re.split(r"  +", line) for line in report.run(ReportConfig(folders, **fields)).splitlines()]


def test_runs_that_differ_in_their_seed_are_one_row(tmp_path: Path) -> None:
    for seed, f1 in enumerate((60.0, 64.0, 68.0), start=1):
        results(make(tmp_path / f"plain/seed-{seed}", seed=seed), "xquad", {"de": f1, "en": 80.0})
    found = lines(tmp_path)
    assert ["plain", "3", "3", "–", "–", "finished"] in found
    assert ["plain", "1, 2, 3"] in found  # what differs
    assert ["xquad, F1 / EM", "en", "de", "avg"] in found  # in the order of papers
    assert ["plain", "80.0 ± 0.0 / 40.0 ± 0.0", "64.0 ± 4.0 / 32.0 ± 2.0", "72.0 ± 2.0 / 36.0 ± 1.0"] in found


def test_runs_of_different_recipes_are_rows_of_their_own_and_only_what_differs_is_told(tmp_path: Path) -> None:
    results(make(tmp_path / "plain"), "xquad", {"en": 80.0})
    results(make(tmp_path / "que", name="clism_qa", method={"name": "que", "deep_head": False}), "xquad", {"en": 81.0})
    found = lines(tmp_path)
    assert ["settings", "name", "method"] in found  # not what only one method has
    assert ["que", "clism_qa", "que"] in found
    assert ["que", "81.0 / 40.5", "81.0 / 40.5"] in found


@pytest.mark.parametrize(
    "names, called",
    [
        (("plain/1", "plain/2"), "plain"),
        (("plain-1", "plain-12"), "plain"),
        (("plain_qa", "plain_que"), "plain_qa …"),
        (("a/64/1", "b/64/1"), "a/64/1 …"),
        (("a", "b"), "a …"),
    ],
)
def test_a_row_of_several_runs_has_the_name_that_they_share(
    names: tuple[str, ...], called: str, tmp_path: Path
) -> None:
    for seed, name in enumerate(names):
        make(tmp_path / name, seed=seed)
    assert lines(tmp_path)[1][:2] == [called, "2"]


def test_rows_of_one_folder_have_names_of_their_own(tmp_path: Path) -> None:
    for name in ("plain-1", "plain-2", "que-1", "que-2"):
        make(tmp_path / "runs" / name, seed=int(name[-1]), method={"name": name[:-2]})
    make(tmp_path / "other", model="other")
    assert [line[0] for line in lines(tmp_path)[1:4]] == ["other", "runs/plain", "runs/que"]


def test_settings_of_one_method_are_told_where_its_runs_differ(tmp_path: Path) -> None:
    for alpha in (0.0, 0.5):
        make(tmp_path / f"{alpha}", method={"name": "two_stage", "alpha": alpha})
    make(tmp_path / "plain")
    assert ["0.5", "two_stage", "0.5"] in lines(tmp_path)
    assert ["plain", "plain", "–"] in lines(tmp_path)


def test_runs_on_other_data_are_not_averaged(tmp_path: Path) -> None:
    make(tmp_path / "one", seed=1)
    other = make(tmp_path / "other", seed=2)
    run = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps({**run, "data": {"1 train.json": "b1c2" * 16}}))
    assert ["other", "2", "train.json:b1c2"] in lines(tmp_path)


def test_runs_are_put_together_by_the_settings_that_are_named(tmp_path: Path) -> None:
    for rate, model in ((1e-5, "xlmr"), (3e-5, "xlmr"), (1e-5, "clism")):
        make(tmp_path / f"{model}-{rate}", model=model, learning_rate=rate)
    assert [line[:2] for line in lines(tmp_path, by=("model",))[1:3]] == [["model clism", "1"], ["model xlmr", "2"]]
    with pytest.raises(ConfigError, match="Did you mean 'model'"):
        lines(tmp_path, by=("modle",))


def test_the_best_dev_score_and_its_step_are_told(tmp_path: Path) -> None:
    dev(make(tmp_path / "run"), 50.0, 61.24, 60.0)
    assert ["run", "1", "3", "61.2", "2", "finished"] in lines(tmp_path / "run")


def test_unfinished_and_broken_runs_are_listed_as_such(tmp_path: Path) -> None:
    make(tmp_path / "going", finished=False, losses=2, model="other")
    broken = make(tmp_path / "broken", steps=4)
    (broken / "run.json").write_text("{", encoding="utf-8")
    cut = make(tmp_path / "cut", finished=False, losses=1)
    with (cut / "metrics.jsonl").open("a") as log:
        log.write('{"step": 2, "lo')  # killed while it wrote
    results(cut, "xquad", {"en": 1.0})
    (cut / "results" / "xquad" / "report.json").write_text("[]", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    found = {line[0]: line[-1] for line in lines(tmp_path)[1:] if len(line) == 6}
    assert found == {"going": "unfinished: 2 of 3 steps", "broken": "no run", "cut": "unfinished: 1 of 3 steps"}
    told = report.run(ReportConfig((tmp_path, tmp_path / "empty")))
    assert f"{broken}/run.json: cannot be read" in told
    assert f"{cut}/results/xquad/report.json: cannot be read" in told
    assert f"{tmp_path}/empty/run.json: is not there" in told


def test_missing_results_are_told_with_the_next_command(tmp_path: Path) -> None:
    results(make(tmp_path / "a"), "xquad", {"en": 80.0})
    results(make(tmp_path / "b", model="b"), "mlqa", {"en": 80.0})
    make(tmp_path / "c", model="c")
    told = report.run(ReportConfig((tmp_path,)))
    assert f"a: no results of mlqa: polyspan-train evaluate {tmp_path}/a" in told
    assert f"c: no results: polyspan-train evaluate {tmp_path}/c" in told
    assert ["a", "–", "–"] in lines(tmp_path)  # in mlqa's table


def test_runs_of_another_kind_of_task_have_no_place_in_a_table(tmp_path: Path) -> None:
    results(make(tmp_path / "qa", task="squad"), "xquad", {"en": 80.0})
    results(make(tmp_path / "tags", task="wikiann"), "wikiann", {"de": 70.0})
    make(tmp_path / "more qa", task="tydiqa")
    told = report.run(ReportConfig((tmp_path,)))
    tables = [[line.split("  ")[0] for line in table.splitlines()] for table in told.split("\n\n")]
    assert ["xquad, F1 / EM", "more qa", "qa"] in tables and ["wikiann, F1 / EM", "tags"] in tables
    assert told.count("no results") == 1 and f"polyspan-train evaluate '{tmp_path}/more qa'" in told


def test_losses_of_different_tasks_are_pictures_of_their_own(tmp_path: Path) -> None:
    for task in ("squad", "wikiann"):
        make(tmp_path / task, task=task)
    groups = report.grouped(run_results.read_runs((tmp_path,)), ())
    overview, _ = report.sections_of(groups, report.tables_of(groups))
    assert [caption.partition(",")[0] for caption in overview.pictures] == [
        "Training loss on squad",
        "Training loss on wikiann",
    ]


def test_a_pre_trained_model_is_not_to_be_evaluated(tmp_path: Path) -> None:
    make(tmp_path / "pre", objective={"clism_weight": 1.0})
    told = report.run(ReportConfig((tmp_path,)))
    assert f"pre: not fine-tuned: polyspan-train finetune … --model {tmp_path}/pre/model" in told
    assert "evaluate" not in told


def test_a_run_whose_model_was_deleted_after_its_evaluation_is_finished(tmp_path: Path) -> None:
    results(make(tmp_path / "few/64/sample-1", finished=False), "xquad", {"en": 80.0})
    assert ["64/sample-1", "1", "3", "–", "–", "finished"] in lines(tmp_path / "few")


def test_a_two_stage_runs_own_baseline_is_no_run_of_the_table(tmp_path: Path) -> None:
    make(make(tmp_path / "two") / "baseline")
    assert len(run_results.read_runs((tmp_path,))) == 1


def test_runs_are_counted_once_and_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for size in (128, 64):
        make(tmp_path / f"{size}", examples=size)
    runs = run_results.read_runs((tmp_path, tmp_path / "64"))
    assert [run.name for run in runs] == ["64", "128"]


def test_mlqas_questions_in_other_languages_count_in_the_average_only(tmp_path: Path) -> None:
    results(make(tmp_path / "run"), "mlqa", {"en": 80.0, "de": 70.0, "de-en": 60.0}, averages=("XLT", "G-XLT"))
    assert ["mlqa, F1 / EM", "en", "de", "XLT", "G-XLT"] in lines(tmp_path)


@pytest.mark.parametrize("folders, message", [((), "no runs"), ((Path("not/there"),), "not/there: no such folder")])
def test_what_cannot_be_looked_at_is_refused(folders: tuple[Path, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        report.run(ReportConfig(folders))


def test_the_table_comes_as_markdown_latex_and_json(tmp_path: Path) -> None:
    for seed in (1, 2):
        results(make(tmp_path / f"plain_qa/{seed}", seed=seed), "xquad", {"en": 80.0 + seed})
    make(tmp_path / "z", steps=2)
    assert "| plain_qa | 81.5 ± 0.7 / 40.8 ± 0.4 |" in report.run(ReportConfig((tmp_path,), format="markdown"))
    told = report.run(ReportConfig((tmp_path,), format="latex"))
    assert r"plain\_qa & 81.5 $\pm$ 0.7 / 40.8 $\pm$ 0.4 &" in told
    assert "\n% z: no results" in told
    (group, _) = json.loads(report.run(ReportConfig((tmp_path,), format="json")))["groups"]
    assert group["results"]["xquad"]["en"]["f1"] == {"mean": 81.5, "sd": pytest.approx(0.5**0.5), "runs": 2}
    assert group["runs"][1]["results"]["xquad"]["rows"][0]["signature"] == "xquad.en|gold:1234"
    assert group["runs"][1]["settings"]["seed"] == 2


# --- the page ---------------------------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Collects tags and attributes, and fails on tags that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def compared(tmp_path: Path) -> Path:
    for seed in (1, 2):
        run = make(tmp_path / f"runs/plain/{seed}", seed=seed)
        dev(run, 50.0, 60.0 + seed)
        results(run, "xquad", {"en": 80.0 + seed, "de": 75.0})
    results(make(tmp_path / "runs/que", method={"name": "que"}), "xquad", {"en": 84.0, "de": 70.0})
    return tmp_path / "runs"


def test_the_page_has_every_table_and_picture_and_fetches_nothing(compared: Path, tmp_path: Path) -> None:
    report.run(ReportConfig((compared,), output=str(tmp_path / "page")))
    text = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    found = Checker(text)
    assert found.tags.count("table") == 3
    assert found.tags.count("svg") == 4  # losses, dev scores, F1 and exact match of xquad
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    fetched = [value for name, value in found.attributes if name in ("src", "href", "xlink:href")]
    assert all(str(value).startswith("#") for value in fetched)
    assert "url(http" not in text and "@import" not in text


def test_the_best_of_each_column_stands_out(compared: Path) -> None:
    groups = report.grouped(run_results.read_runs((compared,)), ())
    assert report.best_cells(groups, "xquad") == {(1, 1), (0, 2), (0, 3)}  # avg: 78.25 against 77


def test_bars_have_a_deviation_for_several_runs_and_the_interval_of_a_single_one(compared: Path) -> None:
    several, single = report.grouped(run_results.read_runs((compared,)), ())
    assert several.bar("xquad", "en", "f1") == (81.5, pytest.approx((81.5 - 0.5**0.5, 81.5 + 0.5**0.5)))
    assert single.bar("xquad", "en", "f1") == (84.0, (82.0, 86.0))
    assert single.bar("xquad", "zh", "f1") is None
    single.runs[0].results["xquad"].rows.pop("en")
    assert several._replace(runs=[single.runs[0], several.runs[0]]).bar("xquad", "en", "f1") == (81.0, (79.0, 83.0))


def test_the_page_is_the_same_to_the_byte(compared: Path, tmp_path: Path) -> None:
    for name in "ab":
        report.run(ReportConfig((compared,), output=tmp_path / name))
    assert (tmp_path / "a/report.html").read_bytes() == (tmp_path / "b/report.html").read_bytes()


def test_names_cannot_break_the_page() -> None:
    text = page([Section("<b>", Table(["<i>", "x"], [["&", "<script>"]]), {(0, 1)}, {})], ["<img>"])
    assert Checker(text).tags.count("td") == 2
    assert "&lt;script&gt;" in text and "<img>" not in text
