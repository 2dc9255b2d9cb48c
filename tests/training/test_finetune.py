"""Whole runs of `polyspan-train finetune` on files of a few questions, with a small random model."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from schemas import manifest
from schemas.errors import ConfigError, InputError
from tests.training.people import PEOPLE, PLACES, people_config, squad
from training.engine.checkpoint import checkpoints
from training.engine.checkpoint_writer import CheckpointWriter
from training.evaluate import counted
from training.finetune import finetune
from training.inference.predictor import load_predictor, predict
from training.methods.que_tags import QueTags
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig
from training.recipes.methods import Que
from training.tasks.records import read_records


@pytest.fixture
def given(xlmr_folder: Path, tmp_path: Path) -> FinetuneConfig:
    return people_config(xlmr_folder, tmp_path)


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text("utf-8").splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_model_learns_and_its_best_weights_are_what_the_dev_file_says(given: FinetuneConfig, tmp_path: Path) -> None:
    config = replace(given, recipe=replace(given.recipe, steps=60), evaluate_every=20)
    finished = finetune(config)
    run = tmp_path / "run"
    assert finished.steps == 60 and finished.stopped_by is None
    dev = rows(run, "dev.jsonl")
    assert [row["step"] for row in dev] == [20, 40, 60]
    best = max(dev, key=lambda row: row["score"])
    assert best["score"] > 50
    records = read_records(config.dev, "squad", ["en"]).records
    predictor = load_predictor(run / "model", torch.device("cpu"))
    found = predict(predictor.model, predictor.formulation, records, predictor.device)
    exact = sum(each.spans[0].text == record.answer_texts[0] for each, record in zip(found, records, strict=True))  # type: ignore[union-attr]
    assert 100 * exact / len(records) == best["figures"]["dev.json"]["exact_match"]
    AutoModelForQuestionAnswering.from_pretrained(run / "model")
    assert not (run / "checkpoints").exists() and not (run / "best").exists()


def test_the_last_weights_stay_beside_the_best_if_they_are_others(
    given: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([30.0, 20.0, 10.0])
    monkeypatch.setattr("training.finetune.dev_scores", lambda *_: {"dev.json": {"f1": next(scores)}})
    finetune(given)
    run = tmp_path / "run"
    assert [row["best"] for row in rows(run, "dev.jsonl")] == [True, False, False]
    assert not same(run / "model", run / "last")
    only = replace(given, recipe=replace(given.recipe, steps=6), dev=(), dev_langs=(), output=str(tmp_path / "no dev"))
    finetune(only)
    assert same(tmp_path / "no dev" / "model", run / "last")
    assert not (tmp_path / "no dev" / "last").exists()


def test_patience_ends_a_run(given: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.finetune.dev_scores", lambda *_: {"dev.json": {"f1": 1.0}})
    finished = finetune(replace(given, patience=1))
    assert finished.steps == 4  # the second evaluation is no better than the first
    assert [row["step"] for row in rows(tmp_path / "run", "metrics.jsonl")] == [1, 2, 3, 4]
    again = finetune(replace(given, patience=1))  # nothing is left to do
    assert (again.steps, again.stopped_by) == (4, None)
    assert [row["step"] for row in rows(tmp_path / "run", "metrics.jsonl")] == [1, 2, 3, 4]


def test_a_run_whose_patience_had_ended_and_that_died_before_it_was_saved_keeps_its_last_weights(
    given: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.finetune.main_score", lambda figures: 1.0)  # nothing gets better after the first
    patient = replace(given, patience=1, output=str(tmp_path / "undisturbed"))
    finetune(patient)
    killed = replace(patient, output=str(tmp_path / "killed"))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("training.finetune.publish", lambda *_: 1 / 0)
        finetune(killed)
    finetune(killed)
    for weights in ("last/model.safetensors", "model/model.safetensors"):
        assert (tmp_path / "killed" / weights).read_bytes() == (tmp_path / "undisturbed" / weights).read_bytes()


def test_a_stopped_run_goes_on_to_the_same_weights(
    given: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finetune(given)
    stopped = replace(given, output=str(tmp_path / "stopped"))
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.stop_signal", stop_in_step(3))
        assert finetune(stopped).stopped_by == signal.SIGTERM
    kept = ["step-00000004"]  # the signal is seen with the figures of step 3, while step 4 runs
    assert [path.name for path in checkpoints(tmp_path / "stopped" / "checkpoints")] == kept
    assert finetune(stopped).steps == 6
    assert same(tmp_path / "run" / "model", tmp_path / "stopped" / "model")
    assert rows(tmp_path / "run", "dev.jsonl") == rows(tmp_path / "stopped", "dev.jsonl")


def stop_in_step(step: int) -> Any:
    """Stands for `stop_signal` when SIGTERM comes in that step."""
    from contextlib import contextmanager

    from training.engine.failures import Stop

    class Late(Stop):
        seen: list[int] = []  # noqa: RUF012

        @property
        def asked_for(self) -> bool:
            self.seen.append(1)
            return len(self.seen) >= step

        @property
        def number(self) -> int | None:
            return signal.SIGTERM

    @contextmanager
    def fake() -> Any:
        yield Late([])

    return fake


@pytest.mark.parametrize("tokens, expected", [(None, 1_024), (0, 0), (100, 100)])
def test_on_a_cpu_a_micro_batch_has_a_limit_that_run_json_names(
    tokens: int | None, expected: int, given: FinetuneConfig, tmp_path: Path
) -> None:
    finetune(replace(given, micro_batch_tokens=tokens, recipe=replace(given.recipe, steps=1), dev=(), dev_langs=()))
    assert json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["micro_batch_tokens"] == expected


def test_the_last_step_of_a_fine_tuning_has_no_checkpoint_and_a_death_there_costs_no_weights(
    given: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    real = CheckpointWriter.save
    monkeypatch.setattr(
        CheckpointWriter,
        "save",
        lambda self, step, *rest, **state: (written.append(step), real(self, step, *rest, **state)),
    )
    finetune(given)
    assert written == [2, 4]  # of 6 steps
    for name, fails in (("before", "publish"), ("after", "delete_checkpoints")):
        dying = replace(given, output=str(tmp_path / name))
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(f"training.finetune.{fails}", lambda *_: 1 / 0)
            finetune(dying)
        assert (tmp_path / name / "checkpoints").is_dir()
        written.clear()
        assert finetune(dying).steps == 6
        assert written == []  # it goes on from step 4, or has only checkpoints to delete
        assert same(tmp_path / "run" / "model", tmp_path / name / "model")
        assert not (tmp_path / name / "checkpoints").exists()


def test_few_examples_are_those_of_the_sample(given: FinetuneConfig, tmp_path: Path) -> None:
    config = replace(given, recipe=replace(given.recipe, examples=4, sample=2, steps=1), dev=(), dev_langs=())
    finetune(config)
    card = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert (card["recipe"]["examples"], card["recipe"]["sample"]) == (4, 2)
    other = replace(config, recipe=replace(config.recipe, sample=3), output=str(tmp_path / "other"))
    finetune(other)
    assert not same(tmp_path / "run" / "model", tmp_path / "other" / "model")


def test_two_stage_training_makes_its_baseline_and_candidates_once(given: FinetuneConfig, tmp_path: Path) -> None:
    recipe = replace(
        FINETUNE_RECIPES["two_stage"],
        **{
            name: getattr(given.recipe, name)
            for name in ("model", "max_tokens", "max_query_tokens", "stride", "batch_size", "steps", "learning_rate")
        },
    )
    recipe = replace(recipe, steps=12)  # so that the baseline finds an answer
    config, run = replace(given, recipe=recipe), tmp_path / "run"
    finetune(config)
    index = manifest.load(run / "candidates")
    assert index.schema == "candidates/1" and sum(shard.rows for shard in index.shards) == 16
    losses = rows(run, "metrics.jsonl")[0]
    assert losses["loss"] == pytest.approx(0.5 * losses["loss/hard"] + 0.5 * losses["loss/contrast"])
    made = (run / "candidates" / "manifest.json").stat().st_mtime_ns
    again = replace(config, baseline=str(run / "baseline"), output=str(tmp_path / "again"))  # a run's folder
    finetune(again)
    assert (run / "candidates" / "manifest.json").stat().st_mtime_ns == made
    assert same(run / "model", tmp_path / "again" / "model")
    finetune(replace(config, overwrite=True))  # begins anew, baseline and all
    assert same(run / "model", tmp_path / "again" / "model")


def test_entities_by_que_are_learnt_and_predicted(given: FinetuneConfig, tmp_path: Path) -> None:
    sentences = [f"{person}\tB-PER\nin\tO\n{place}\tB-LOC\n" for person, place in zip(PEOPLE, PLACES, strict=True)]
    gold = tmp_path / "train-en.tsv"
    gold.write_text("\n".join(sentences), "utf-8")
    recipe = FINETUNE_RECIPES["clism_ner_que"]
    recipe = replace(recipe, model=given.recipe.model, batch_size=8, learning_rate=1e-2, steps=60)
    run = tmp_path / "run"

    finetune(replace(given, recipe=recipe, train=(gold,), dev=(gold,), evaluate_every=30))

    best = max(row["score"] for row in rows(run, "dev.jsonl"))
    assert best > 80
    predictor = load_predictor(run / "model", torch.device("cpu"))
    assert isinstance(predictor.formulation, QueTags)
    records = read_records([gold], "wikiann", ["en"]).records
    found = predict(predictor.model, predictor.formulation, records, predictor.device)
    assert counted("wikiann", records, found)["en"].figures["f1"][0] == best


@pytest.fixture
def two_stage(given: FinetuneConfig) -> FinetuneConfig:
    of_given = ("model", "max_tokens", "max_query_tokens", "stride", "batch_size", "steps", "learning_rate")
    sizes = {name: getattr(given.recipe, name) for name in of_given}
    return replace(given, recipe=replace(FINETUNE_RECIPES["two_stage_hl"], **sizes), dev=(), dev_langs=())


def test_candidates_of_another_baseline_are_not_gone_on_with(two_stage: FinetuneConfig, tmp_path: Path) -> None:
    finetune(two_stage)
    other = replace(two_stage.recipe, name="other", method=FINETUNE_RECIPES["plain_qa"].method, steps=4)
    finetune(replace(two_stage, recipe=other, output=str(tmp_path / "other")))
    changed = replace(two_stage, baseline=str(tmp_path / "other" / "model"))
    with pytest.raises(ConfigError, match=r"made for another run \(baseline_sha256"):
        finetune(changed)
    finetune(replace(changed, overwrite=True))
    finetune(changed)  # which now is the folder's own run


def test_training_starts_from_the_folder_of_a_run_as_from_its_model(given: FinetuneConfig, tmp_path: Path) -> None:
    finetune(given)
    for name, model in (("of-run", tmp_path / "run"), ("of-model", tmp_path / "run" / "model")):
        finetune(replace(given, recipe=replace(given.recipe, model=str(model), steps=2), output=str(tmp_path / name)))
    assert same(tmp_path / "of-run" / "model", tmp_path / "of-model" / "model")


def test_a_run_is_not_overwritten_with_what_is_in_it(two_stage: FinetuneConfig, tmp_path: Path) -> None:
    finetune(two_stage)
    inside = tmp_path / "run" / "baseline" / "model"
    for change in ({"baseline": str(inside)}, {"recipe": replace(two_stage.recipe, model=str(inside))}):
        for overwrite in (True, False):
            with pytest.raises(ConfigError, match=r"run/baseline/model is inside the output folder"):
                finetune(replace(two_stage, overwrite=overwrite, **change))  # type: ignore[arg-type]
    assert inside.is_dir()


@pytest.mark.parametrize("change", [{"steps": 0, "epochs": 0.0}, {"max_tokens": 4_000}, {"examples": 17}])
def test_nothing_is_deleted_for_a_command_that_cannot_work(given: FinetuneConfig, change: dict[str, Any]) -> None:
    finetune(replace(given, recipe=replace(given.recipe, steps=1)))
    with pytest.raises(ConfigError):
        finetune(replace(given, overwrite=True, recipe=replace(given.recipe, **change)))
    assert (Path(given.output) / "model").is_dir()


def test_other_dev_files_are_another_run(given: FinetuneConfig, tmp_path: Path) -> None:
    finetune(replace(given, recipe=replace(given.recipe, steps=1)))
    squad(tmp_path / "dev.json", 7)
    with pytest.raises(ConfigError, match=r"selection\.files\.1 dev\.json.*--overwrite"):
        finetune(replace(given, recipe=replace(given.recipe, steps=1)))


def test_a_question_whose_answer_is_lost_is_left_out_and_told(
    given: FinetuneConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = replace(given.recipe, steps=1, max_tokens=128)  # a context is one sequence
    values = json.loads(squad(tmp_path / "train.json", 16).read_text("utf-8"))
    values["data"][0]["paragraphs"][3]["qas"][0]["answers"] = [{"text": "Nowhere", "answer_start": 5}]
    (tmp_path / "train.json").write_text(json.dumps(values), "utf-8")
    finetune(replace(given, recipe=short))
    told = capsys.readouterr().err
    assert "answers that are not where their file says, left out: 1\n" in told
    assert "--train: 16 records read = 16 examples + 0 refused\n" in told
    assert "--train: 16 labels found = 15 labels kept + 1 refused (answer_elsewhere 1)\n" in told
    assert "16 records as 15 sequences, " in told and "left out, as their answers were lost: 1 sequences" in told


@pytest.mark.parametrize(
    "change, message",
    [
        ({"train": ()}, "no data"),
        ({"output": ""}, "no output"),
        ({"dev": (), "patience": 2}, "--patience needs --dev"),
        ({"baseline": "somewhere"}, "--baseline is for methods with a first stage, such as two_stage"),
        ({"dev_task": "xnli"}, "another kind of task"),
        ({"recipe": {"max_tokens": 20}}, "leave no room"),
        (
            {"recipe": {"method": Que(), "task": "xnli"}},
            "method que has nothing for pairs. Methods for it: plain, unif",
        ),
        (
            {"recipe": {"task": "xnli"}},
            "recipe plain_qa is for qa, but --task xnli is pairs. Recipes for pairs: plain_pairs, mpmr_paws_x, mpmr_xn",
        ),
        ({"recipe": {"name": "mpmr_squad", "task": "conll"}}, "mpmr_squad is for qa, but --task conll is tagging"),
        ({"recipe": {"max_tokens": 4_000}}, "has positions for 512"),
        ({"recipe": {"task": "sqaud"}}, "Did you mean 'squad'"),
        ({"recipe": {"steps": 0, "epochs": 0.0}}, "nothing to do"),
        ({"recipe": {"examples": 17}}, r"1\.\.16"),
        ({"recipe": {"warmup_share": 1.5}}, "warmup-share"),
    ],
)
def test_what_cannot_work_is_said_before_training(given: FinetuneConfig, change: dict[str, Any], message: str) -> None:
    of_recipe = change.pop("recipe", {})
    with pytest.raises(ConfigError, match=message):
        finetune(replace(given, **change, recipe=replace(given.recipe, **of_recipe)))
    assert not given.output or not (Path(given.output) / "run.json").exists()


def test_another_run_in_the_folder_is_left_alone(given: FinetuneConfig) -> None:
    finetune(replace(given, recipe=replace(given.recipe, steps=1)))
    with pytest.raises(ConfigError, match=r"recipe\.learning_rate"):
        finetune(replace(given, recipe=replace(given.recipe, steps=1, learning_rate=1.0)))


def test_a_broken_file_is_named(given: FinetuneConfig, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"data": [\n{"paragraphs": 3}]}', "utf-8")
    with pytest.raises(InputError, match=r"broken\.json"):
        finetune(replace(given, train=(broken,)))


def test_unanswerable_questions_are_no_dev_file(given: FinetuneConfig) -> None:
    document = json.loads(given.dev[0].read_text("utf-8"))
    document["data"][0]["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
    given.dev[0].write_text(json.dumps(document), "utf-8")
    with pytest.raises(InputError, match="--dev: 1 of 8 questions are unanswerable, such as q0"):
        finetune(given)


def test_a_head_that_hugging_faces_model_brings_is_gone_on_with(
    given: FinetuneConfig,
    xlmr_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = AutoModelForQuestionAnswering.from_pretrained(xlmr_folder)
    theirs.save_pretrained(tmp_path / "theirs")
    AutoTokenizer.from_pretrained(xlmr_folder).save_pretrained(tmp_path / "theirs")
    finetune(replace(given, recipe=replace(given.recipe, steps=1), dev=(), dev_langs=(), output=str(tmp_path / "new")))
    assert "head qa: new" in capsys.readouterr().err
    still = replace(given.recipe, model=str(tmp_path / "theirs"), steps=1, learning_rate=0.0)
    caplog.clear()
    finetune(replace(given, recipe=still, dev=(), dev_langs=()))
    told = capsys.readouterr().err + caplog.text
    assert "head qa: of the starting model" in told
    assert "corrupted" not in told and "lm_head" not in told and "MLM head" not in told  # which nobody needs here
    ours = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "run" / "model")
    assert torch.equal(ours.qa_outputs.weight, theirs.qa_outputs.weight)
