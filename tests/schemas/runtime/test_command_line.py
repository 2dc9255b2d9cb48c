"""What the three commands have in common: --version, and that their exit codes are one table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from schemas import provenance
from schemas.inspection.cli import main
from schemas.runtime.command_line import EXIT_CODES, EXIT_CODES_LINE, answer_version, fail, pick

ROOT = Path(__file__).resolve().parents[3]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def copy_of_the_code(folder: Path) -> Path:
    copy = folder / "schemas" / "provenance.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(provenance.__file__).read_bytes())
    return copy


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["show", "--version"], ["show", "data", "--version"]])
def test_the_version_is_told_wherever_it_is_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert re.fullmatch(r"polyspan-inspect \S+( \(commit [0-9a-f]{40}\))?\n", capsys.readouterr().out)


def test_a_value_that_looks_like_the_short_option_is_no_question_for_the_version() -> None:
    answer_version("polyspan-data", ["clism", "-V"])


def test_the_commit_is_that_of_the_checkout_that_holds_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "a b é"
    monkeypatch.setattr(provenance, "__file__", str(copy_of_the_code(checkout)))
    assert provenance.commit() is None  # no repository
    git(checkout, "init", "-q")
    assert provenance.commit() is None  # no commit
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "x")
    head = git(checkout, "rev-parse", "HEAD")
    assert provenance.commit() == head
    assert provenance.version_line("polyspan-data").endswith(f" (commit {head})")

    inside = copy_of_the_code(checkout / "venv" / "site-packages")
    monkeypatch.setattr(provenance, "__file__", str(inside))  # installed in a folder of somebody's repository
    assert provenance.commit() is None
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(provenance, "__file__", str(checkout / "schemas" / "provenance.py"))
    assert provenance.commit() is None  # no git


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        ([], 2, "usage: x"),
        (["--help"], 0, "usage: x"),
        (["clsim"], 2, "x: There is no command 'clsim'. Did you mean clism?"),
    ],
)
def test_a_command_is_picked_by_its_name(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        pick("x", arguments, {"clism": 1, "align": 2}, "command", "usage: x\n")
    printed = capsys.readouterr()
    assert ended.value.code == code and said in printed.out + printed.err
    assert pick("x", ["align", "y"], {"clism": 1, "align": 2}, "command", "") == (2, ["y"])


def test_an_error_names_the_program_and_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("polyspan-data", "no such file", 2)
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "polyspan-data: no such file\n")


def test_the_readme_has_the_same_exit_codes() -> None:
    told = re.findall(r"^\| (0|1|2|130, 143) \| (.*) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert [f"  {code:<8}  {what}" for code, what in told] == EXIT_CODES.splitlines()[1:]
    assert all(code in EXIT_CODES_LINE for code in ("0", "1", "2", "130", "143"))
