"""Signals end a command with one line, an exit code, its clean-up, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.runtime import interrupts

COMMAND = """
import subprocess, sys, time
from schemas.runtime.interrupts import cleaned_up, ended_by_signals
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with ended_by_signals("polyspan-data", "Repeat the command."), cleaned_up(lambda: print("cleaned", flush=True)):
    print(child.pid, flush=True)
    try:
        time.sleep(60)
    except BaseException:  # whatever a library catches
        pass
    time.sleep(60)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_process_and_its_children_with_one_line(number: int, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout
        child = int(command.stdout.readline())
        os.kill(command.pid, number)
        out, said = command.communicate(timeout=10)
    assert (command.returncode, out, said) == (code, "cleaned\n", "polyspan-data: Stopped. Repeat the command.\n")
    deadline = time.monotonic() + 10
    while is_running(child):
        assert time.monotonic() < deadline


def is_running(process: int) -> bool:
    """False for a process that has ended, also if nobody has waited for it yet."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().split()[2] != "Z"


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts.ended_by_signals("x", "y"):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_processes_of_others_are_not_among_those_that_this_one_started() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as mine:
        assert mine.pid in interrupts.descendants()
        assert {os.getpid(), os.getppid(), 1}.isdisjoint(interrupts.descendants())
        interrupts.kill([mine.pid])
    assert mine.returncode == -signal.SIGKILL
