from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# The same examples on every run and machine; a busy machine is no failure.
settings.register_profile("polyspan", derandomize=True, deadline=None, database=None)
settings.load_profile("polyspan")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SHARED_DATA.is_dir():
        absent = pytest.mark.skip(reason=f"the real corpora are not at {SHARED_DATA}")
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(absent)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora, for tests that are marked `real_data`."""
    return SHARED_DATA
