"""What the trainer writes says nothing of whose machine it ran on, though every path is given in full."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from tests.training.people import people_config, squad
from tests.training.runs import small
from training import benchmark, convert, few_shot, report
from training.convert import ConvertConfig
from training.engine import run_folder
from training.evaluate import evaluate, evaluate_tasks
from training.finetune import finetune
from training.pretrain import pretrain
from training.recipes.few_shot import FewShotConfig
from training.recipes.finetuning import FinetuneConfig
from training.recipes.inference import Computing, EvaluateConfig
from training.recipes.methods import TwoStage
from training.recipes.scoring import Reporting
from training.recipes.suites import BenchmarkConfig
from training.report import ReportConfig
from training.reports.run_results import read_runs


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which every run's output lies."""
    folder = tmp_path / "anna" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def check(folder: Path, *places: Path) -> None:
    """No file's bytes, and no file's name, hold the full path of any of these places."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        for place in places:
            assert str(place).encode() not in path.read_bytes(), path


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_pre_training(work: Path, xlmr_folder: Path) -> None:
    config = small("tiny_clism", work / "run", steps=2, model=str(xlmr_folder))
    pretrain(config)
    check(work / "run", work.parent, xlmr_folder, Path(config.data[0]))
    shown = f"{xlmr_folder.parent.name}/{xlmr_folder.name}"
    assert read(work / "run" / "run.json")["recipe"]["model"] == shown
    about = read(work / "run" / "model" / "polyspan.json")["provenance"]
    assert about["base_model"] == about["recipe"]["model"] == shown
    assert f"began from {shown} and" in (work / "run" / "model" / "README.md").read_text("utf-8")


def test_two_stage_fine_tuning_evaluation_and_report(work: Path, xlmr_folder: Path) -> None:
    given = people_config(xlmr_folder, work)
    recipe = replace(given.recipe, steps=2, method=TwoStage(candidates=3))
    config = replace(given, recipe=recipe, output=str(work / "run"), evaluate_every=2)
    finetune(config)
    gold = squad(work / "gold.json", 3)
    asked: dict[str, Any] = {"reporting": Reporting(resamples=0), "computing": Computing("cpu")}
    evaluate(EvaluateConfig(str(work / "run"), "squad", (gold,), **asked))
    assert (
        read(work / "run" / "candidates" / "manifest.json")["config"]["baseline"] == "baseline/model"
    )  # relative to the run
    assert read(work / "run" / "results" / "squad" / "report.json")["model"]["model"] == "run"
    finetune(replace(config, output=str(work / "other")))  # not evaluated, which the page tells
    report.run(ReportConfig((work / "run", work / "other"), output=str(work / "page")))
    page = (work / "page" / "report.html").read_text("utf-8")
    assert "no results: polyspan-train evaluate other …" in page
    check(work, work.parent, xlmr_folder)
    assert read_runs([work / "run"])[0].state.startswith("finished")


def test_converted_records(work: Path) -> None:
    convert.run(ConvertConfig("squad", (squad(work / "train.json", 3),), work / "records", langs=("en",)))
    check(work / "records", work.parent)


def test_a_few_shot_series_that_goes_on(work: Path, xlmr_folder: Path) -> None:
    given = people_config(xlmr_folder, work)
    recipe = replace(given.recipe, model="", steps=1)
    config = FewShotConfig(
        recipe,
        train=given.train,
        train_langs=("en",),
        test=given.train,
        test_langs=("en",),
        models=(str(xlmr_folder), f"{work.parent}/absent/model"),
        sizes=(4,),
        resamples=1,
        output=str(work / "series"),
        device="cpu",
    )
    series, _ = few_shot.few_shot(config, finetune, evaluate)
    assert [len(series.scores), len(series.failed)] == [1, 1]
    check(work / "series", work.parent, xlmr_folder)
    written = read(work / "series" / "few_shot.json")
    shown = f"{xlmr_folder.parent.name}/{xlmr_folder.name}"
    assert [each["model"] for each in written["scores"]] == [shown]
    assert [each["model"] for each in written["failed"]] == ["absent/model"]
    assert "absent/model" in written["failed"][0]["error"]
    asked: list[FinetuneConfig] = []

    def refuse(config: FinetuneConfig) -> None:
        asked.append(config)
        raise ConfigError("not now")

    again, _ = few_shot.few_shot(config, refuse, evaluate)
    assert [each.recipe.model for each in asked] == [f"{work.parent}/absent/model"]  # what is done stays done
    assert again.scores == series.scores


def test_a_suite_in_which_a_model_is_absent(work: Path, xlmr_folder: Path) -> None:
    (work / "data").mkdir()
    squad(work / "data" / "train-v1.1.json", 4)
    squad(work / "data" / "xquad.en.json", 4)
    (work / "suite.toml").write_text('[[trainings]]\ntask = "squad"\ntests = [{ task = "xquad", langs = ["en"] }]')
    models = (str(xlmr_folder), f"{work.parent}/absent/model")
    config = BenchmarkConfig(str(work / "suite.toml"), work / "data", models, output=str(work / "suite"), device="cpu")
    config = replace(config, methods=("plain",), set=("steps=1", "batch_size=2"), resamples=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("training.checks.benchmark.check_model", lambda *_, **__: None)
        state, _ = benchmark.benchmark(config, finetune, evaluate_tasks)
    assert [len(state.done), len(state.failed)] == [1, 1]
    check(work / "suite", work.parent, xlmr_folder)


def test_a_run_goes_on_however_its_model_is_named(tmp_path: Path) -> None:
    run = {"recipe": {"name": "x", "model": "clism/model"}, "model": {"weights": "f00d"}}

    def named(model: str, weights: str = "f00d") -> dict[str, Any]:
        return {"recipe": {"name": "x", "model": model}, "model": {"weights": weights}}

    for older in (f"{tmp_path}/runs/clism/model", "runs/clism/model", "clism/model"):
        (tmp_path / "run.json").write_text(json.dumps(named(older)), encoding="utf-8")
        (tmp_path / "metrics.jsonl").write_text("{}\n", encoding="utf-8")  # a run that took no step hinders no other
        assert run_folder.begin(tmp_path, run) == []
        run_folder.refuse_another_recipe(tmp_path, {"name": "x", "model": f"{tmp_path}/runs/clism/model"})
        with pytest.raises(ConfigError, match=r"holds another run.*weights: f00d"):
            run_folder.begin(tmp_path, named("clism/model", "beef"))
        with pytest.raises(ConfigError, match=r"recipe\.model: "):
            run_folder.begin(tmp_path, named("mpmr/model"))
