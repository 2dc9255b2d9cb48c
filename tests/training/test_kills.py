"""Whatever dies at whatever moment: an output is the old one, the new one, or goes on to the same end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_killed_at_some_operations_commands_end_as_if_nothing_had_been(tmp_path: Path) -> None:
    commands = ("pretrain", "finetune --overwrite", "convert --overwrite")
    for kills in killed(tmp_path, *commands, "--first", "9", "--step", "79").values():
        assert kills >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *("pretrain", "pretrain --overwrite", "finetune", "finetune --overwrite", "two_stage", "few-shot"),
        *("evaluate", "convert", "convert --overwrite"),
    ],
)
def test_killed_at_every_operation_it_ends_as_if_nothing_had_been(command: str, tmp_path: Path) -> None:
    assert killed(tmp_path, command)[command] >= 20


def killed(folder: Path, *arguments: str) -> dict[str, int]:
    """Command → how often. In a process of its own, whose children are forked from one that has not used torch."""
    pytest.importorskip("benchmarks", reason="the benchmarks are part of a checkout only")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kills_training", *arguments, "--folder", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-6_000:]
    rows = [line.split("|") for line in done.stdout.splitlines()[2:]]
    return {row[1].strip(): int(row[2]) for row in rows}
