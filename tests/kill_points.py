"""Ends a process at its n-th file operation, as SIGKILL would: nothing is flushed, no handler or `finally` runs.

The functions run in forked children of a process that has imported everything, so that a hundred kills take minutes.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

KILLED = 137
_OPERATIONS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "fcntl.flock")


def run_in_child(function: Callable[[], Any], folder: Path, kill_at: int = 0) -> tuple[int, int]:
    """Runs `function` in a child that ends at its file operation number `kill_at` (from 1; 0: never) below `folder`.

    Returns the child's exit code, 1 after an exception, and how many such operations it began. Creating a file,
    renaming, deleting, and the exchange of two folders count; reading does not.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiver)
        os._exit(_run(function, str(folder), kill_at, sender))
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        operations = len(stream.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), operations


def _run(function: Callable[[], Any], folder: str, kill_at: int, sender: int) -> int:
    devnull = os.open(os.devnull, os.O_WRONLY)
    log = os.open(os.environ.get("KILL_POINTS_LOG", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(devnull, 1)
    os.dup2(log, 2)
    begun = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal begun
        if _is_operation(event, arguments, folder):
            begun += 1
            os.write(sender, b".")
            if begun == kill_at:
                os._exit(KILLED)

    sys.addaudithook(hook)
    try:
        function()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _is_operation(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    if event == "ctypes.dlsym":
        return "renameat2" in str(arguments)
    if event == "fcntl.flock":
        return True
    if event == "open":
        path, _, flags = arguments
        return bool(flags & (os.O_WRONLY | os.O_RDWR)) and _is_below(path, folder)
    return event in _OPERATIONS and any(_is_below(path, folder) for path in arguments)


def _is_below(path: object, folder: str) -> bool:
    return isinstance(path, str | bytes | os.PathLike) and os.path.abspath(os.fsdecode(path)).startswith(folder)
