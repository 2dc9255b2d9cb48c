"""Mistakes in a command line are reported before torch is imported and before any file is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.runs import DATA
from training.cli import main

ROOT = Path(__file__).resolve().parents[2]
CLISM = str(DATA["tiny_clism"])
HERE = str(ROOT / "training/sample/questions.en.json")
TRAIN = ["--train", HERE, "--train-langs", "en"]

# Command, exit code, and what is said. `no` is a path that is not there.
WRONG = {
    "a data folder": (["pretrain", "clism", "--data", CLISM, "no", "--output", "x"], 2, "no: no such folder"),
    "a model to pre-train": (["pretrain", "clism", "--data", CLISM, "--output", "x", "--model", "./no"], 2, "./no: no"),
    "a training file": (["finetune", "plain_qa", "--train", HERE, "no", "--output", "x"], 2, "no: no such file or"),
    "a dev file": (["finetune", "plain_qa", *TRAIN, "--dev", "no", "--output", "x"], 2, "no: no such file or folder"),
    "a model": (["finetune", "plain_qa", *TRAIN, "--output", "x", "--model", "./no"], 2, "./no: no such folder"),
    "a baseline": (
        ["finetune", "two_stage", *TRAIN, "--output", "x", "--model", "tiny", "--baseline", "./no"],
        2,
        "./no: no such folder",
    ),
    "a method": (["finetune", "clism_qa", *TRAIN, "--task", "xnli", "--output", "x"], 2, "method que has nothing for"),
    "a limit": (["finetune", "plain_qa", *TRAIN, "--output", "x", "--max-query-tokens", "999"], 2, "leave no room"),
    "an option": (["finetune", "plain_qa", "--trian", HERE], 2, "--trian"),
    "a value": (["pretrain", "clism", "--steps", "many"], 2, "many"),
    "a gold file": (["evaluate", "./m", "--task", "xquad", "--gold", HERE, "no", "--output", "x"], 2, "no: no such"),
    "a label file": (
        ["evaluate", "./m", "--task", "xquad", "--gold", HERE, "--labels", "no", "--output", "x"],
        2,
        "no: no such file",
    ),
    "a model to evaluate": (["evaluate", "./no", "--task", "xquad", "--gold", HERE, "--output", "x"], 2, "./no: no"),
    "a model to ask": (["predict", "./no", "--input", HERE], 2, "./no: no such folder"),
    "an input": (["predict", "./no", "--input", "no"], 2, "no: no such file. Expected JSON lines"),
    "a test file": (
        ["few-shot", "clism_few_shot", *TRAIN, "--test", HERE, "no", "--models", "tiny", "--output", "x"],
        2,
        "no: no such file or folder",
    ),
    "one of the models": (
        ["few-shot", "clism_few_shot", *TRAIN, "--test", HERE, "--models", "tiny", "./no", "--output", "x"],
        2,
        "./no: no such folder",
    ),
    "files of a suite": (
        ["benchmark", "xtreme-qa", "--data", str(ROOT / "training/sample"), "--model", "tiny", "--output", "x"],
        2,
        "the training file of squad, expected as train-v1.1.json",
    ),
    "a model of a suite": (["benchmark", "xtreme-qa", "--output", "x"], 2, "no model: name the one"),
    "predictions": (["score", "--task", "xquad", "--gold", HERE, "--predictions", "no"], 2, "no: no such file"),
    "a file to convert": (["convert", "--task", "squad", "--files", HERE, "no", "--output", "x"], 2, "no: no such"),
    "a run": (["report", "no"], 2, "no: no such folder"),
}


@pytest.mark.parametrize("arguments, code, said", WRONG.values(), ids=WRONG)
def test_a_mistake_is_reported_and_nothing_is_written(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    assert ended.value.code == code and said in printed.err
    assert "Traceback" not in printed.err and not list(tmp_path.iterdir())


def test_nothing_of_all_that_imports_torch_or_reads_a_file() -> None:
    """In one process: what one command imports stays, and would be seen."""
    code = f"""
import sys
from training.cli import main
commands = {[[*arguments] for arguments, _, _ in WRONG.values()]!r} + [["--version"], ["predict", "--help"]]
opened = []
sys.addaudithook(lambda event, found: opened.append(str(found[0])) if event == "open" else None)
for arguments in commands:
    try:
        main(arguments)
    except SystemExit:
        pass
    for name in ("torch", "transformers", "matplotlib", "tensorboard"):
        assert name not in sys.modules, f"{{arguments}} imports {{name}}"
assert not [path for path in opened if path == {HERE!r}], "a file was read before all were looked for"
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("arguments, code", [(["predict", "x"], 2), (["--version"], 0)])
def test_without_its_libraries_the_command_says_what_to_install(arguments: list[str], code: int) -> None:
    start = f"import sys; sys.modules['tyro'] = None; sys.argv = ['', *{arguments!r}]; import training.cli"
    done = subprocess.run([sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    assert ("pip install 'polyspan[training]'" in done.stderr) == (code == 2), done.stderr


def test_a_model_that_was_not_fine_tuned_is_reported_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.models.files.load_weights", lambda *_: pytest.fail("the weights were read"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "xlm-roberta", "architectures": ["XLMRoberta"]}))
    (tmp_path / "model.safetensors").touch()
    for about, said in ((None, "no fine-tuned model. Expected polyspan.json or"), ({}, "pre-trained, but not fine")):
        if about is not None:
            (tmp_path / "polyspan.json").write_text(json.dumps(about))
        with pytest.raises(SystemExit) as ended:
            main(["predict", str(tmp_path), "--input", HERE])
        assert ended.value.code == 1 and said in capsys.readouterr().err


def test_a_torn_shard_is_reported_before_the_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    shutil.copytree(CLISM, tmp_path / "data")
    shard = next((tmp_path / "data/data").glob("*.arrow"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", "clism", "--data", str(tmp_path / "data"), "--output", "x", "--model", "./no"])
    assert ended.value.code == 1 and "it is truncated" in capsys.readouterr().err
