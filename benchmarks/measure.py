"""Measures what a program costs: CPU seconds, wall time, peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Cost(NamedTuple):
    cpu_s: float
    wall_s: float
    peak_mib: float  # of the largest process


class Failed(Exception):
    pass


# A process starts with the peak memory of the one that started it, so that one has to be small.
LAUNCHER = """
import os, resource, signal, subprocess, sys, time
started = time.monotonic()
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, start_new_session=True)
try:
    code = process.wait(float(sys.argv[1]))
except subprocess.TimeoutExpired:
    os.killpg(process.pid, signal.SIGKILL)
    sys.exit(f"took longer than {sys.argv[1]} s")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, time.monotonic() - started, used.ru_maxrss)
sys.exit(code)
"""


def run(command: Sequence[str], limit_s: float) -> Cost:
    """What a program and those that it started cost. `Failed` with the last line that it said, or past the limit."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    launch = [sys.executable, "-S", "-c", LAUNCHER, str(limit_s), *command]
    done = subprocess.run(launch, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    cpu_s, wall_s, peak_kib = map(float, done.stdout.split())
    return Cost(cpu_s, wall_s, peak_kib / 1024)
