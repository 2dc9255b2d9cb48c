"""The examples in docstrings (`>>>`) of a package, run as tests."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def modules_with_examples(package: str) -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


def check_examples(module: str) -> None:
    """Raises `AssertionError` if an example of the module prints something else than its docstring says."""
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, f"{module}: {result.failed} of {result.attempted} examples failed, as printed above"
    assert result.attempted, f"{module}: no docstring holds its examples"
