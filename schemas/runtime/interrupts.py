"""Ctrl-C and SIGTERM end a command within a second with one line, exit code 130 or 143, and no process left.

All outputs survive SIGKILL at any moment, so a command has nothing to finish. A separate thread waits for the signal,
because the main thread may be busy in native code or in a library that catches exceptions.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_cleanups: list[Callable[[], None]] = []


@contextmanager
def cleaned_up(cleanup: Callable[[], None]) -> Iterator[None]:
    """Inside the block, a signal runs `cleanup` before the process ends. It must be as quick as deleting a file."""
    _cleanups.append(cleanup)
    try:
        yield
    finally:
        _cleanups.remove(cleanup)


def end_at_once(command: str) -> None:
    """Makes SIGINT and SIGTERM end the process with one line. Used for the seconds in which a command is imported."""

    def end(number: int, _: object) -> None:
        os.write(2, f"{command}: Stopped. Repeat the command.\n".encode())
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


@contextmanager
def ended_by_signals(command: str, hint: str) -> Iterator[None]:
    """Inside the block, SIGINT and SIGTERM print `command: Stopped. hint` and end this process and its descendants.

    Does nothing outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    watcher = threading.Thread(target=_watch, args=(receiver, command, hint), daemon=True)
    wakeup_before = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    watcher.start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(sender)  # ends the watcher
        watcher.join(timeout=1)


def _watch(receiver: int, command: str, hint: str) -> None:
    while received := os.read(receiver, 1):
        if (number := received[0]) in (signal.SIGINT, signal.SIGTERM):
            _end(command, hint, 128 + number)
    os.close(receiver)


def _end(command: str, hint: str, code: int) -> None:
    logging.disable()
    stream, sys.stderr = sys.stderr, open(os.devnull, "w")  # noqa: SIM115  (hides other threads' tracebacks)
    kill(descendants())
    for cleanup in reversed(_cleanups):
        with suppress(Exception):
            cleanup()
    with suppress(Exception):
        end_of_progress = "\r\033[K" if stream.isatty() else ""
        print(f"{end_of_progress}{command}: Stopped. {hint}", file=stream, flush=True)
    os._exit(code)


def kill(processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def descendants() -> set[int]:
    """Returns the processes that this one has started, directly or not; on systems other than Linux none."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(status.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        started = children.get(waiting.pop(), [])
        found.update(started)
        waiting += started
    return found
