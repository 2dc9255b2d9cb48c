"""Tests few-shot series with fake training and evaluation, and once with the real ones."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.errors import ConfigError, InputError
from training import few_shot
from training.checks.few_shot import check, check_inputs
from training.engine.run_setup import RunOutcome
from training.metrics.tables import text
from training.recipes.few_shot import FewShotConfig, Try, folder_names, models_of
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig
from training.recipes.inference import EvaluateConfig
from training.reports.few_shot_series import Series, table_of
from training.reports.plots import mean_sd
from training.runtime.errors import TrainingError


def questions(path: Path, count: int) -> Path:
    names = [f"Person{at}" for at in range(count)]
    paragraphs = [
        {
            "context": f"{name} lives in Hanoi near the old lake.",
            "qas": [{"id": name, "question": f"Who is {name}?", "answers": [{"text": name, "answer_start": 0}]}],
        }
        for name in names
    ]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> FewShotConfig:
    return FewShotConfig(
        FINETUNE_RECIPES["clism_few_shot"],
        train=(questions(tmp_path / "xquad.en.json", 20),),
        test=(questions(tmp_path / "xquad.zh.json", 4), questions(tmp_path / "xquad.de.json", 4)),
        test_task="xquad",
        models=("xlmr", "runs/clism/model"),
        sizes=(4, 8),
        resamples=3,
        output=str(tmp_path / "out"),
    )


def test_a_series_of_a_method_that_reads_translations_gives_them_to_its_runs(
    config: FewShotConfig, tmp_path: Path
) -> None:
    there = questions(tmp_path / "squad.translate.train.en-zh.json", 20)
    back = questions(tmp_path / "xquad.translate.test.zh-en.json", 4)
    given = replace(
        config,
        recipe=FINETUNE_RECIPES["translate_train_qa"],
        models=("xlmr",),
        translations=(there,),
        test_translations=(back,),
    )
    trainer = Trainer()
    series, _ = few_shot.few_shot(given, trainer.finetune, trainer.evaluate)
    assert {each.translations for each in trainer.trained} == {(there,)}
    assert {each.translations for each in trainer.evaluated} == {(back,)}
    assert not series.failed
    questions(back, 3)
    with pytest.raises(ConfigError, match="another"):
        few_shot.few_shot(replace(given, resamples=4), trainer.finetune, trainer.evaluate)
    with pytest.raises(ConfigError, match="method filter trains on records beside their translations"):
        check_inputs(replace(given, translations=()))


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Trainer:
    """Replaces finetune and evaluate: the score of a run is 10 × size + sample in German, 1 more in Chinese."""

    def __init__(self, fails: Callable[[FinetuneConfig], bool] = lambda config: False) -> None:
        self.trained: list[FinetuneConfig] = []
        self.evaluated: list[EvaluateConfig] = []
        self.fails = fails
        self.stops_at = 0

    def finetune(self, config: FinetuneConfig) -> RunOutcome:
        self.trained.append(config)
        if len(self.trained) == self.stops_at:
            return RunOutcome(3, signal.SIGTERM, True)
        if self.fails(config):
            raise TrainingError("the loss is no number")
        for name in ("model", "checkpoints", "tensorboard"):
            (Path(config.output) / name).mkdir(parents=True, exist_ok=True)
        about = {"format_version": 1, "recipe": {}, "versions": {}}
        (Path(config.output) / "run.json").write_text(json.dumps(about), encoding="utf-8")
        return RunOutcome(config.recipe.steps, None, True)

    def evaluate(self, config: EvaluateConfig) -> None:
        self.evaluated.append(config)
        recipe = self.trained[-1].recipe
        value = 10.0 * recipe.examples + recipe.sample

        def row(name: str, value: float) -> object:
            return {
                "name": name,
                "f1": {"value": value, "interval": None},
                "exact_match": {"value": 1, "interval": None},
            }

        report = {"rows": [row("zh", value + 1), row("de", value)], "averages": [row("avg", value + 0.5)], "model": {}}
        path = Path(config.model) / "results" / config.task / "report.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(report), encoding="utf-8")

    def series(self, config: FewShotConfig) -> Series:
        return few_shot.few_shot(config, self.finetune, self.evaluate)[0]


def test_every_model_is_trained_on_every_draw_of_every_size_and_evaluated(config: FewShotConfig) -> None:
    trainer = Trainer()
    series = trainer.series(config)
    recipes = [each.recipe for each in trainer.trained]
    assert [(each.model, each.examples, each.sample) for each in recipes] == [
        (model, size, sample) for model in ("xlmr", "runs/clism/model") for size in (4, 8) for sample in (1, 2, 3)
    ]
    same = {replace(each, model="", examples=0, sample=0) for each in recipes}
    assert same == {replace(config.recipe, model="", sample=0)}
    folders = [Path(each.output).relative_to(config.output).as_posix() for each in trainer.trained]
    assert folders[0] == "xlmr/4/sample-1" and folders[-1] == "clism/8/sample-3"
    assert [each.model for each in trainer.evaluated] == [each.output for each in trainer.trained]
    assert {(each.task, each.gold) for each in trainer.evaluated} == {("xquad", config.test)}
    assert series.scores[Try("xlmr", 8, 2)]["de"]["f1"] == 82.0


def test_the_table_has_means_and_deviations_by_size_and_model(config: FewShotConfig) -> None:
    table = table_of(config, Trainer().series(config))
    mean, deviation = mean_sd([41.0, 42.0, 43.0])
    assert list(table.header) == ["xquad, F1 / EM", "examples", "draws", "de", "zh", "avg"]
    assert [row[:3] for row in table.rows] == [[model, size, "3"] for size in ("4", "8") for model in ("xlmr", "clism")]
    assert table.rows[0][3] == f"{mean} ± {deviation} / 1.0 ± 0.0"
    assert "43.0 ± 1.0" in text(table)


def test_every_score_is_written_and_the_curves_are_drawn(config: FewShotConfig) -> None:
    Trainer().series(config)
    rows = list(csv.DictReader(io.StringIO((Path(config.output) / "few_shot.csv").read_text(encoding="utf-8"))))
    assert len(rows) == 12 * 3 * 2  # runs, rows, figures
    assert rows[0] == {"model": "xlmr", "size": "4", "sample": "1", "row": "zh", "figure": "f1", "percent": "42.0"}
    written = json.loads((Path(config.output) / "few_shot.json").read_text(encoding="utf-8"))
    assert written["recipe"]["method"]["name"] == "que"
    assert written["test_task"] == "xquad" and list(written["test"]) == ["1 xquad.zh.json", "2 xquad.de.json"]
    svg = (Path(config.output) / "few_shot.svg").read_text(encoding="utf-8")
    for word in ("xquad, avg: F1", "xquad, avg: EM", "clism", "training examples"):
        assert f">{word}</text>" in svg


def test_what_is_done_is_not_done_again_and_more_may_be_asked_for(config: FewShotConfig) -> None:
    Trainer().series(replace(config, resamples=2))
    again = Trainer()
    series = again.series(replace(config, sizes=(4, 8, 16)))
    assert [(each.recipe.examples, each.recipe.sample) for each in again.trained] == [
        *((4, 3), (8, 3), (16, 1), (16, 2), (16, 3)),
        *((4, 3), (8, 3), (16, 1), (16, 2), (16, 3)),
    ]
    assert len(series.scores) == 18


def test_a_stopped_series_goes_on_where_it_was(config: FewShotConfig) -> None:
    first = Trainer()
    first.stops_at = 5
    series, stopped_by = few_shot.few_shot(config, first.finetune, first.evaluate)
    assert (len(series.scores), stopped_by, len(first.trained)) == (4, signal.SIGTERM, 5)
    again = Trainer()
    assert len(again.series(config).scores) == 12
    assert again.trained[0] == first.trained[-1]
    assert len(again.trained) == 8


def test_a_run_that_fails_is_named_and_the_others_go_on(
    config: FewShotConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    series = Trainer(lambda each: (each.recipe.examples, each.recipe.sample) == (8, 2)).series(config)
    assert list(series.failed) == [Try("xlmr", 8, 2), Try("runs/clism/model", 8, 2)]
    assert len(series.scores) == 10
    assert "failed: xlmr, 8 examples, sample 2: the loss is no number" in capsys.readouterr().err
    row = table_of(config, series).rows[2]
    assert row[2:4] == ["2", "82.0 ± 1.4 / 1.0 ± 0.0"]  # of the draws that there are
    again = Trainer()
    assert not again.series(config).failed
    assert len(again.trained) == 2  # what failed is tried again


def test_the_command_prints_the_table_and_its_exit_code_tells_of_failures(
    config: FewShotConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from training import evaluate, finetune

    monkeypatch.setattr("training.checks.few_shot.check_model", lambda *_, **__: None)
    for fails, code in ((True, 1), (False, 0)):
        trainer = Trainer(lambda each, fails=fails: fails and each.recipe.sample == 1)  # type: ignore[misc]
        monkeypatch.setattr(finetune, "finetune", trainer.finetune)
        monkeypatch.setattr(evaluate, "evaluate", trainer.evaluate)
        assert few_shot.run(replace(config, format="markdown")) == code
        told = capsys.readouterr()
        assert "| xlmr | 4 |" in told.out
        assert ("failed: xlmr, 4 examples, sample 1" in told.err) == fails


def test_models_are_deleted_once_they_are_evaluated_unless_they_are_wanted(config: FewShotConfig) -> None:
    run = Path(config.output) / "xlmr/4/sample-1"
    Trainer().series(config)
    assert {path.name for path in run.iterdir()} == {"run.json", "results", "tensorboard"}
    Trainer().series(replace(config, output=config.output + "-kept", keep_models=True))
    kept = Path(config.output + "-kept") / "xlmr/4/sample-1"
    assert {path.name for path in kept.iterdir()} == {"run.json", "results", "tensorboard", "model", "checkpoints"}


def test_a_series_with_other_settings_or_files_is_refused(config: FewShotConfig, tmp_path: Path) -> None:
    Trainer().series(config)
    with pytest.raises(ConfigError, match="holds a series with another recipe"):
        Trainer().series(replace(config, recipe=replace(config.recipe, learning_rate=1.0)))
    questions(tmp_path / "xquad.zh.json", 5)
    with pytest.raises(ConfigError, match="holds a series with another test"):
        Trainer().series(config)
    anew = Trainer()
    anew.series(replace(config, overwrite=True))
    assert len(anew.trained) == 12
    (Path(config.output) / "few_shot.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="not what few-shot writes"):
        Trainer().series(config)


@pytest.mark.parametrize(
    "models, names",
    [
        (("xlm-roberta-base",), ["xlm-roberta-base"]),
        (("org/a", "other/a"), ["org-a", "other-a"]),
        (("runs/a/model", "runs/b/model", "/x/c d"), ["a", "b", "c-d"]),
        (("a/Model", "a/model-2", "b/model"), ["Model", "model-2", "b"]),
        (("A", "a"), ["A-1", "a-2"]),
        (("..", "."), ["model-1", "model-2"]),
    ],
)
def test_models_have_folders_of_their_own(config: FewShotConfig, models: tuple[str, ...], names: list[str]) -> None:
    assert list(folder_names(replace(config, models=models)).values()) == names


def test_without_models_the_recipes_is_trained(config: FewShotConfig) -> None:
    assert models_of(replace(config, models=())) == ("xlm-roberta-base",)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train": ()}, "--train"),
        ({"test": ()}, "--test"),
        ({"output": ""}, "--output"),
        ({"sizes": (8, 8)}, "--sizes"),
        ({"sizes": ()}, "--sizes"),
        ({"sizes": (4, 21)}, "21 examples of the 20"),
        ({"resamples": 0}, "--resamples"),
        ({"recipe": replace(FINETUNE_RECIPES["clism_few_shot"], examples=64)}, "few-shot takes --sizes"),
        ({"models": ("a", "a")}, "named twice"),
        ({"test_task": "xqad"}, "Did you mean 'xquad'"),
        ({"test_task": "xnli"}, "another kind of task"),
        ({"test": (Path("."),)}, "a folder"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_run(
    config: FewShotConfig, changes: dict[str, object], message: str
) -> None:
    trainer = Trainer()
    with pytest.raises(ConfigError, match=message):
        trainer.series(replace(config, **changes))  # type: ignore[arg-type]
    assert not trainer.trained


def test_a_recipe_that_cannot_work_is_refused_before_the_first_run(config: FewShotConfig) -> None:
    with pytest.raises(ConfigError, match="--batch-size"):
        few_shot.run(replace(config, recipe=replace(config.recipe, batch_size=0)))
    assert not Path(config.output).exists()


def test_an_old_series_stays_until_all_runs_of_the_new_one_are_done(
    config: FewShotConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    output, new = Path(config.output), Path(config.output).with_name(".out.new")
    Trainer().series(config)
    before = files(output)
    other = replace(config, recipe=replace(config.recipe, learning_rate=1.0), overwrite=True)
    Trainer(lambda each: each.recipe.sample == 2).series(other)
    assert files(output) == before
    assert f"{output} stays as it is, since runs failed. The new series is in {new}" in capsys.readouterr().err
    again = Trainer()
    again.series(other)
    assert len(again.trained) == 4 and {each.recipe.sample for each in again.trained} == {2}  # only what had failed
    assert json.loads((output / "few_shot.json").read_text("utf-8"))["recipe"]["learning_rate"] == 1.0
    assert not new.exists() and ".polyspan-new" not in files(output)


def test_a_complete_series_has_nothing_to_do(
    config: FewShotConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Trainer().series(config)
    before = files(Path(config.output))
    monkeypatch.setattr(few_shot, "few_shot", None)
    monkeypatch.setattr("training.checks.few_shot.check_model", lambda *_, **__: None)
    assert few_shot.run(config) == 0
    told = capsys.readouterr()
    assert f"{config.output}: complete, nothing to do" in told.err and "xquad, F1 / EM" in told.out
    assert files(Path(config.output)) == before


def test_one_process_does_it(config: FewShotConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="without torchrun"):
        check(config)


def test_a_real_series_trains_and_scores(config: FewShotConfig, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = replace(config.recipe, steps=2, batch_size=2, max_tokens=64, stride=8, max_query_tokens=16)
    real = replace(config, recipe=recipe, models=("tiny",), resamples=2, device="cpu")
    assert few_shot.run(real) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in told[1:3]] == [["tiny", "4", "2"], ["tiny", "8", "2"]]
    before = (Path(config.output) / "few_shot.json").read_bytes()
    assert few_shot.run(replace(real, output=config.output + "-again")) == 0
    assert (Path(config.output + "-again") / "few_shot.json").read_bytes() == before
