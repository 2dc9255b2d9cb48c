"""Log lines about the time that the commands take."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

PROGRESS_S = 10.0  # seconds between two log lines

logger = logging.getLogger(__name__)


def log_since(started: float) -> Callable[[str], None]:
    """Returns a function that logs a line with the seconds since `started`."""
    return lambda line: logger.info("[%5.0f s] %s", seconds_since(started), line)


def seconds_since(started: float) -> float:
    return time.monotonic() - started


def rate(lines: int, seconds: float) -> str:
    return f"{lines:,} lines, {lines / max(seconds, 1e-3):,.0f} a second"
