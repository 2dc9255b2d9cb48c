"""The documentation agrees with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}
EXIT_CODES = {"0", "1", "2", "130", "143"}


def error_rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() != "command" and "---" not in row[0]]


def test_every_error_of_the_table_is_held_by_a_test() -> None:
    rows = error_rows()
    assert len(rows) > 40
    assert [row for row in rows if len(row) != 5] == []
    assert [row for row in rows if not set(re.findall(r"test_\w+", row[4])) or not row[4].startswith("`test_")] == []
    named = {name for row in rows for name in re.findall(r"test_\w+", row[4])}
    assert named - TESTS == set()


def test_every_error_of_the_table_has_an_exit_code_of_the_commands() -> None:
    assert {code for row in error_rows() for code in row[3].split(", ")} <= EXIT_CODES


# --- what is cited is in the repository -------------------------------------------------------------------------------

DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
SOURCES = [
    path
    for folder in ("schemas", "pipelines", "training", "tests", "benchmarks")
    for suffix in ("*.py", "*.pyi", "*.cpp", "*.hpp")
    for path in sorted((ROOT / folder).rglob(suffix))
]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def cited(pattern: str) -> dict[tuple[str, ...], str]:
    """Groups of the pattern → a file that has them, over all sources and documents. A line break is read as a blank."""
    return {
        match.groups(): str(path.relative_to(ROOT))
        for path in [*SOURCES, *DOCUMENTS]
        if path != Path(__file__)
        for match in re.finditer(pattern, re.sub(r"\s+", " ", text_of(path)))
    }


def reference_rows() -> list[tuple[str, str]]:
    rows = [line.split("|")[1:3] for line in text_of(ROOT / "docs/references.md").splitlines() if line.startswith("| ")]
    return [(name.strip(), source.strip()) for name, source in rows]


def test_every_decision_that_is_cited_is_written_down() -> None:
    written = set(re.findall(r"^(\d+)\. ", text_of(ROOT / "docs/decisions.md"), re.MULTILINE))
    named = {
        (number, path)
        for (numbers,), path in cited(r"[Dd]ecisions? (\d+(?:(?:, | and )\d+)*)").items()
        for number in re.findall(r"\d+", numbers)
    }
    assert len(named) > 10
    assert sorted((number, path) for number, path in named if number not in written) == []


def test_every_paper_that_is_cited_by_author_and_year_is_a_reference() -> None:
    found = cited(r"\b([A-Z]\w+)(?: et al\.|(?:, [A-Z]\w+)* and [A-Z]\w+) \(?((?:19|20)\d\d)\b")
    assert len(found) > 15
    rows = [" ".join(row) for row in reference_rows()]
    assert {key: path for key, path in found.items() if not any(all(part in row for part in key) for row in rows)} == {}


def test_every_paper_that_is_cited_by_name_and_section_is_a_reference() -> None:
    found = cited(r"\((\w*[A-Z]-?\w*[A-Z]\w*|two-stage), (?:\d\.\d|[A-Z]\.\d|appendix|equation|footnote|section|table)")
    assert {"CLISM", "mPMR", "two-stage"} <= {name for (name,) in found}
    names = {name for name, _ in reference_rows()}
    assert {key: path for key, path in found.items() if key[0] not in names} == {}


# --- what is named exists ---------------------------------------------------------------------------------------------


def names_of(document: Path) -> list[Path]:
    """The files and folders that a document links to or names in backquotes, without placeholders such as NAME.py."""
    text = text_of(document)
    links = [document.parent / name for name in re.findall(r"\]\(([^)#:]+)\)", text)]
    folders = r"schemas|pipelines|training|benchmarks|docs|tests|\.ci"
    return links + [ROOT / name for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", text) if "NAME" not in name]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name_exist(document: Path) -> None:
    assert [str(path) for path in names_of(document) if not path.exists()] == []


def tree_of(document: Path) -> list[Path]:
    """The paths of the drawing under "The tree": the words before two blanks, indented under their folder."""
    block = re.search(r"## The tree\n.*?```\n(.*?)```", text_of(document), re.DOTALL)
    assert block, f"{document} draws no tree"
    paths, folders = [], [ROOT]
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r"\s{2,}", line.strip())[0].split()
        paths += [folders[depth] / name for name in names]
        folders[depth + 1 :] = [folders[depth] / names[0]]
    return paths


def test_the_trees_are_those_of_the_repository() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        paths = tree_of(document)
        assert len(paths) > 10
        assert [str(path) for path in paths if not path.exists()] == []


def test_every_benchmark_is_in_the_readme_of_benchmarks_and_every_name_there_is_one() -> None:
    scripts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "benchmarks").rglob("*.py")
        if '__name__ == "__main__"' in text_of(path)
    }
    assert len(scripts) > 20
    readme = text_of(ROOT / "benchmarks/README.md")
    named = set(re.findall(r"python -m (benchmarks\.[\w.]+)", readme))
    named |= {f"benchmarks.{name}" for name in re.findall(r"\bbenchmarks/(\w+)\.py", readme)}
    assert named == scripts
    others = {name for path in DOCUMENTS for name in re.findall(r"python -m (benchmarks\.[\w.]*\w)", text_of(path))}
    assert others - scripts == set()


def test_every_make_target_that_documents_name_exists_and_make_help_tells_of_all() -> None:
    makefile = text_of(ROOT / "Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    targets = set(phony[1].split())
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text_of(path), re.MULTILINE)
    }
    assert {"demo", "test", "lint"} <= named
    assert named - targets == set()
    usage = makefile[makefile.index("\nhelp:") : makefile.index("\nsetup:")] + text_of(ROOT / "CONTRIBUTING.md")
    assert {name for name in targets - {"help"} if not re.search(rf"\b(?:make )?{name}\b", usage)} == set()


# --- commands and reasons ---------------------------------------------------------------------------------------------


def commands_of(module: str) -> set[str]:
    """Returns the commands of a command line: the keys of its table `COMMANDS`, or the names that argparse gets."""
    source = text_of(ROOT / module)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "COMMANDS" for target in targets):
                return {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    return set(re.findall(r'^ +(\w+),\n +"\1",$', source, re.MULTILINE))


@pytest.mark.parametrize(
    "program, module",
    [
        ("polyspan-data", "pipelines/cli.py"),
        ("polyspan-train", "training/cli.py"),
        ("polyspan-inspect", "schemas/inspection/cli.py"),
    ],
)
def test_commands_that_documents_name_exist_and_the_readme_names_all(program: str, module: str) -> None:
    commands = commands_of(module)
    assert len(commands) >= 3
    named = {command for path in DOCUMENTS for command in re.findall(rf"\b{program} ([a-z][a-z-]*)\b", text_of(path))}
    assert named - commands == set()
    readme = text_of(ROOT / "README.md")
    assert {command for command in commands if not re.search(rf"`{command}`|{program} {command}\b", readme)} == set()


def test_reasons_of_rejects_that_documents_name_are_given_by_the_code() -> None:
    literals = {
        literal
        for path in SOURCES
        if path.is_relative_to(ROOT / "pipelines") or path.is_relative_to(ROOT / "schemas")
        for literal in re.findall(r'"(\w+)"', text_of(path))
    }
    sentences = re.findall(r"refused as (.*?)(?:\n\n|\Z)", text_of(ROOT / "README.md"), re.DOTALL)
    named = {name for sentence in sentences for name in re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", sentence)}
    assert len(named) > 15
    assert named - literals == set()
