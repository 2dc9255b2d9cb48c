"""What a job says on stderr. Apart from Beam, so that it is set up before Beam is imported."""

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

# Printed at the end, without the traceback that Beam logs.
_EXPECTED = re.compile(r"\b(ConfigError|InputError|OutputError|RunnerError)\b|Channel closed prematurely")
_NOT_FOR_PEOPLE = (
    "apitools not found",  # Beam says so at every start
    "Failed to read inputs in the data plane",  # these two after a worker has died
    "Error closing worker_handler",
)
KEPT_BLOCKS = 256  # of at most 4 KiB
_WORKER_RECORD = re.compile(r'Worker: severity: (\w+).*? message: "(.*?)" .*log_location: "(.*?):\d+"', re.DOTALL)


def log_for_people() -> None:
    """Our own lines as they are, the worker processes' too, and of Beam's what a user can act on."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("apache_beam").setLevel(logging.WARNING)
    logging.getLogger("apache_beam.runners.portability.local_job_service").setLevel(logging.INFO)  # forwards workers'
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
    """While the body runs, the stderr of processes that it starts, full of Beam's chatter, is read and its end kept.

    What they log reaches people all the same: Beam hands their records to this process. If the body raises what nobody
    expected, the end of what they wrote goes to a file that is named. Nothing is on disk before: a worker that cannot
    write to its stderr, because the disk is full, would hang the job.
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
    threading.excepthook = lambda found: kept.append(
        f"{found.exc_value!r}\n".encode()
    )  # Beam's, after a worker's death
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
            reader.join(timeout=2)  # until the last worker has ended
            with tempfile.NamedTemporaryFile(prefix="polyspan-workers-", suffix=".log", delete=False) as log:
                log.writelines(list(kept))
            print(f"The end of what the worker processes wrote themselves is in {log.name}", file=sys.stderr)


@contextlib.contextmanager
def progress(progress_line: Callable[[], str], every_s: float = 1.0) -> Iterator[None]:
    """While the body runs, says on stderr how far it is."""
    stopped = threading.Event()
    interactive = sys.stderr.isatty()

    def say() -> None:
        last, started, pause = "", time.monotonic(), every_s
        while not stopped.wait(pause):
            try:
                line = progress_line()
            except Exception:  # a listing that fails is no reason to stop the job
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
