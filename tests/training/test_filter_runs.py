"""Whole runs of FILTER on a few records with their translations: teacher, soft labels, student, prediction."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas import manifest
from schemas.errors import ConfigError, InputError
from tests.training.mixup_records import TASKS, records, translations, words_of, written
from tests.training.test_finetune import same, stop_in_step
from tests.training.test_x_mixup_runs import dataset
from training import evaluate, predict
from training.finetune import finetune
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig
from training.recipes.inference import EvaluateConfig, PredictConfig
from training.recipes.scoring import Reporting

RECIPES = {"qa": "filter_qa", "tagging": "filter_tagging", "pairs": "filter_pairs"}
SIZES = {"max_tokens": 48, "max_query_tokens": 16, "stride": 8, "batch_size": 4, "learning_rate": 1e-3}


@pytest.fixture
def config(xlmr_folder: Path, tmp_path: Path) -> Any:
    def make(kind: str, output: str = "run", steps: int = 4, recipe: str = "", langs: int = 8) -> FinetuneConfig:
        folder = tmp_path / output
        folder.mkdir()
        chosen = FINETUNE_RECIPES[recipe or RECIPES[kind]]
        found = [each for each in translations(kind, langs, back=False) if each.target_lang == "xx"]
        return FinetuneConfig(
            replace(chosen, task=TASKS[kind], model=str(xlmr_folder), steps=steps, **SIZES),
            train=(dataset(folder / "records", kind, records(kind)),),
            translations=(written(folder / "translations", found),),
            output=str(folder / "run"),
            device="cpu",
        )

    return make


@pytest.mark.parametrize("kind", RECIPES)
def test_a_teacher_labels_the_translations_for_its_student(config: Any, kind: str) -> None:
    given = config(kind)
    finetune(given)
    run = Path(given.output)
    teacher, student = (json.loads((folder / "run.json").read_text("utf-8")) for folder in (run / "baseline", run))
    assert teacher["recipe"]["method"]["self_teaching"] == 0.0 < student["recipe"]["method"]["self_teaching"]
    assert teacher["data"] == student["data"] and any("translations" in name for name in student["data"])
    index = manifest.load(run / "soft_labels")
    assert index.schema == "soft_labels/1" and index.config["teacher"] == "baseline/model"
    last = json.loads((run / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
    losses = {"source", "teacher", *(["target"] if kind != "tagging" else [])}
    assert {name for name in last if name.startswith("loss/")} == {f"loss/{name}" for name in losses}


@pytest.mark.parametrize("stage", ["teacher", "student"])
def test_a_run_stopped_in_either_stage_goes_on_to_the_same_weights(
    config: Any, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = config("pairs", "whole"), config("pairs", "stopped")
    finetune(whole)
    if stage == "student":
        stopped = replace(stopped, baseline=str(Path(whole.output) / "baseline" / "model"))
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.stop_signal", stop_in_step(2))
        assert finetune(stopped).stopped_by == signal.SIGTERM
    assert (Path(stopped.output) / "soft_labels").exists() == (stage == "student")
    finetune(stopped)
    assert same(Path(whole.output) / "model", Path(stopped.output) / "model")


def test_a_repeated_command_has_nothing_to_do_and_other_translations_are_refused(config: Any, capsys: Any) -> None:
    given = config("pairs")
    finetune(given)
    finetune(given)
    assert "nothing to do" in capsys.readouterr().err
    other = config("pairs", "other", langs=4)
    with pytest.raises(ConfigError, match="another"):
        finetune(replace(given, translations=other.translations))


def test_a_teacher_of_another_method_is_refused(config: Any) -> None:
    plain = replace(config("pairs", "plain", recipe="plain_pairs"), translations=())
    finetune(plain)
    with pytest.raises(ConfigError, match="expected a teacher that reads translations, found a model of the method"):
        finetune(replace(config("pairs"), baseline=str(Path(plain.output) / "model")))


def test_a_teacher_with_other_limits_is_refused(config: Any) -> None:
    short = config("qa", "short")
    finetune(replace(short, recipe=replace(short.recipe, max_query_tokens=1)))
    with pytest.raises(InputError, match="the teacher labelled other sequences than the student's"):
        finetune(replace(config("qa"), baseline=str(Path(short.output) / "baseline" / "model")))


def test_translations_are_needed_by_the_methods_that_read_them_and_by_no_other(config: Any) -> None:
    given = config("qa")
    with pytest.raises(ConfigError, match="method filter trains on records beside their translations"):
        finetune(replace(given, translations=()))
    with pytest.raises(ConfigError, match=r"method plain of recipe plain_qa reads none. Methods that do: .*filter"):
        finetune(
            replace(given, recipe=replace(given.recipe, name="plain_qa", method=FINETUNE_RECIPES["plain_qa"].method))
        )
    with pytest.raises(ConfigError, match="has schema mrc/2, but translations have translations/1"):
        finetune(replace(given, translations=given.train))


def test_evaluation_and_prediction_read_translations(config: Any, tmp_path: Path) -> None:
    given = config("qa")
    finetune(given)
    run = Path(given.output)
    words = [word[::-1] for word in words_of(1)]
    question = {"query": words[0], "context": " ".join(words)}
    english = {"query": words_of(1)[0], "context": " ".join(words_of(1))}
    lines = [{**question, "id": 1}, {**question, "context": f"{question['context']}.", "translation": english}, english]
    asked = tmp_path / "lines.jsonl"
    asked.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {**english, "translation": 3}]), "utf-8")
    output = tmp_path / "answers.jsonl"
    assert predict.run(PredictConfig(str(run), input=str(asked), output=str(output))) == 1
    answers = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [set(answer) for answer in answers[:3]] == [{"id", "answers", "no_answer"}] * 3
    assert answers[0]["answers"][0]["score"] != answers[1]["answers"][0]["score"]
    assert answers[3]["error"] == "line 4: expected 'translation', an object with the texts; found a number"

    plain = replace(config("qa", "plain", recipe="plain_qa"), translations=())
    finetune(plain)
    asked.write_text(json.dumps({**question, "translation": english}) + "\n", "utf-8")
    assert predict.run(PredictConfig(plain.output, input=str(asked), output=str(output), overwrite=True)) == 1
    assert "the model's method reads none" in output.read_text("utf-8")
    gold = tmp_path / "dev-v1.1.json"
    answer = {"text": words[-1], "answer_start": question["context"].index(words[-1])}
    qa = {"id": "r1", "question": question["query"], "answers": [answer]}
    gold.write_text(json.dumps({"data": [{"paragraphs": [{"context": question["context"], "qas": [qa]}]}]}), "utf-8")
    config_of_plain = EvaluateConfig(plain.output, "squad", (gold,), translations=given.translations)
    with pytest.raises(ConfigError, match="--translations: a model of method plain reads none"):
        evaluate.run(config_of_plain)
    several = replace(config_of_plain, gold=(Path("xquad="), gold, Path("squad="), gold), task="")
    several = replace(
        several, translations=(Path("squad="), *given.translations), reporting=Reporting(langs=("xquad=", "en"))
    )
    with pytest.raises(ConfigError, match="--translations: a model of method plain reads none"):
        evaluate.run(several)
    assert not (Path(plain.output) / "results" / "xquad" / "predictions").exists()
