"""Files and folders that are whole or absent, whenever the process is killed or the machine goes down.

What is being written has a name that nobody else's file has: `.NAME.0123456789abcdef….partial` of a file, and of a
folder `.NAME.new` with a mark in it (`schemas.runtime.output_folder`). So the next process knows what a killed one
left, and deletes it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from schemas.runtime.output_folder import (
    NEW,
    FilesOf,
    begin_replacement,
    check_output,
    delete_files,
    exchange,
    files_in,
    finish_replacement,
    flush,
    flush_tree,
    recover,
)
from training.runtime.errors import os_error_number
from training.runtime.outputs import delete_all


def temporary(path: Path) -> Path:
    """A name beside `path` that is nobody else's, and is known as ours."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def text(path: Path, content: str) -> None:
    """Writes a file in UTF-8, in place of one that may be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A new file in UTF-8 that takes the place of `path` in the end. On an error it goes, and `path` stays."""
    beside = temporary(path)
    try:
        with beside.open("x", encoding="utf-8", newline="") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


@contextmanager
def folder(path: Path, files_of: FilesOf) -> Iterator[Path]:
    """An empty folder that takes the place of `path` in the end. On an error it goes, and `path` stays.

    Raises `ConfigError` if `path` holds files that are not of this kind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path, files_of)
    check_output(path, files_of)
    new = begin_replacement(path, files_of)
    delete_files(new, [name for name in files_in(new) if name != NEW])  # of a process that was killed here
    try:
        yield new
    except BaseException:
        with suppress(OSError):
            delete_all(new, files_of)
        raise
    if path.exists():
        finish_replacement(path, files_of)
    else:
        publish(new, path)
        (path / NEW).unlink()


def publish(beside: Path, final: Path) -> None:
    """Renames a folder once all of it has reached the disk: after a crash it is there whole, or not at all. One that
    has the name already has the other name then."""
    flush_tree(beside)
    if final.exists():
        exchange(beside, final)
    else:
        beside.rename(final)
    flush(final.parent)


@contextmanager
def os_errors_of(path: Path) -> Iterator[None]:
    """Inside, what libraries in Rust raise where the system refuses to write is an `OSError` about `path`, and so is an
    `OSError` that names no file."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else os_error_number(error)
        if number is None or getattr(error, "filename", None):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
