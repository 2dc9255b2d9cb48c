"""Checks and opens the files that the commands write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pipelines.steps.common.paths import identity, is_remote
from schemas.errors import ConfigError
from schemas.runtime.new_file import replacing


def same_file(one: str, other: str) -> bool:
    """Returns whether two paths name one file, which need not exist."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return identity(one) == identity(other)


def check_output(option: str, path: str, overwrite: bool, inputs: Iterable[str] = ()) -> None:
    """Raises `ConfigError` if the file cannot be written, exists without `overwrite`, or is one of the inputs."""
    if same := [read for read in inputs if same_file(read, path)]:
        raise ConfigError(f"{option} {path}: the command reads {same[0]}, which is that file. Name another.")
    if is_remote(path):
        from apache_beam.io.filesystems import FileSystems

        exists = FileSystems.exists(path)
    else:
        exists, folder = os.path.exists(path), os.path.dirname(path) or "."
        if exists and not os.path.isdir(path) and not os.path.isfile(path):
            return  # a pipe, /dev/null: written to
        if os.path.isdir(path):
            raise ConfigError(f"{option} {path}: a folder, expected a file to write.")
        if not os.path.isdir(folder):
            raise ConfigError(f"{option} {path}: there is no folder {folder}. Make it with: mkdir -p {folder}")
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"{option} {path}: nothing can be written to the folder {folder}.")
    if exists and not overwrite:
        raise ConfigError(f"{option} {path}: the file is there already. Name another, or replace it with: --overwrite")


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Opens the standard output, or a file that appears under its name when it is complete."""
    if path == "-":
        yield sys.stdout.buffer
    elif is_remote(path):
        from pipelines.runtime.work_folder import (
            replace_file,  # Beam, which takes time and memory, where a path needs it
        )

        with replace_file(path) as stream:
            yield stream
    else:
        with replacing(path) as stream:
            yield stream
