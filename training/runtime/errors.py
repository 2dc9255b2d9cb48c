"""Errors of training. `schemas.DatasetError` is that of datasets."""

from __future__ import annotations

import os
import re

from schemas.errors import ConfigError, InputError, os_error_in_words


class TrainingError(RuntimeError):
    """Training cannot go on: the loss is not finite or diverges, or memory ran out. The message says what to change."""


class Terminated(KeyboardInterrupt):
    """SIGTERM outside of the training loop: ends a command as Ctrl-C does."""


def in_words(error: BaseException) -> str | None:
    """Describes an error of the operating system (full disk, missing permission …), also one from a library in Rust, in
    one sentence. Returns None for other errors."""
    if isinstance(error, OSError):
        return os_error_in_words(error)
    if isinstance(error, InputError | ConfigError) or (number := os_error_number(error)) is None:
        return None
    return os_error_in_words(OSError(number, os.strerror(number)))


def os_error_number(error: BaseException) -> int | None:
    """Returns the errno of an exception of a library in Rust (safetensors, tokenizers): its text has `(os error
    28)`."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None
