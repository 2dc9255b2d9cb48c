"""Commands killed at the n-th time that they open, rename, make or delete something below a folder, n = 1, 2, 3 …

Each runs in a forked child of a process that has imported torch and never used it. After a kill the output is looked
at, then the command is repeated, and what it leaves is compared with what a run leaves that nothing disturbs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from schemas.runtime.output_folder import LOCK, NEW
from tests.kill_points import KILLED, run_in_child
from tests.training.runs import losses


class Case(NamedTuple):
    """A command, `run(output)`, and the output folder that exists `before` it, if any."""

    run: Callable[[Path], object]
    is_whole: Callable[[Path], bool]  # whether a folder has the mark of a complete output
    before: Path | None = None


class Kills(NamedTuple):
    """How many outputs of killed commands were in which state."""

    total: int
    absent_or_unfinished: int
    old: int
    new: int


def kill_everywhere(case: Case, folder: Path, first: int = 1, step: int = 1, most: int = 10_000) -> Kills:
    """Kills the command at operation `first`, `first` + `step` …, until it ends before that.

    Raises `AssertionError` for an output that is neither the old nor the new nor unfinished, for a repetition that
    fails or leaves anything else, and for a neighbour's file that has changed.
    """
    here = folder / "work"  # always the same, because results contain their model's path
    expected = undisturbed(case, here)
    old = contents(case.before) if case.before else None
    found = {"unfinished": 0, "old": 0, "new": 0}
    for number in range(first, most, step):
        output = prepared(case, here)
        code, stderr = in_child(lambda output=output: case.run(output), here, kill_at=number)  # type: ignore[misc]
        if code == 0:
            break
        assert code == KILLED, f"operation {number}: exit code {code}\n{stderr}"
        found[verdict(case, output, old, expected)] += 1
        code, stderr = in_child(lambda output=output: case.run(output), here)  # type: ignore[misc]
        assert code == 0, f"repeated after operation {number}: exit code {code}\n{stderr}"
        assert (now := contents(output, marks=True)) == expected, (
            f"after operation {number}: {differing(now, expected)}"
        )
        assert sorted(path.name for path in here.iterdir()) == ["mine.txt", "out", "stderr"], (
            f"after operation {number}"
        )
        assert (here / "mine.txt").read_text() == "mine"
        shutil.rmtree(here)
    return Kills(sum(found.values()), found["unfinished"], found["old"], found["new"])


def undisturbed(case: Case, folder: Path) -> dict[str, Any]:
    """What the command leaves."""
    output = prepared(case, folder)
    code, stderr = in_child(lambda: case.run(output), folder)
    assert code == 0, stderr
    found = contents(output, marks=True)
    shutil.rmtree(folder)
    return found


def prepared(case: Case, folder: Path) -> Path:
    """The output's place in a new folder, beside a file of the user."""
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    if case.before:
        shutil.copytree(case.before, folder / "out")
    return folder / "out"


def verdict(case: Case, output: Path, old: dict[str, Any] | None, new: dict[str, Any]) -> str:
    """Which output the kill has left."""
    now = contents(output)
    if old is not None:
        assert now in (old, new), f"neither the old output nor the new one: {sorted(now)}"
        return "old" if now == old else "new"
    if not case.is_whole(output):
        return "unfinished"
    assert now == new, f"says that it is complete, and is not: {differing(now, new)}"
    return "new"


def differing(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    return [name for name in {**now, **then} if now.get(name) != then.get(name)]


def contents(folder: Path | None, marks: bool = False) -> dict[str, Any]:
    """Reads all files that do not depend on the clock: name → bytes. With `marks` also those that should be deleted."""
    found: dict[str, Any] = {}
    for path in (folder or Path()).rglob("*") if folder and folder.exists() else ():
        if path.name == "metrics.jsonl":
            found[path.relative_to(folder or "").as_posix()] = losses(path.parent)
        elif path.is_file() and path.parent.name != "tensorboard" and (marks or not _is_left(path)):
            found[path.relative_to(folder or "").as_posix()] = path.read_bytes()
    return found


def _is_left(path: Path) -> bool:
    """Returns whether the next command deletes it."""
    return path.name in (LOCK, NEW) or any(name.endswith(".partial") for name in path.parts)


def in_child(job: Callable[[], object], below: Path, kill_at: int = 0) -> tuple[int, str]:
    """Runs the job in a child, which kills itself before operation `kill_at`. Returns its exit code and its stderr."""
    code, _ = run_in_child(job, below / "out", kill_at, stderr := below / "stderr")
    return code, stderr.read_text(errors="replace")
