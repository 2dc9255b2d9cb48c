"""What the distribution holds, what may import what, and that one file pins every version."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "pipelines", "training")
LAZY_IN_INSPECTION = {"pandas", "matplotlib", "jinja2"}


def copy_tree(destination: Path) -> Path:
    for name in ("setup.py", "pyproject.toml", "constraints.txt", "MANIFEST.in", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, destination)
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, destination / name, ignore=shutil.ignore_patterns("__pycache__"))
    return destination


# --- the table of imports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module, line",
    [
        (None, None),
        ("schemas/spans.py", "import pipelines.steps.common.sentence_pairs"),
        ("pipelines/steps/common/sentence_pairs.py", "import torch"),
        ("pipelines/steps/common/sentence_pairs.py", "import training"),
        ("pipelines/steps/clism/masking.py", "import apache_beam"),
        ("pipelines/steps/clism/masking.py", "import pipelines.clism_transforms"),
        ("pipelines/aligner/words.py", "import pipelines.steps.common.files"),
        ("training/__init__.py", "import apache_beam"),
        ("training/__init__.py", "import pipelines.recipes"),
        ("training/runtime/errors.py", "import training.recipes.pretraining"),
        ("training/methods/base.py", "import training.engine.loop"),
    ],
)
def test_the_import_contracts_hold_and_would_notice(module: str | None, line: str | None, tmp_path: Path) -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    if not lint_imports.exists():
        pytest.skip("import-linter is not installed: make lint installs it")
    project = copy_tree(tmp_path)
    if module:
        path = project / module
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    done = subprocess.run([lint_imports, "--no-cache"], cwd=project, capture_output=True, text=True)
    assert re.search(r"Contracts: \d+ kept, \d+ broken", done.stdout), done.stdout + done.stderr
    assert (done.returncode == 0) == (module is None), done.stdout


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Yields the top-level name of each import in a file, and whether it is at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            yield name.partition(".")[0], node in tree.body


def test_schemas_import_the_standard_library_and_pyarrow_only() -> None:
    allowed = sys.stdlib_module_names | {"pyarrow", "schemas"}
    foreign = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "schemas").rglob("*.py"))
        for name, at_module_level in imported(path)
        if name not in allowed
        and not (path.parent.name == "inspection" and name in LAZY_IN_INSPECTION and not at_module_level)
    ]
    assert foreign == []


# --- the distribution -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds a folder with the sdist and the wheel of this checkout."""
    pytest.importorskip("setuptools", minversion="77")
    project = copy_tree(tmp_path_factory.mktemp("project"))
    build = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    return project / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> dict[str, bytes]:
    """Returns the contents of the wheel's files by name."""
    (path,) = dist.glob("polyspan-*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


NATIVE = "pipelines/aligner/native/"


def metadata(wheel: dict[str, bytes]) -> Message:
    (text,) = (content.decode() for name, content in wheel.items() if name.endswith(".dist-info/METADATA"))
    return message_from_string(text)


def test_wheel_holds_every_module_and_all_package_data_and_nothing_else(wheel: dict[str, bytes]) -> None:
    found = {name for name in wheel if ".dist-info/" not in name}
    compiled = {name for name in found if name.endswith((".so", ".pyd"))}
    assert [name.partition(".")[0] for name in compiled] == ["pipelines/aligner/_native"]
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".pyd")
    }
    assert found - compiled == {name for name in expected if not name.startswith(NATIVE)}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_of_users_read_the_annotations(package: str, wheel: dict[str, bytes]) -> None:
    assert f"{package}/py.typed" in wheel


def test_the_metadata_show_readme_licence_and_supported_pythons(wheel: dict[str, bytes]) -> None:
    found = metadata(wheel)
    assert found["Requires-Python"] == "<3.14,>=3.10"
    assert found["License-Expression"] == "Apache-2.0"
    assert found.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


def test_sdist_is_complete_and_has_no_tests(dist: Path, wheel: dict[str, bytes]) -> None:
    (path,) = dist.glob("polyspan-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in wheel if ".dist-info/" not in name and not name.endswith((".so", ".pyd"))} <= names
    assert {str(path.relative_to(ROOT)) for path in (ROOT / NATIVE).iterdir()} <= names
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    assert {"setup.py", "pyproject.toml", "constraints.txt", "LICENSE"} <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


def test_console_scripts_name_functions_that_exist(wheel: dict[str, bytes]) -> None:
    (text,) = (content.decode() for name, content in wheel.items() if name.endswith("/entry_points.txt"))
    scripts = dict(re.findall(r"^([\w-]+) = (\S+)$", text, re.MULTILINE))
    assert sorted(scripts) == ["polyspan-data", "polyspan-inspect", "polyspan-train"]
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


# --- the pins ---------------------------------------------------------------------------------------------------------


def pins() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_requirement_has_one_exact_pin_that_it_accepts(python: str, wheel: dict[str, bytes]) -> None:
    environment = {"python_version": python}
    pinned: dict[str, str] = {}
    for pin in pins():
        assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), f"{pin} is not exact"
        if pin.marker is None or pin.marker.evaluate(environment):
            assert canonicalize_name(pin.name) not in pinned, f"{pin.name} is pinned twice for Python {python}"
            pinned[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    required = [Requirement(value) for value in metadata(wheel).get_all("Requires-Dist", [])]
    required = [requirement for requirement in required if requirement.name != "polyspan"]  # extras made of extras
    assert "pyarrow" in {requirement.name for requirement in required}
    for requirement in required:
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} has no pin for Python {python}"
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"
