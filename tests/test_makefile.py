"""What the README's commands say where the machine lacks something, before anything is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LACKS = {  # what an incomplete Python fails at → what is said, and the package that is named
    "ensurepip": ("cannot make virtual environments", "python3-venv"),
    "INCLUDEPY": ("has no headers (Python.h) to compile the word aligner with", "python3-dev"),
}


def set_up(folder: Path, lacking: list[str], compiler: str) -> subprocess.CompletedProcess[str]:
    """`make setup` with a Python that lacks these things."""
    python = folder / "python3"
    patterns = "|".join(f"*{name}*" for name in lacking) or "nothing"
    python.write_text(f'#!/bin/sh\ncase "$*" in {patterns}) exit 1;; esac\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return subprocess.run(
        ["make", "setup", f"PYTHON={python}", f"VENV={folder}/a b"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "CXX": compiler},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize("lacking", [["ensurepip"], ["INCLUDEPY"], ["ensurepip", "INCLUDEPY"], []])
def test_what_the_machine_lacks_is_named_before_anything_is_made(lacking: list[str], tmp_path: Path) -> None:
    done = set_up(tmp_path, lacking, "no-such-compiler -O2")
    assert done.returncode == 2 and not (tmp_path / "a b").exists()
    packages = [*(LACKS[name][1] for name in lacking), "g++"]
    assert f"on Debian, apt-get install {' '.join(packages)}\n" in done.stderr
    assert "there is no C++ compiler (no-such-compiler)" in done.stderr
    for name, (said, _) in LACKS.items():
        assert (said in done.stderr) == (name in lacking)


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_a_python_that_is_too_old_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n[ $1 = --version ] && echo Python 3.9.1\nexit 1\n")
    python.chmod(0o755)
    command = ["make", "setup", f"PYTHON={python}", f"VENV={tmp_path}/venv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "needs Python 3.10 to 3.13" in done.stderr and "'Python 3.9.1'" in done.stderr
    assert not (tmp_path / "venv").exists()
