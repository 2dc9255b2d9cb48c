"""Commands that the system refuses a write, or that a signal ends, print one line, and can be repeated."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from schemas.errors import InputError
from tests.training.people import squad
from tests.training.runs import DATA
from training import cli
from training.runtime import outputs
from training.runtime.errors import in_words

Mount = Callable[..., None]
STOPPED = "Stopped. Repeat the command: training and translation go on from what is finished, all else begins anew."


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts a file system on a folder, with the options of `mount`. Skips the test without the right to mount."""
    mounted: list[Path] = []

    def mount_on(folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        if folder not in mounted:
            mounted.append(folder)

    yield mount_on
    for folder in reversed(mounted):
        subprocess.run(["umount", "-l", str(folder)], check=True)


def pretraining(output: Path, *more: str) -> list[str]:
    sizes = ("--steps", "2", "--batch-size", "4", "--warmup-steps", "1", "--loader-workers", "0", "--device", "cpu")
    return ["pretrain", "tiny_clism", "--data", str(DATA["tiny_clism"]), *sizes, "--output", str(output), *more]


def fine_tuning(output: Path, folder: Path, command: str = "finetune") -> list[str]:
    sizes = ("--steps", "2", "--batch-size", "2", "--max-tokens", "64", "--stride", "8", "--max-query-tokens", "16")
    train = ("--train", str(squad(folder / "train.en.json", 8)), "--model", "tiny", "--device", "cpu")
    return [command, "plain_qa", *train, *sizes, "--output", str(output)]


def ended(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code, and the lines of stderr that are none of the training's."""
    capfd.readouterr()
    code = 0
    try:
        cli.main(arguments)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    stderr = capfd.readouterr().err.replace("\r", "\n").splitlines()
    return code, [
        line for line in stderr if line.startswith("polyspan-train:") or "Traceback" in line or "Error" in line
    ]


# --- a full disk, no permission ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, file", [("20k", "checkpoints/.step-00000002"), ("3m", "optimizer.safetensors"), ("8m", "run/model")]
)
def test_a_full_disk_is_reported_in_one_line_by_every_writer(
    size: str, file: str, tmp_path: Path, mount: Mount, capfd: pytest.CaptureFixture[str]
) -> None:
    mount(tmp_path / "disk", "-t", "tmpfs", "-o", f"size={size}", "none")
    code, stderr = ended(pretraining(tmp_path / "disk" / "run"), capfd)
    assert code == 1 and len(stderr) == 1 and file in stderr[0]
    assert stderr[0].endswith("No space left on device. Make room and repeat the command")
    mount(tmp_path / "disk", "-o", "remount,size=32m")
    assert ended(pretraining(tmp_path / "disk" / "run"), capfd) == (0, [])
    assert not outputs.leftovers(tmp_path / "disk" / "run")


def test_a_full_disk_is_reported_when_the_thread_of_tensorboard_meets_it(
    tmp_path: Path, mount: Mount, capfd: pytest.CaptureFixture[str]
) -> None:
    mount(tmp_path / "run" / "tensorboard", "-t", "tmpfs", "-o", "size=4k", "none")
    code, stderr = ended(pretraining(tmp_path / "run", "--steps", "40"), capfd)
    assert code == 1 and len(stderr) == 1
    assert stderr[0].startswith(f"polyspan-train: {tmp_path}/run/tensorboard: No space left on device.")


def test_a_full_disk_is_reported_by_every_other_command(
    tmp_path: Path, mount: Mount, capfd: pytest.CaptureFixture[str]
) -> None:
    mount(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4k", "none")
    gold = str(squad(tmp_path / "xquad.en.json", 16))
    (tmp_path / "disk" / "filler").write_bytes(bytes(4096))
    report = ["report", str(tmp_path / "runs"), "--output"]
    (tmp_path / "runs").mkdir()
    for name, arguments in (
        ("convert", ["convert", "--task", "xquad", "--files", gold, "--output"]),
        ("report", report),
        ("finetune", fine_tuning(tmp_path, tmp_path)[:-1]),
        ("few-shot", fine_tuning(tmp_path, tmp_path, "few-shot")[:-1]),
    ):
        more = ["--test", gold, "--test-task", "xquad", "--sizes", "4"] if name == "few-shot" else []
        code, stderr = ended([*arguments, str(tmp_path / "disk" / name), *more], capfd)
        assert code == 1 and len(stderr) == 1 and "No space left on device. Make room" in stderr[0], stderr


def test_a_limit_of_the_size_of_files_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    usual, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, most))
    try:
        code, stderr = ended(pretraining(tmp_path / "run"), capfd)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (usual, most))
    assert (
        code == 1 and len(stderr) == 1 and "model.safetensors: File too large. The system limits the size" in stderr[0]
    )
    assert ended(pretraining(tmp_path / "run"), capfd) == (0, [])


def test_a_folder_that_cannot_be_written_to_is_reported(
    tmp_path: Path, mount: Mount, capfd: pytest.CaptureFixture[str]
) -> None:
    mount(tmp_path / "disk", "-t", "tmpfs", "-o", "ro", "none")
    gold = str(squad(tmp_path / "xquad.en.json", 4))
    for arguments in (
        pretraining(tmp_path / "disk" / "run"),
        fine_tuning(tmp_path / "disk" / "run", tmp_path),
        ["convert", "--task", "xquad", "--files", gold, "--output", str(tmp_path / "disk" / "run")],
    ):
        code, stderr = ended(arguments, capfd)
        assert code == 1 and len(stderr) == 1
        assert stderr[0].startswith(f"polyspan-train: {tmp_path}/disk/run: Read-only file system.")


def test_a_file_as_a_part_of_the_output_s_path_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    code, stderr = ended(pretraining(tmp_path / "file" / "run"), capfd)
    assert (
        code == 1
        and len(stderr) == 1
        and f"{tmp_path}/file/run: Not a directory. A part of the path is a file" in stderr[0]
    )


def test_errors_of_libraries_in_rust_are_known_by_their_number(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    with pytest.raises(Exception) as raised:
        Tokenizer.from_file("/dev/null/tokenizer.json")
    assert (
        in_words(raised.value) == "Not a directory. A part of the path is a file: choose another folder with --output"
    )
    with pytest.raises(Exception) as raised:
        save_file({}, tmp_path / "absent" / "x.safetensors")
    assert in_words(raised.value) is None  # no such folder: a mistake of ours
    assert in_words(OSError(errno.ENOENT, "No such file")) is None
    assert in_words(InputError("a file (os error 28)")) is None


# --- signals ----------------------------------------------------------------------------------------------------------


def signalled(number: int) -> Callable[..., Any]:
    """Stands for what a run does when the signal comes, twice, as torchrun and terminals send it."""

    def stop(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), number)
        time.sleep(5)

    return stop


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_before_the_first_step_ends_with_one_line_and_leaves_nothing(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr("training.pretrain.batches_of", signalled(number))
    began = time.monotonic()
    assert ended(pretraining(tmp_path / "run"), capfd) == (code, [f"polyspan-train: {STOPPED}"])
    assert time.monotonic() - began < 4 and not (tmp_path / "run").exists()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_after_the_last_step_ends_with_one_line_and_the_next_run_ends_well(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("training.models.folder.model_card", signalled(number))
        assert ended(pretraining(tmp_path / "run"), capfd) == (code, [f"polyspan-train: {STOPPED}"])
    assert not outputs.is_complete(tmp_path / "run")
    assert ended(pretraining(tmp_path / "run"), capfd) == (0, [])
    assert outputs.is_complete(tmp_path / "run") and not outputs.leftovers(tmp_path / "run")


def test_other_ranks_than_the_first_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(cli, "execute", signalled(signal.SIGTERM))
    assert ended(["pretrain"], capfd) == (143, [])
