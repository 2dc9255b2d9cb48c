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


def run_in_child(
    function: Callable[[], Any], folder: Path, kill_at: int = 0, said: Path | None = None
) -> tuple[int, int]:
    """Runs `function` in a child that ends at its file operation number `kill_at` (from 1; 0: never) on `folder`.

    Returns the child's exit code, 1 after an exception, and how many such operations it began. Creating a file,
    renaming, deleting, locking and the exchange of two folders count, in the folder, below it and in its staging
    folder. What the child prints goes to the file `said`.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiver)
        os._exit(_run(function, folder, kill_at, sender, said))
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        operations = len(stream.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), operations


def _run(function: Callable[[], Any], folder: Path, kill_at: int, sender: int, said: Path | None) -> int:
    log = os.open(said or os.environ.get("KILL_POINTS_LOG", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    places = str(folder), str(folder.with_name(f".{folder.name}"))
    begun = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal begun
        if _is_operation(event, arguments, places):
            begun += 1
            os.write(sender, b".")
            if begun == kill_at:
                os._exit(KILLED)

    sys.addaudithook(hook)
    try:
        function()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def _is_operation(event: str, arguments: tuple[Any, ...], places: tuple[str, str]) -> bool:
    if event == "ctypes.dlsym":
        return "renameat2" in str(arguments)
    if event == "fcntl.flock":
        return True
    if event == "open":
        path, _, flags = arguments
        return bool(flags & (os.O_WRONLY | os.O_RDWR)) and _is_at(path, places)
    return event in _OPERATIONS and any(_is_at(path, places) for path in arguments)


def _is_at(path: object, places: tuple[str, str]) -> bool:
    return isinstance(path, str | bytes | os.PathLike) and os.path.abspath(os.fsdecode(path)).startswith(places)
