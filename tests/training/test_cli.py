from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import is_dataclass
from inspect import signature
from pathlib import Path

import pytest

from tests.training.runs import DATA
from training.cli import COMMANDS, imported, main

ROOT = Path(__file__).resolve().parents[2]
CLISM, ANCHOR_MRC = (str(DATA[recipe]) for recipe in ("tiny_clism", "tiny_mpmr"))
FAST = ["--steps", "4", "--batch-size", "4", "--warmup-steps", "1", "--loader-workers", "0", "--device", "cpu"]


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Runs a command; returns exit code, stdout and stderr."""
    code = 0
    try:
        main(arguments)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- imports ----------------------------------------------------------------------------------------------------------


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys, training.cli as cli\n"
        "try: cli.main(['pretrain', 'clism', '--help'])\n"
        "except SystemExit as stopped: assert stopped.code == 0\n"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    shown = python(code)
    assert shown.endswith("[]\n") and "--cacr-temperature" in shown


def test_training_needs_neither_beam_nor_the_pipelines() -> None:
    code = (
        "import sys; sys.modules['apache_beam'] = sys.modules['pipelines'] = None\n"
        "import training.pretrain, training.cli"
    )
    assert python(code) == ""


def test_without_torch_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "training.pretrain", None)
    code, _, err = run("pretrain", "tiny_clism", "--data", CLISM, "--output", str(tmp_path / "run"), capsys=capsys)
    assert code == 2 and "is not installed: pip install 'polyspan[training]'" in err


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_names_can_be_imported(name: str) -> None:
    command = COMMANDS[name]
    assert is_dataclass(imported(command.config))
    for function in (command.run, *command.checks):
        assert len(signature(imported(function)).parameters) == 1


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, code", [(["--help"], 0), ([], 2), (["pretrain"], 2), (["pretrain", "--help"], 0)])
def test_usage(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    found, out, _ = run(*arguments, capsys=capsys)
    assert found == code
    assert "usage: polyspan-train" in out and ("mpmr_base" in out) == ("pretrain" in arguments)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["pretrian"], "There is no command 'pretrian'. Did you mean pretrain?"),
        (["pretrain", "tiny_mpm"], "There is no recipe 'tiny_mpm'. Did you mean tiny_mpmr?"),
        (["pretrain", "clism", "--learning-rat", "1"], "--learning-rate FLOAT"),
        (["pretrain", "mpmr_base", "--cacr-temperature", "1"], "--cacr-temperature"),
        (["pretrain", "clism", "--output", "x"], "no data: name the dataset folders with --data"),
        (["pretrain", "clism", "--data", CLISM], "no output: name the folder to write with --output"),
        (["pretrain", "mpmr_base", "--data", CLISM, "--output", "x"], "has schema clism/1, but recipe mpmr_base reads"),
        (["pretrain", "clism", "--data", CLISM, "--output", "x", "--steps", "9"], "1500 warm-up steps do not fit"),
        (
            ["pretrain", "tiny_clism", "--data", CLISM, "--output", "{here}"],
            "{here} holds no output of this command: thesis.txt",
        ),
    ],
)
def test_what_cannot_work_ends_with_2_and_a_hint(
    arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").touch()
    code, _, err = run(*(each.format(here=tmp_path) for each in arguments), capsys=capsys)
    assert code == 2 and expected.format(here=tmp_path) in err


def test_ctrl_c_says_what_repeating_does(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(name: str, arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.cli.execute", stopped)
    code, _, err = run("predict", "model", capsys=capsys)
    assert code == 130 and "training and translation go on from what is finished, all else begins anew" in err


def test_a_folder_that_is_no_dataset_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("pretrain", "clism", "--data", str(tmp_path / "absent"), "--output", str(tmp_path / "run"))
    code, _, err = run(*arguments, capsys=capsys)
    assert code == 2 and f"{tmp_path}/absent: no such folder" in err


def test_a_model_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.models.files.snapshot_download", _unreachable)
    arguments = ("--data", CLISM, "--output", str(tmp_path / "run"))
    for model, expected in ((str(tmp_path / "absent"), 2), ("absent/model", 1)):  # a path; a name on the hub
        code, _, err = run("pretrain", "clism", *arguments, "--model", model, capsys=capsys)
        assert code == expected and f"{model}: no such folder" in err
        assert not (tmp_path / "run").exists()


def test_texts_longer_than_the_model_has_positions_for_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = ("--max-target-tokens", "400", "--max-tokens", "600")
    arguments = ("--data", CLISM, "--output", str(tmp_path), *lengths, *FAST)
    code, _, err = run("pretrain", "tiny_clism", *arguments, capsys=capsys)
    assert code == 2 and "of 128 and 400 tokens make sequences of up to 532 with special tokens, but tiny has" in err
    assert "positions for 512. Expected at most --max-tokens 512" in err


@pytest.mark.parametrize(
    "recipe, data, lengths, expected",
    [
        ("tiny_clism", CLISM, "--max-target-tokens 257", "--max-target-tokens: expected at most the 256 tokens of"),
        ("tiny_clism", CLISM, "--max-source-tokens 0", "--max-source-tokens: expected 1 or more, found 0"),
        ("tiny_mpmr", ANCHOR_MRC, "--max-context-tokens 600", "found 600. Lower it or raise --max-tokens"),
        ("tiny_mpmr", ANCHOR_MRC, "--max-query-tokens 500", "queries of 500 tokens leave no room for a context in 512"),
        ("tiny_mpmr", ANCHOR_MRC, "--max-tokens 8", "--max-tokens: expected 16 or more, found 8"),
    ],
)
def test_texts_that_do_not_fit_into_a_sequence_are_refused(
    recipe: str, data: str, lengths: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "run")
    code, _, err = run("pretrain", recipe, "--data", data, "--output", output, *lengths.split(), capsys=capsys)
    assert code == 2 and expected in err and not (tmp_path / "run").exists()


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_from_data_to_a_model_that_hugging_face_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModel, AutoTokenizer

    output = str(tmp_path / "run")
    command = ("pretrain", "tiny_mpmr", "--data", ANCHOR_MRC, "--output", output, *FAST)
    code, out, err = run(*command, capsys=capsys)
    assert code == 0
    assert "Training with tiny_mpmr on the CPU: an encoder of 2 layers" in err and "step 4/4  loss " in err
    assert "Trained tiny_mpmr for 4 steps" in out and f"AutoModel.from_pretrained('{output}/model')" in out
    assert sorted(each.name for each in Path(output).iterdir()) == [
        "checkpoints", "metrics.jsonl", "model", "run.json", "shards.json", "tensorboard"
    ]  # fmt: skip
    text = AutoTokenizer.from_pretrained(f"{output}/model")("Anna lives in Hanoi.", return_tensors="pt")
    assert AutoModel.from_pretrained(f"{output}/model")(**text).last_hidden_state.isfinite().all()

    description = json.loads(Path(output, "run.json").read_text())
    assert description["recipe"]["steps"] == 4 and description["recipe"]["precision"] == "fp32"
    assert len(description["data"]["1"]) == 64 and description["versions"]["torch"]

    before = Path(output, "metrics.jsonl").read_bytes()
    code, again, _ = run(*command, capsys=capsys)  # it is done: nothing is trained, the same is said
    assert code == 0 and again == out and Path(output, "metrics.jsonl").read_bytes() == before

    code, _, err = run(*command, "--learning-rate", "0.5", capsys=capsys)
    assert code == 2
    assert "holds another run, which this command cannot go on with. recipe.learning_rate: 0.001 before, 0.5 now" in err
    code, _, err = run(*command[:3], CLISM, *command[4:], capsys=capsys)
    assert code == 2 and "has schema clism/1" in err

    code, _, _ = run(*command, "--learning-rate", "0.5", "--overwrite", capsys=capsys)
    assert code == 0 and json.loads(Path(output, "run.json").read_text())["recipe"]["learning_rate"] == 0.5


def test_other_data_under_the_same_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    from tests.training.data.made import clism_dataset

    data, output = str(tmp_path / "data"), str(tmp_path / "run")
    shutil.copytree(CLISM, data)
    command = ("pretrain", "tiny_clism", "--data", data, "--output", output, *FAST)
    assert run(*command, capsys=capsys)[0] == 0
    shutil.rmtree(data)
    clism_dataset(Path(data), {"vi": 5})
    code, _, err = run(*command, capsys=capsys)
    assert code == 2 and "data.1: " in err and "Repeat its own command" in err


def test_losses_of_weight_0_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("clism", "cacr", "mlm"):
        others = [f"--{each}-weight=0" for each in ("clism", "cacr", "mlm") if each != part]
        arguments = ("--data", CLISM, "--output", str(tmp_path / part), *FAST, *others)
        assert run("pretrain", "tiny_clism", *arguments, capsys=capsys)[0] == 0
        row = json.loads((tmp_path / part / "metrics.jsonl").read_text().splitlines()[0])
        assert [name for name in row if name.startswith("loss/")] == [f"loss/{part}"]
        assert row["loss"] == row[f"loss/{part}"] > 0


def _unreachable(*_: object, **__: object) -> None:
    raise ConnectionError


def test_score_judges_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = {"id": "a", "question": "Who?", "answers": [{"text": "Anna", "answer_start": 0}]}
    data = {"data": [{"title": "", "paragraphs": [{"context": "Anna sings.", "qas": [question]}]}]}
    (tmp_path / "xquad.en.json").write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "predictions.json").write_text('{"a": "anna"}', encoding="utf-8")
    files = ["--gold", f"{tmp_path}/xquad.en.json", "--predictions", f"{tmp_path}/predictions.json"]
    main(["score", "--task", "xquad", *files])
    said = capsys.readouterr().out
    assert "100.00" in said and "scorer:squad1.1" in said
