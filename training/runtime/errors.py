"""What can go wrong before and during training. For the shards' own see `schemas.manifest.DatasetError`."""

from __future__ import annotations

import os
import re

from schemas.errors import ConfigError, InputError, os_error_in_words


class TrainingError(RuntimeError):
    """Training that cannot go on: the loss left the numbers, or memory ran out. The message says what to change."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, where nothing else waits for it: ends a command as Ctrl-C does."""


def in_words(error: BaseException) -> str | None:
    """One sentence for a full disk, a missing permission and their like, whoever has met them; None for all else."""
    if isinstance(error, OSError):
        return os_error_in_words(error)
    if isinstance(error, InputError | ConfigError) or (number := os_error_number(error)) is None:
        return None
    return os_error_in_words(OSError(number, os.strerror(number)))


def os_error_number(error: BaseException) -> int | None:
    """Of an exception of a library in Rust (safetensors, tokenizers), whose text ends in `(os error 28)`."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None
