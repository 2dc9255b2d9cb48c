"""The errors that end a command in one sentence instead of a traceback."""

from __future__ import annotations

import errno
import os


class ConfigError(ValueError):
    """A configuration cannot work (exit code 2). Raised before any work starts; the message names the next command."""


class InputError(ValueError):
    """An input cannot be read (exit code 1). The message says what was expected, what was found and where."""


class DatasetError(ValueError):
    """A folder is not a dataset, or was altered. The message names the file and what to do."""


class NotFoundError(DatasetError):
    """A path is not a dataset, or a dataset does not have the requested name."""


class OutputError(ValueError):
    """An output cannot be written (exit code 1): the disk is full or read-only, or permission is missing."""


class RunnerError(RuntimeError):
    """A runner or one of its workers failed for reasons outside the configuration and the data (exit code 1)."""


_HINTS = {
    errno.ENOSPC: "Make room and repeat the command",
    errno.EDQUOT: "Make room within your quota and repeat the command",
    errno.EFBIG: "The system limits the size of files (ulimit -f): raise the limit and repeat the command",
    errno.ENOTDIR: "A part of the path is a file: choose another folder with --output",
    errno.EROFS: "The file system is read-only: choose another folder with --output",
    errno.EACCES: "Change the permissions, or choose another folder",
    errno.EPERM: "Change the permissions, or choose another folder",
}


def os_error_in_words(error: OSError) -> str | None:
    """Returns one sentence for an error that the user can fix, such as a full disk; None for any other error.

    >>> os_error_in_words(OSError(errno.ENOSPC, "No space left on device", "out/data/part-0"))
    'out/data/part-0: No space left on device. Make room and repeat the command'
    """
    if error.errno not in _HINTS:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{os.strerror(error.errno)}. {_HINTS[error.errno]}"
