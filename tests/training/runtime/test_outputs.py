"""What every command does to a folder that holds the user's files, or somebody else's work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schemas.errors import ConfigError, InputError
from tests.training.people import people_config, squad
from tests.training.runs import DATA, finish, losses, small, start, weights
from tests.training.tuned import save_tuned
from training import cli
from training.finetune import finetune
from training.pretrain import pretrain
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig
from training.recipes.methods import Plain
from training.runtime import outputs
from training.runtime.errors import TrainingError

ROOT = Path(__file__).resolve().parents[3]
CLISM = str(DATA["tiny_clism"])
# Every name that a command gives to a file or folder, and those that it has while it works.
NAMES = {
    "run": [
        *("run.json", "metrics.jsonl", "dev.jsonl", "checkpoints", "tensorboard", "model", "best", "last", "results"),
        *("baseline", "candidates", ".model.new", ".polyspan-lock", ".polyspan-new"),
        *("model/weights.bin", "checkpoints/step-00000001/notes.txt", "tensorboard/mine.csv", "results/xquad/mine.txt"),
    ],
    "series": ["few_shot.json", "few_shot.csv", "few_shot.svg", "tiny", "tiny/4/sample-1/mine.txt"],
    "suite": [
        *("suite.json", "results.json", "results.md", "report.html", "submission", "submission/plain/mine.json"),
        *("plain_qa", "plain_qa/squad/seed-1/mine.txt"),
    ],
    "evaluation": ["report.json", "report.txt", "evaluation.json", "predictions", "predictions/mine.json"],
    "report": ["report.html", "report.json"],
    "dataset": ["manifest.json", "README.md", "data", "rejects", "data/part-00000-of-00001.arrow"],
}


class Command(NamedTuple):
    """A command line without its --output, and the kind of folder that it writes."""

    arguments: tuple[str, ...]
    kind: str
    has_overwrite: bool = True


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, xlmr_folder: Path) -> dict[str, Command]:
    """Of small inputs. Each ends with exit code 0 in a new folder."""
    folder = tmp_path_factory.mktemp("inputs")
    train, test = str(squad(folder / "train.en.json", 16)), str(squad(folder / "xquad.en.json", 4))
    model = str(save_tuned(folder / "tuned", xlmr_folder, Plain(), "qa"))
    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"recipe": {"name": "x", "steps": 1}, "data": {}}))
    tiny = ("--model", "tiny", "--steps", "2", "--batch-size", "2", "--max-tokens", "64", "--stride", "8")
    tiny += ("--max-query-tokens", "16", "--device", "cpu")
    pre = ("--data", CLISM, "--steps", "2", "--batch-size", "4", "--warmup-steps", "1", "--loader-workers", "0")
    few = ("--test", test, "--test-task", "xquad", "--sizes", "4", "--resamples", "1")
    tests = 'task = "squad"\ntrain = ["train.en.json"]\ntests = [{ task = "xquad", langs = ["en"] }]'
    options = "{ steps = 2, batch_size = 2, max_tokens = 64, stride = 8, max_query_tokens = 16 }"
    (folder / "suite.toml").write_text(f'[[methods]]\nrecipe = "plain_qa"\noptions = {options}\n[[trainings]]\n{tests}')
    suite = (str(folder / "suite.toml"), "--data", str(folder), "--model", "tiny", "--device", "cpu")
    return {
        "pretrain": Command(("pretrain", "tiny_clism", *pre, "--device", "cpu"), "run"),
        "finetune": Command(("finetune", "plain_qa", "--train", train, *tiny), "run"),
        "few-shot": Command(("few-shot", "plain_qa", "--train", train, *few, *tiny), "series"),
        "benchmark": Command(("benchmark", *suite), "suite"),
        "evaluate": Command(("evaluate", model, "--task", "xquad", "--gold", test), "evaluation", False),
        "convert": Command(("convert", "--task", "xquad", "--files", test), "dataset"),
        "report": Command(("report", str(run)), "report", False),
    }


def ended(*arguments: str) -> int:
    """The exit code."""
    try:
        cli.main(arguments)
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    return 0


def state(folder: Path) -> dict[str, Any]:
    """Every file's bytes and time of change, every folder and link."""
    return {
        path.relative_to(folder).as_posix(): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            path.lstat().st_mtime_ns if not path.is_dir() else None,
        )
        for path in folder.rglob("*")
    }


# --- foreign files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pretrain", "finetune", "few-shot", "benchmark", "evaluate", "convert", "report"])
def test_files_of_the_user_are_refused_by_name_and_left_alone_whatever_their_name(
    name: str, commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commands[name]
    for at, file in enumerate([*NAMES[command.kind], "thesis.txt", "folder/thesis.txt"]):
        for how in ("file", "folder", "link"):
            output = tmp_path / f"{at}-{how}"
            mine = output / file if how != "folder" else output / file / "deep" / "thesis.txt"
            mine.parent.mkdir(parents=True)
            if how == "link":
                mine.symlink_to(ROOT / "README.md")
            else:
                mine.write_text("mine")
            before = state(output)
            for more in ((), ("--overwrite",)) if command.has_overwrite else ((),):
                code = ended(*command.arguments, "--output", str(output), *more)
                err = capsys.readouterr().err
                # of a few_shot.json or suite.json that is none, its user may have meant another folder
                assert code == (1 if re.search("not what (few-shot|benchmark) writes", err) else 2), (file, how, more)
                assert mine.relative_to(output).as_posix() in err, err
                assert state(output) == before, (file, how, more)


def test_a_file_added_to_an_output_is_refused_by_every_command_and_stays(
    commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, command in commands.items():
        output = tmp_path / name
        line = (*command.arguments, "--output", str(output))
        assert ended(*line) == 0, capsys.readouterr().err
        assert not outputs.leftovers(output)
        below = {"run": "model/notes.txt", "series": "tiny/4/sample-1/notes.txt", "dataset": "data/notes.txt"}
        below["suite"] = "submission/plain_qa/seed-1/xquad/notes.txt"
        mine = output / below.get(command.kind, "notes.txt")
        mine.write_text("mine")
        before = state(output)
        for more in ((), ("--overwrite",)) if command.has_overwrite else ((),):
            capsys.readouterr()
            assert ended(*line, *more) == 2
            err = capsys.readouterr().err
            assert f"{mine.relative_to(output)}. Polyspan never overwrites or deletes what it did not write" in err
            assert state(output) == before
        mine.unlink()
        assert ended(*line) == 0
        assert not list(tmp_path.glob(".*")), name


def test_repeated_commands_print_that_their_outputs_are_complete_and_do_not_touch_them(
    commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pretrain", "finetune", "few-shot", "convert"):
        line = (*commands[name].arguments, "--output", str(tmp_path / name))
        assert ended(*line) == 0
        out, before = capsys.readouterr().out, state(tmp_path / name)
        assert ended(*line) == 0
        printed = capsys.readouterr()
        assert f"{tmp_path / name}: complete, nothing to do" in printed.out + printed.err
        assert name == "convert" or printed.out == out
        assert state(tmp_path / name) == before


@pytest.mark.parametrize(
    "name, option",
    [
        ("pretrain", "--data"),
        ("finetune", "--train"),
        ("few-shot", "--test"),
        ("evaluate", "--gold"),
        ("convert", "--files"),
    ],
)
def test_an_input_in_the_output_folder_is_refused_by_its_option(
    name: str, option: str, commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = list(commands[name].arguments)
    at = arguments.index(option) + 1
    inside = tmp_path / "out" / "deep" / Path(arguments[at]).name
    inside.parent.mkdir(parents=True)
    (shutil.copytree if Path(arguments[at]).is_dir() else shutil.copy)(arguments[at], inside)
    arguments[at] = str(inside)
    before = state(tmp_path)
    assert ended(*arguments, "--output", str(tmp_path / "out")) == 2
    assert f"{option} {inside} is inside the output folder {tmp_path / 'out'}" in capsys.readouterr().err
    assert state(tmp_path) == before


# --- a new run in the place of an old one -----------------------------------------------------------------------------


def test_an_old_run_stays_whole_until_the_new_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=4)
    pretrain(config)
    before = state(tmp_path / "run")
    other = replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=1e-2))
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(3))
        with pytest.raises(TrainingError, match="spoilt"):
            pretrain(other)
    assert state(tmp_path / "run") == before
    stderr = capsys.readouterr().err
    assert f"{tmp_path / 'run'} stays as it is until the new run, which is made in {tmp_path}/.run.new, is" in stderr
    assert outputs.is_run(tmp_path / ".run.new")
    pretrain(other)
    assert "Going on with tiny_clism" in capsys.readouterr().err  # where the new run was
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["learning_rate"] == 1e-2
    pretrain(replace(other, output=str(tmp_path / "straight"), overwrite=False))
    assert weights(tmp_path / "run") == weights(tmp_path / "straight")
    assert losses(tmp_path / "run") == losses(tmp_path / "straight")


def fail_after(step: int) -> Any:
    def check(row: Any, before: Any, recipe: Any, at: int, *_: Any) -> None:
        if at == step:
            raise TrainingError("spoilt")

    return check


def test_what_was_begun_beside_an_old_run_is_left_for_another_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=4)
    pretrain(config)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(3))
        with pytest.raises(TrainingError):
            pretrain(replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=0.5)))
    another = replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=0.25))
    pretrain(another)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["learning_rate"] == 0.25
    assert [row["step"] for row in losses(tmp_path / "run")] == [1, 2, 3, 4]


def test_a_two_stage_run_is_replaced_baseline_and_all(xlmr_folder: Path, tmp_path: Path) -> None:
    config = two_stage(xlmr_folder, tmp_path)
    finetune(config)
    before = json.loads((tmp_path / "run" / "candidates" / "manifest.json").read_text())["config"]
    assert before["baseline"] == "baseline/model"
    finetune(replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=1e-3)))
    after = json.loads((tmp_path / "run" / "candidates" / "manifest.json").read_text())["config"]
    assert after["baseline"] == "baseline/model" and after["baseline_sha256"] != before["baseline_sha256"]
    assert json.loads((tmp_path / "run" / "baseline" / "run.json").read_text())["recipe"]["learning_rate"] == 1e-3
    assert not list(tmp_path.glob(".run*"))


def test_another_run_is_refused_before_a_baseline_is_trained(xlmr_folder: Path, tmp_path: Path) -> None:
    config = two_stage(xlmr_folder, tmp_path)
    plain = replace(config.recipe, name="plain_qa", method=Plain())
    finetune(replace(config, recipe=plain))
    with pytest.raises(
        ConfigError, match=r"holds another run.*recipe\.name: plain_qa before, two_stage now"
    ) as refused:
        finetune(config)
    assert "recipe.model" not in str(refused.value)  # which run.json names without the machine's folders
    assert not (tmp_path / "run" / "baseline").exists()


def test_a_two_stage_run_goes_on_in_its_second_stage(
    xlmr_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = two_stage(xlmr_folder, tmp_path)
    config = replace(config, recipe=replace(config.recipe, steps=4))
    finetune(replace(config, output=str(tmp_path / "straight")))
    shutil.copytree(tmp_path / "straight" / "baseline", tmp_path / "run" / "baseline")
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(3))
        with pytest.raises(TrainingError):
            finetune(config)
    finetune(config)
    assert "Going on with two_stage" in capsys.readouterr().err
    assert weights(tmp_path / "run") == weights(tmp_path / "straight")


def two_stage(xlmr_folder: Path, tmp_path: Path) -> FinetuneConfig:
    given = people_config(xlmr_folder, tmp_path)
    recipe = replace(given.recipe, name="two_stage", method=FINETUNE_RECIPES["two_stage_hl"].method, steps=2)
    return replace(given, recipe=recipe, dev=(), dev_langs=())


def test_an_unfinished_run_is_begun_anew_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=4)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(3))
        with pytest.raises(TrainingError):
            pretrain(config)
    other = replace(config, recipe=replace(config.recipe, learning_rate=0.25))
    with pytest.raises(ConfigError, match=r"another run.*learning_rate"):
        pretrain(other)
    pretrain(replace(other, overwrite=True))
    assert [row["step"] for row in losses(tmp_path / "run")] == [1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_launch_that_failed_before_its_first_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=4)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.clip_gradients", raising(TrainingError("no memory")))
        with pytest.raises(TrainingError, match="no memory"):
            pretrain(config)
    assert not (tmp_path / "run").exists()


def raising(error: Exception) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_one_that_was_killed_before_its_first_step_hinders_no_other_command(tmp_path: Path) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=2)
    pretrain(config)
    about = (tmp_path / "run" / "run.json").read_text()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(about)
    pretrain(replace(config, recipe=replace(config.recipe, learning_rate=0.25)))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["learning_rate"] == 0.25


@pytest.mark.slow
def test_two_ranks_agree_on_the_folder_and_on_its_lock(tmp_path: Path) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=2)
    assert finish(start(config, ranks=2)) == [0, 0]
    other = replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=1e-2))
    with another_process_writes(tmp_path / "run"):
        before = state(tmp_path)
        assert 0 not in finish(start(other, ranks=2))
        assert state(tmp_path) == before
    assert finish(start(other, ranks=2)) == [0, 0]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["learning_rate"] == 1e-2
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and not outputs.leftovers(tmp_path / "run")


# --- repeating a finished command -------------------------------------------------------------------------------------


def test_a_finished_command_ends_before_torch_is_imported(commands: dict[str, Command], tmp_path: Path) -> None:
    for name in ("pretrain", "finetune", "few-shot"):
        line = [*commands[name].arguments, "--output", str(tmp_path / name)]
        assert ended(*line) == 0
        code = (
            "import sys, training.cli as cli\n"
            f"cli.main({line!r})\n"
            "print([name for name in ('torch', 'transformers') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and "complete, nothing to do" in done.stderr, done.stderr
        assert done.stdout.endswith("[]\n")


def test_a_complete_run_whose_model_was_damaged_is_not_said_to_be_complete(
    commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (*commands["finetune"].arguments, "--output", str(tmp_path / "run"))
    assert ended(*line) == 0
    path = tmp_path / "run" / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-64] + bytes(64))
    assert ended(*line) == 1
    assert f"{path}: missing, or not the file that was written" in capsys.readouterr().err


# --- damaged checkpoints ----------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_its_newest_sound_checkpoint_and_ends_as_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=10)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(7))
        with pytest.raises(TrainingError):
            pretrain(config)
    damaged = tmp_path / "run" / "checkpoints" / "step-00000006" / "model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2 :][:65_536] = bytes(65_536)
    damaged.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    capsys.readouterr()
    pretrain(config)
    stderr = capsys.readouterr().err
    assert "step-00000006 is damaged, and not gone on from: model.safetensors is not what was written" in stderr
    assert "3 steps are done" in stderr
    pretrain(replace(config, output=str(tmp_path / "straight")))
    assert losses(tmp_path / "run") == losses(tmp_path / "straight")
    assert weights(tmp_path / "run") == weights(tmp_path / "straight")


def test_a_run_without_a_sound_checkpoint_is_not_begun_anew_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("tiny_clism", tmp_path / "run", steps=10)
    with monkeypatch.context() as patch:
        patch.setattr("training.engine.loop.check_divergence", fail_after(4))
        with pytest.raises(TrainingError):
            pretrain(config)
    path = tmp_path / "run" / "checkpoints" / "step-00000003" / "state.json"
    path.write_text(json.dumps({"format_version": 2, "step": 3}))
    before = state(tmp_path / "run")
    with pytest.raises(InputError, match=r"no sound checkpoint.*state\.json is not what was written.*--overwrite"):
        pretrain(config)
    assert state(tmp_path / "run") == before


# --- one writer -------------------------------------------------------------------------------------------------------


@contextmanager
def another_process_writes(folder: Path) -> Iterator[int]:
    """Its number."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom schemas.runtime.output_folder import locked\n"
        f"with locked(Path({str(folder)!r})):\n    print('locked', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "locked\n"
        yield process.pid


@pytest.mark.parametrize("name", ["pretrain", "finetune", "few-shot", "evaluate", "convert", "report"])
def test_the_second_process_is_refused_and_writes_nothing(
    name: str, commands: dict[str, Command], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    with another_process_writes(output) as pid:
        before = state(output)
        assert ended(*commands[name].arguments, "--output", str(output)) == 2
        err = capsys.readouterr().err
        assert f"{output}: another process writes here: process {pid} on " in err and "Wait for it, stop it" in err
        assert state(output) == before
    assert ended(*commands[name].arguments, "--output", str(output)) == 0
    assert not outputs.leftovers(output)
