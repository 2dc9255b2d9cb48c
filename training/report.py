"""`polyspan-train report`: compares runs in tables in the terminal and on a page with pictures."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import tyro

from schemas.did_you_mean import closest
from schemas.errors import ConfigError
from schemas.runtime.output_folder import check_output, delete_temporary_files, locked
from schemas.runtime.shown_paths import shown_text
from training.metrics.reports import main_figures, title
from training.metrics.tables import Table, latex, markdown, text
from training.reports import plots
from training.reports.html_page import Section, page
from training.reports.plots import Bar, mean_sd
from training.reports.run_results import Results, Run, in_order, mean_and_sd, read_runs
from training.runtime import atomic_write
from training.runtime.outputs import REPORT, report_files
from training.tasks.catalog import TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERVALS = "Lines: the confidence interval of a single run, a standard deviation to both sides of a mean."
DRAWS = ("seed", "sample")  # settings in which repetitions of a run differ
RUNS, SETTINGS = "Runs", "What differs"  # titles of tables


@dataclass(frozen=True)
class ReportConfig:
    """Compares runs in tables: their settings, and the figures of those that were evaluated."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …")]
    """Folders that finetune or few-shot has written, or folders that contain such folders."""
    output: str = ""
    """The folder for report.html, a page with tables, curves and bars that needs no network."""
    format: Literal["text", "markdown", "latex", "json"] = "text"
    """The format of what is printed. JSON has every figure, unrounded."""
    by: tuple[str, ...] = ()
    """Settings that group runs, such as model, method or examples: runs that agree in them share a row with mean and
    standard deviation. Without any, runs share a row if they differ only in seed and sample."""


class Group(NamedTuple):
    """The runs of one row."""

    name: str
    runs: list[Run]

    def bars(self, task: str, row: str, figure: str) -> list[Bar]:
        """Returns the figure of each run that has it."""
        rows = [run.results[task].in_papers.get(row, {}) for run in self.runs if task in run.results]
        return [figures[figure] for figures in rows if figure in figures]

    def values(self, task: str, row: str, figure: str) -> list[float]:
        return [bar.value for bar in self.bars(task, row, figure)]

    def bar(self, task: str, row: str, figure: str) -> Bar | None:
        """Returns mean ± standard deviation; for a single run its value and confidence interval."""
        bars = self.bars(task, row, figure)
        if len(bars) < 2:
            return bars[0] if bars else None
        mean, sd = mean_sd([bar.value for bar in bars])
        return Bar(mean, (mean - sd, mean + sd) if sd is not None else None)


def run(config: ReportConfig) -> str:
    """Returns the report, and writes the page if `output` is given. Raises `ConfigError` for what cannot work."""
    if config.output:
        check_output(Path(config.output), report_files, {"RUN": config.runs})
    runs = read_runs(config.runs)
    groups = grouped(runs, config.by)
    tables = tables_of(groups)
    notes = notes_of(runs)
    if config.output:
        write_page(Path(config.output) / REPORT, page(sections_of(groups, tables), list(map(shown_text, notes))))
    if config.format == "json":
        return as_json(groups, notes)
    comment = "% " if config.format == "latex" else "- " if config.format == "markdown" else ""
    draw = {"text": text, "markdown": markdown, "latex": latex}[config.format]
    parts = [*map(draw, tables.values()), "\n".join(comment + note for note in notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(path: Path, text: str) -> None:
    with locked(path.parent):
        atomic_write.text(path, text)
        delete_temporary_files(path.parent)  # of a process that was killed here
    print(f"Wrote {path}", file=sys.stderr)


# --- which runs are one row -------------------------------------------------------------------------------------------


def grouped(runs: Sequence[Run], by: Sequence[str]) -> list[Group]:
    """Groups the runs into rows, in the order of their first runs. A folder without a run is a row of its own."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    for name in by:
        if name not in names:
            close = closest(name, names, 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Settings: {', '.join(names)}"
            raise ConfigError(f"--by {name}: the runs have no such setting. {hint}")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        chosen = {name: run.settings.get(name) for name in by or names if by or name not in DRAWS}
        groups.setdefault(json.dumps([chosen, "" if run.settings else run.name], default=str), []).append(run)
    names_of = [_names(group, by) for group in groups.values()]
    counts = Counter(name for names in names_of for name in set(names))
    return [
        Group(next((name for name in names if counts[name] == 1), names[-1]), group)
        for names, group in zip(names_of, groups.values(), strict=True)
    ]


def _names(runs: Sequence[Run], by: Sequence[str]) -> list[str]:
    """Returns possible names of a row, the best first: the folder that runs share, or their name without a number."""
    names = [", ".join(f"{name} {runs[0].settings.get(name)}" for name in by)] if by and runs[0].settings else []
    if len(runs) == 1:
        return [*names, runs[0].name]
    for shared in (lambda name: name.rpartition("/")[0], lambda name: re.sub(r"[-_.=]*\d+$", "", name)):
        if len({shared(run.name) for run in runs}) == 1:
            names.append(shared(runs[0].name))
    return [*filter(None, names), f"{runs[0].name} …"]


# --- tables -----------------------------------------------------------------------------------------------------------


def tables_of(groups: Sequence[Group]) -> dict[str, Table]:
    """Returns title → table: the runs, the settings in which they differ, and each task's figures."""
    tables = {RUNS: _overview(groups)}
    differing = differing_settings([run for group in groups for run in group.runs])
    if differing:
        rows = [[group.name, *(_all_of(group, name) for name in differing)] for group in groups]
        tables[SETTINGS] = Table(["settings", *differing], rows)
    for task in _tasks(groups):
        tables[task] = _task_table(groups, task)
    return tables


def _overview(groups: Sequence[Group]) -> Table:
    rows = []
    for group in groups:
        steps = [run.losses.points[-1][0] if run.losses.points else 0 for run in group.runs]
        best = [run.dev.mark for run in group.runs if run.dev.mark]
        states = list(dict.fromkeys(run.state for run in group.runs))
        rows.append(
            [
                group.name,
                str(len(group.runs)),
                _range(steps),
                mean_and_sd([score for _, score in best]) if best else "–",
                _range([step for step, _ in best]) if best else "–",
                states[0] if len(states) == 1 else ", ".join(f"{_count(group, state)} {state}" for state in states),
            ]
        )
    return Table(["run", "runs", "steps", "best dev score", "at step", "state"], rows)


def differing_settings(runs: Sequence[Run]) -> list[str]:
    """Returns the names of settings that differ between the runs that have them; methods have settings of their own."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.settings.items():
            values.setdefault(name, set()).add(json.dumps(value))
    return [name for name, different in values.items() if len(different) > 1]


def _task_table(groups: Sequence[Group], task: str) -> Table:
    rows, figures = rows_of(groups, task), figures_of(groups, task)
    body = []
    for group in fitting(groups, task):
        cells = [[mean_and_sd(group.values(task, row, figure)) for figure in figures] for row in rows]
        body.append([group.name, *(" / ".join(cell) if any(cell) else "–" for cell in cells)])
    return Table([f"{task}, {' / '.join(title(figure) for figure in figures)}", *rows], body)


def fitting(groups: Sequence[Group], task: str) -> list[Group]:
    """Returns the groups that have results of the task, or whose own task is of the same kind."""
    return [group for group in groups if any(_fits(run, task) for run in group.runs)]


def _fits(run: Run, task: str) -> bool:
    return task in run.results or task not in TASKS or run.kind in (None, TASKS[task].kind)


def _tasks(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(task for group in groups for run in group.runs for task in run.results))


def _results(groups: Sequence[Group], task: str) -> list[Results]:
    return [run.results[task] for group in groups for run in group.runs if task in run.results]


def rows_of(groups: Sequence[Group], task: str) -> list[str]:
    """Returns the columns of a task's table: all languages of the runs in the order of papers, then the averages."""
    averages = dict.fromkeys(name for results in _results(groups, task) for name in results.averages)
    rows = dict.fromkeys(
        name for results in _results(groups, task) for name in results.in_papers if name not in averages
    )
    return [*in_order(task, list(rows)), *averages]


def figures_of(groups: Sequence[Group], task: str) -> list[str]:
    return main_figures(next(iter(_results(groups, task)[0].rows.values())))


def _all_of(group: Group, name: str) -> str:
    values = dict.fromkeys(str(run.settings[name]) for run in group.runs if name in run.settings)
    return ", ".join(values) or "–"


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _count(group: Group, state: str) -> int:
    return sum(run.state == state for run in group.runs)


def notes_of(runs: Sequence[Run]) -> list[str]:
    """Returns what is missing or cannot be read, with the next command."""
    notes = [trouble for run in runs for trouble in run.troubles]
    tasks = list(dict.fromkeys(task for run in runs for task in run.results))
    for run in runs:
        if not run.has_model:
            continue
        folder = shlex.quote(str(run.folder))
        if run.kind == "pretraining":
            notes.append(f"{run.name}: not fine-tuned: polyspan-train finetune … --model {folder}/model")
        elif not run.results:
            notes.append(f"{run.name}: no results: polyspan-train evaluate {folder} …")
        for task in tasks:
            if run.results and task not in run.results and _fits(run, task):
                notes.append(f"{run.name}: no results of {task}: polyspan-train evaluate {folder} …")
    return notes


# --- as a page, as JSON -----------------------------------------------------------------------------------------------


def sections_of(groups: Sequence[Group], tables: dict[str, Table]) -> list[Section]:
    """Returns the parts of the page: each table with its pictures."""
    sections = []
    for name, table in tables.items():
        best: set[tuple[int, int]] = set()
        pictures: dict[str, Figure] = {}
        if name == RUNS:
            pictures = _curves(groups)
        elif name != SETTINGS:
            best = best_cells(groups, name)
            for figure in figures_of(groups, name):
                pictures[f"{name}, {title(figure)}. {INTERVALS}"] = _bars(groups, name, figure)
        sections.append(Section(name, table, best, {caption: plots.as_svg(each) for caption, each in pictures.items()}))
    return sections


def _curves(groups: Sequence[Group]) -> dict[str, Figure]:
    """Returns caption → curves of losses and dev scores. Those of different tasks cannot be compared, so each task has
    its own."""
    pictures = {}
    tasks = list(dict.fromkeys(_trained_on(run) for group in groups for run in group.runs))
    for task in tasks:
        runs_of = {group.name: [run for run in group.runs if _trained_on(run) == task] for group in groups}
        losses = {name: [run.losses for run in runs if run.losses.points] for name, runs in runs_of.items()}
        dev = {name: [run.dev for run in runs if run.dev.points] for name, runs in runs_of.items()}
        on_task = f" on {task}" if task and len(tasks) > 1 else ""
        if any(losses.values()):
            caption = f"Training loss{on_task}, smoothed. Runs of one row have one colour."
            pictures[caption] = plots.learning_curves(losses)
        if any(dev.values()):
            caption = f"Scores on the dev files{on_task}. Rings: the best, whose weights were kept."
            pictures[caption] = plots.dev_curves(dev)
    return pictures


def _trained_on(run: Run) -> str:
    return str(run.settings.get("task", ""))


def best_cells(groups: Sequence[Group], task: str) -> set[tuple[int, int]]:
    """Returns row and column of the highest first figure in each column that has two or more."""
    figure, best = figures_of(groups, task)[0], set()
    for column, row in enumerate(rows_of(groups, task), start=1):
        numbered = enumerate(fitting(groups, task))
        bars = {number: bar.value for number, group in numbered if (bar := group.bar(task, row, figure))}
        if len(bars) > 1:
            best |= {(number, column) for number, value in bars.items() if value == max(bars.values())}
    return best


def _bars(groups: Sequence[Group], task: str, figure: str) -> Figure:
    bars = {
        group.name: {row: bar for row in rows_of(groups, task) if (bar := group.bar(task, row, figure))}
        for group in groups
    }
    return plots.language_bars(bars, f"{task}, {title(figure)}", order=rows_of(groups, task))


def as_json(groups: Sequence[Group], notes: Sequence[str]) -> str:
    """Returns every run's figures with their signatures, as evaluate wrote them, by row of the tables."""
    values = [
        {
            "name": group.name,
            "runs": [
                {
                    "folder": str(run.folder),
                    "state": run.state,
                    "settings": run.settings,
                    "best_dev": run.dev.mark and {"step": run.dev.mark[0], "score": run.dev.mark[1]},
                    "results": {task: results.report for task, results in run.results.items()},
                }
                for run in group.runs
            ],
            "results": {task: _summary(group, groups, task) for task in _tasks([group])},
        }
        for group in groups
    ]
    return json.dumps({"groups": values, "notes": list(notes)}, indent=2, ensure_ascii=False) + "\n"


def _summary(group: Group, groups: Sequence[Group], task: str) -> dict[str, Any]:
    return {
        row: {
            figure: {"mean": mean_sd(values)[0], "sd": mean_sd(values)[1], "runs": len(values)}
            for figure in figures_of(groups, task)
            if (values := group.values(task, row, figure))
        }
        for row in rows_of(groups, task)
    }
