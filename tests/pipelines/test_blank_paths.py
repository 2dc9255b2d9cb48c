"""An environment in a folder whose name has blanks and letters beyond ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.runtime.launch import interpreter_quoted

ROOT = Path(__file__).resolve().parents[2]


def test_a_path_that_is_one_word_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, seen in (("/a/bin/python", "/a/bin/python"), ("/a b/python", "'/a b/python'")):
        monkeypatch.setattr(sys, "executable", path)
        with interpreter_quoted():
            assert sys.executable == seen
        assert sys.executable == path


@pytest.mark.slow
def test_worker_processes_start_from_an_environment_in_such_a_folder(tmp_path: Path) -> None:
    environment = tmp_path / "a b é" / "venv"
    environment.parent.mkdir()
    environment.symlink_to(Path(sys.prefix))
    corpus = tmp_path / "two.tsv"
    corpus.write_text("en\tvi\n" + "Anna lives in Hanoi .\tAnna sống ở Hà Nội .\n" * 20, encoding="utf-8")
    command = ["clism", "--pair", "en-vi", "--bitext", str(corpus), "--output", "out", "--workers", "2"]
    done = subprocess.run(
        [environment / "bin/python", "-m", "pipelines.cli", *command, "--filters.no-drop-duplicates"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "out/manifest.json").is_file()
