"""Reads the folders of runs: settings, curves and figures. Lists what it cannot read instead of raising."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import ConfigError
from training.engine import best_checkpoint, run_folder
from training.reports.plots import Bar, Curve, mean_sd
from training.tasks.catalog import TASKS

DEPTH = 3  # levels of folders that are searched for runs: few-shot runs are in MODEL/SIZE/SAMPLE

Figures = dict[str, Bar]  # the name of a figure → its value in percent, and its confidence interval


class Results(NamedTuple):
    """One task's figures of one run. `rows` are languages; MLQA also has pairs, such as `de-en`."""

    rows: dict[str, Figures]
    averages: dict[str, Figures]
    report: dict[str, Any]  # as it was read

    @property
    def in_papers(self) -> dict[str, Figures]:
        """The figures of a table with a column for each language: rows of one language, and averages."""
        is_mixed = "G-XLT" in self.averages
        return {name: figures for name, figures in self.rows.items() if not (is_mixed and "-" in name)} | self.averages


class Run(NamedTuple):
    """One folder. `settings` are the recipe's fields, with a method's as `method.hard`, and the names of the data."""

    folder: Path
    name: str
    settings: dict[str, Any]
    losses: Curve
    dev: Curve  # its mark is the best score
    results: dict[str, Results]
    has_model: bool
    troubles: list[str]

    @property
    def kind(self) -> str | None:
        """The kind of its task: "qa", "tagging" or "pairs"; "pretraining"; None if it is unknown."""
        if any(name.startswith("objective") for name in self.settings):
            return "pretraining"
        task = self.settings.get("task")
        return TASKS[task].kind if task in TASKS else None

    @property
    def state(self) -> str:
        if not self.settings:
            return "no run"
        steps = self.losses.points[-1][0] if self.losses.points else 0
        planned = self.settings.get("steps") or 0
        if self.has_model or self.results:
            return "finished" if steps >= planned else f"finished early: {planned:,} steps planned"
        return f"unfinished: {steps:,.0f} of {planned:,} steps"


def read_runs(given: Sequence[Path]) -> list[Run]:
    """Reads the runs in these folders and below them. A folder without runs is listed by itself. Raises `ConfigError`
    for a missing folder."""
    if not given:
        raise ConfigError("no runs: name the folders that finetune wrote, or folders of such folders")
    if missing := [folder for folder in given if not folder.is_dir()]:
        raise ConfigError(f"{missing[0]}: no such folder. Name folders that finetune wrote, or folders of such folders")
    folders = {run.resolve(): run for folder in given for run in list(_runs_below(folder, DEPTH)) or [folder]}
    above = [folder.resolve() if folder.resolve() not in folders else folder.resolve().parent for folder in given]
    top = Path(os.path.commonpath(above))
    return [_read(folder, path.relative_to(top).as_posix()) for path, folder in folders.items()]


def read_results(path: Path) -> Results:
    """Reads a report in JSON (training/metrics/reports.py). Raises `ValueError` or `KeyError` if it is none."""
    report = json.loads(path.read_text(encoding="utf-8"))
    rows, averages = ({row["name"]: _figures(row) for row in report[part]} for part in ("rows", "averages"))
    return Results(rows, averages, report)


def mean_and_sd(values: Sequence[float]) -> str:
    """Returns `14.0 ± 1.2`; only the mean of a single value."""
    if not values:
        return ""
    mean, sd = mean_sd(values)
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"


def in_order(task: str, rows: Sequence[str]) -> list[str]:
    """Returns the rows in the order of papers: the task's languages, then the others."""
    langs = TASKS[task].langs if task in TASKS else ()
    return sorted(dict.fromkeys(rows), key=lambda row: langs.index(row) if row in langs else len(langs))


# --- one folder -------------------------------------------------------------------------------------------------------


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yields folders with a run.json. Does not search inside a run, whose baseline is a run too."""
    if (folder / run_folder.FILE_NAME).exists():
        yield folder
    elif depth:
        for child in sorted(folder.iterdir(), key=lambda path: _natural(path.name)):
            if child.is_dir() and not child.name.startswith("."):
                yield from _runs_below(child, depth - 1)


def _natural(name: str) -> list[tuple[int, str]]:
    """Returns a key that sorts 64 before 128."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _read(folder: Path, name: str) -> Run:
    troubles: list[str] = []

    def attempt(read: Any, path: Path, default: Any) -> Any:
        try:
            return read(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            troubles.append(f"{path}: {what}")
            return default

    settings = attempt(_settings, folder / run_folder.FILE_NAME, {})
    log = folder / "metrics.jsonl"
    losses = attempt(_losses, log, Curve([])) if log.exists() else Curve([])
    dev = attempt(_dev, folder / best_checkpoint.FILE_NAME, Curve([]))
    reports = sorted(folder.glob("results/*/report.json"))
    results = {path.parent.name: attempt(read_results, path, None) for path in reports}
    readable = {task: report for task, report in results.items() if report and report.rows}
    return Run(folder, name, settings, losses, dev, readable, (folder / "model").is_dir(), troubles)


def _settings(path: Path) -> dict[str, Any]:
    run = json.loads(path.read_text(encoding="utf-8"))
    data = " ".join(f"{name.partition(' ')[2]}:{digest[:4]}" for name, digest in run.get("data", {}).items())
    return {**dict(_flat(run["recipe"])), "data": data}


def _flat(recipe: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the fields of nested settings, `method.name` as `method`."""
    for name, value in recipe.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield prefix.rstrip(".") if prefix and name == "name" else prefix + name, value


def _losses(path: Path) -> Curve:
    return Curve([(row["step"], row["loss"]) for row in map(json.loads, _whole_lines(path))])


def _dev(path: Path) -> Curve:
    rows = best_checkpoint.read(path)
    best = [row for row in rows if row["best"]]
    mark = (best[-1]["step"], best[-1]["score"]) if best else None
    return Curve([(row["step"], row["score"]) for row in rows], mark)


def _whole_lines(path: Path) -> list[str]:
    """Reads the lines, without a last one that a stopped run left incomplete."""
    return [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


def _figures(row: Mapping[str, Any]) -> Figures:
    return {
        name: Bar(figure["value"], tuple(figure["interval"]) if figure["interval"] else None)
        for name, figure in row.items()
        if isinstance(figure, Mapping) and "value" in figure
    }
