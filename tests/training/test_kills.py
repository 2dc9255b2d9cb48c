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
    "command, step",
    [
        *(
            ("pretrain", 11),
            ("pretrain in background", 11),
            ("pretrain --overwrite", 11),
            ("finetune", 11),
            ("finetune --overwrite", 17),
        ),
        *(
            ("two_stage", 17),
            ("few-shot", 23),
            ("benchmark", 31),
            ("evaluate", 7),
            ("convert", 5),
            ("convert --overwrite", 5),
        ),
    ],
)
def test_killed_at_many_operations_it_ends_as_if_nothing_had_been(command: str, step: int, tmp_path: Path) -> None:
    assert killed(tmp_path, command, "--step", str(step))[command] >= 3


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
