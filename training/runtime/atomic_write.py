"""Writes files and folders that are complete or absent, also if the process is killed or the machine goes down.

An unfinished file is named `.NAME.0123456789abcdef….partial`, an unfinished folder `.NAME.new`, with a mark in it
(`schemas.runtime.output_folder`). From these names the next process knows what a killed one left, and deletes it.
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
    """Returns a unique path beside `path`, whose name shows that it is an unfinished file of ours."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def text(path: Path, content: str) -> None:
    """Writes a file in UTF-8. Replaces an existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Opens a new file in UTF-8, which replaces `path` at the end. On an error it is deleted, and `path` stays."""
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
    """Makes an empty folder, which replaces `path` at the end. On an error it is deleted, and `path` stays.

    Raises `ConfigError` if `path` holds files that `files_of` does not list.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path, files_of)
    check_output(path, files_of)
    new = begin_replacement(path, files_of)
    delete_files(new, [name for name in files_in(new) if name != NEW])  # left by a killed process
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
    """Renames `beside` to `final` once all of it has reached the disk, so that after a crash it is complete or absent.
    An existing `final` gets the name of `beside`."""
    flush_tree(beside)
    if final.exists():
        exchange(beside, final)
    else:
        beside.rename(final)
    flush(final.parent)


@contextmanager
def os_errors_of(path: Path) -> Iterator[None]:
    """Inside, an error of the operating system that names no file, also one from a library in Rust, becomes an
    `OSError` that names `path`."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else os_error_number(error)
        if number is None or getattr(error, "filename", None):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
