"""Identifies the running code: the version of Polyspan and, in a checkout, the commit."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def polyspan_version() -> str:
    """Returns the version of the installed package; "unknown" in a checkout that is not installed."""
    try:
        return version("polyspan")
    except PackageNotFoundError:
        return "unknown"


def commit() -> str | None:
    """Returns the commit of the checkout that this code runs from; None without a checkout, a commit or git."""
    checkout = Path(__file__).resolve().parents[1]
    command = ["git", "-C", str(checkout), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        printed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    top, _, head = os.fsdecode(printed).strip().rpartition("\n")
    return head if Path(top) == checkout else None


def version_line(program: str) -> str:
    """Returns `polyspan-data 0.1.0`, followed by ` (commit 5f0c…)` in a checkout."""
    found = commit()
    return f"{program} {polyspan_version()}" + (f" (commit {found})" if found else "")
