"""Files and folders that are whole or absent, whenever the process is killed or the machine goes down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def text(path: Path, content: str) -> None:
    """Writes a file in UTF-8, in place of one that may be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.unfinished")
    beside.write_text(content, encoding="utf-8", newline="")
    beside.replace(path)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `path` in the end. On an error it goes, and `path` stays."""
    beside, old = path.with_name(f".{path.name}.unfinished"), path.with_name(f".{path.name}.old")
    for left in (beside, old):  # by a run that was killed here
        shutil.rmtree(left, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if path.exists():
        path.rename(old)
    publish(beside, path)
    shutil.rmtree(old, ignore_errors=True)


def publish(beside: Path, final: Path) -> None:
    """Renames a folder once all of it has reached the disk: after a crash it is there whole, or not at all."""
    for path in (*beside.rglob("*"), beside):
        _flush(path)
    beside.rename(final)
    _flush(final.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
