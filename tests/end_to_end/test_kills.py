"""Jobs and downloads that are killed: what is left, and what the repeated command makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("command, step", [("clism", 23), ("anchor-mrc", 23), ("overwrite", 29), ("fetch", 1)])
def test_killed_at_many_operations_it_ends_as_if_nothing_had_been(command: str, step: int) -> None:
    """In a process of its own, whose children are forked from one that has not used Beam."""
    pytest.importorskip("benchmarks", reason="the benchmarks are part of a checkout only")
    line = [sys.executable, "-m", "benchmarks.kills", command, "--every", str(step), "--random", "1"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-6_000:]
    _, row = done.stdout.splitlines()
    assert row.split()[0] == command and int(row.split()[1]) >= 3
