"""Whatever dies at whatever moment: an output is the old one, the new one, or goes on to the same end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", ["pretrain", "finetune", "finetune --overwrite", "evaluate", "convert --overwrite"])
def test_killed_at_some_operations_it_ends_as_if_nothing_had_been(command: str, tmp_path: Path) -> None:
    assert killed(command, tmp_path, "--first", "3", "--step", "23") >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *("pretrain", "pretrain --overwrite", "finetune", "finetune --overwrite", "two_stage", "few-shot"),
        *("evaluate", "convert", "convert --overwrite"),
    ],
)
def test_killed_at_every_operation_it_ends_as_if_nothing_had_been(command: str, tmp_path: Path) -> None:
    assert killed(command, tmp_path) >= 20


def killed(command: str, folder: Path, *options: str) -> int:
    """How often. In a process of its own, whose children are forked from one that has not used torch."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kills_training", command, "--folder", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-6_000:]
    return int(done.stdout.splitlines()[-1].split("|")[2])
