"""The documentation agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

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
