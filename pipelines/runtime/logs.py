"""Sets up what a job prints on stderr. Imports no Beam, so that it works before Beam is imported."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

# The command prints these at its end, without the traceback that Beam logs.
_EXPECTED = re.compile(r"\b(ConfigError|InputError|OutputError|RunnerError)\b|Channel closed prematurely")
_NOT_FOR_PEOPLE = (
    "apitools not found",  # Beam logs it at every start
    "Failed to read inputs in the data plane",  # Beam logs these two when a worker has died
    "Error closing worker_handler",
)
KEPT_BLOCKS = 256  # of at most 4 KiB
_WORKER_RECORD = re.compile(r'Worker: severity: (\w+).*? message: "(.*?)" .*log_location: "(.*?):\d+"', re.DOTALL)


def log_for_people() -> None:
    """Logs our own messages, also those of worker processes, and those of Beam that a user can act on."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("apache_beam").setLevel(logging.WARNING)
    # Beam forwards the workers' messages through this logger.
    logging.getLogger("apache_beam.runners.portability.local_job_service").setLevel(logging.INFO)
    logging.getLogger().handlers[0].addFilter(_is_for_people)


def _is_for_people(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.name.startswith("pipelines"):
        return True
    if worker := _WORKER_RECORD.match(text):
        severity, message, file = worker.groups()
        record.msg, record.args = message, ()
        return "/pipelines/" in file or (severity == "ERROR" and not _EXPECTED.search(text))
    if text.startswith(_NOT_FOR_PEOPLE):
        return False
    raised = repr(record.exc_info[1]) if record.exc_info else text
    return record.levelno >= logging.WARNING and not _EXPECTED.search(raised)


@contextlib.contextmanager
def worker_output_kept() -> Iterator[None]:
    """Reads the stderr of processes that start while the body runs, and keeps its end in memory.

    It holds mostly Beam's messages; the workers' own log records reach this process through Beam. If the body raises an
    unexpected error, the end of their stderr is written to a file, whose name is printed. A pipe is used and no file,
    because a worker that cannot write to its stderr on a full disk would hang the job.
    """
    before, handlers = sys.stderr, logging.getLogger().handlers
    receiver, sender = os.pipe()
    kept: deque[bytes] = deque(maxlen=KEPT_BLOCKS)
    reader = threading.Thread(target=lambda: kept.extend(iter(lambda: os.read(receiver, 1 << 12), b"")), daemon=True)
    terminal = os.dup(2)
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1)
    redirected = [handler for handler in handlers if getattr(handler, "stream", None) is before]
    for handler in redirected:
        handler.setStream(sys.stderr)  # type: ignore[attr-defined]
    os.dup2(sender, 2)
    os.close(sender)
    reader.start()
    threading_hook = threading.excepthook
    threading.excepthook = lambda raised: kept.append(f"{raised.exc_value!r}\n".encode())  # Beam's, if a worker dies
    unexpected = False
    try:
        yield
    except Exception as error:
        unexpected = not _EXPECTED.search(type(error).__name__)
        raise
    finally:
        threading.excepthook = threading_hook
        os.dup2(terminal, 2)
        os.close(terminal)
        for handler in redirected:
            handler.setStream(before)  # type: ignore[attr-defined]
        sys.stderr.close()
        sys.stderr = before
        if unexpected:
            reader.join(timeout=2)  # the pipe closes when the last worker has ended
            with tempfile.NamedTemporaryFile(prefix="polyspan-workers-", suffix=".log", delete=False) as log:
                log.writelines(list(kept))
            print(f"The end of what the worker processes wrote themselves is in {log.name}", file=sys.stderr)


@contextlib.contextmanager
def progress(progress_line: Callable[[], str], every_s: float = 1.0) -> Iterator[None]:
    """Prints a line about the progress on stderr every `every_s` seconds while the body runs."""
    stopped = threading.Event()
    interactive = sys.stderr.isatty()

    def say() -> None:
        last, started, pause = "", time.monotonic(), every_s
        while not stopped.wait(pause):
            try:
                line = progress_line()
            except Exception:  # a failed listing must not stop the job
                continue
            if line != last or interactive:
                text = f"[{time.monotonic() - started:5.0f} s] {line}"
                print(f"\r\033[K{text}" if interactive else text, end="" if interactive else "\n", file=sys.stderr)
                sys.stderr.flush()
            last, pause = line, every_s if interactive else min(30.0, pause * 1.5)
        if interactive:
            print(file=sys.stderr)

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(timeout=10)
