from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, GOLDEN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def golden() -> ModuleType:
    """The script that wrote the golden dataset of CLISM: its examples, and `write(folder, rows, shards)`."""
    return script("make_clism_1")


@pytest.fixture(scope="session")
def golden_anchors() -> ModuleType:
    """The script that wrote the golden dataset of anchor-MRC, which has the same functions."""
    return script("make_anchor_mrc_1")


@pytest.fixture(scope="session")
def golden_records() -> ModuleType:
    """The same for labelled records and candidates: `EXAMPLES[schema]()`, `write(folder, schema, rows, shards)`."""
    return script("make_records")


@pytest.fixture
def dataset(golden, tmp_path) -> Path:
    """A dataset folder that a test may damage."""
    folder = tmp_path / "clism-en-vi"
    golden.write(folder)
    return folder


@pytest.fixture
def anchors(golden_anchors, tmp_path) -> Path:
    """An anchor-MRC dataset folder that a test may damage."""
    folder = tmp_path / "wiki"
    golden_anchors.write(folder)
    return folder
