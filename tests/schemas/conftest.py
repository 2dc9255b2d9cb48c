from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="session")
def golden() -> ModuleType:
    """The script that wrote the golden dataset: its examples, and `write(folder, rows, shards)`."""
    spec = importlib.util.spec_from_file_location("make_clism_1", GOLDEN / "make_clism_1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dataset(golden, tmp_path) -> Path:
    """A dataset folder that a test may damage."""
    folder = tmp_path / "clism-en-vi"
    golden.write(folder)
    return folder
