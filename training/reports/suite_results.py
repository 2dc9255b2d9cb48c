"""The results of a suite as suite.json, and as the tables and pictures that papers have."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import InputError
from schemas.runtime.shown_paths import shown_text
from training.metrics import aggregates, significance
from training.metrics.reports import main_figures, title
from training.metrics.significance import Comparison, LangScores
from training.metrics.tables import Table
from training.recipes.suites import Cell, Suite, TestSet, TrainingSet, cells_of
from training.reports import plots
from training.reports.html_page import Section, page
from training.reports.plots import Bar, mean_sd
from training.reports.run_results import Results, in_order, mean_and_sd
from training.tasks.catalog import TASKS

Scores = dict[str, dict[str, float]]  # row of the report, such as "de", "de-es" or "avg" → figure → percent
AVERAGES = ("avg", "XLT", "G-XLT")


class Done(NamedTuple):
    """A finished run: the checksum of its command, and its scores by task."""

    command: str
    scores: dict[str, Scores]


class State(NamedTuple):
    """The content of suite.json."""

    tests: dict[str, Any]  # training set → task → test file → SHA-256
    done: dict[Cell, Done]
    failed: dict[Cell, str]

    def to_json(self, suite: Suite) -> str:
        place = {cell: number for number, cell in enumerate(cells_of(suite))}
        done = sorted(self.done, key=lambda cell: (place.get(cell, len(place)), cell))
        values = {
            "format_version": 1,
            "suite": suite.name,
            "tests": self.tests,
            "cells": [{**cell._asdict(), **self.done[cell]._asdict()} for cell in done],
            "failed": [{**cell._asdict(), "error": shown_text(error)} for cell, error in self.failed.items()],
        }
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def read_state(path: Path) -> State:
    """Reads a suite.json, without the runs that failed. Raises `InputError` if it is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        done = {
            Cell(*(each[name] for name in Cell._fields)): Done(each["command"], each["scores"])
            for each in values["cells"]
        }
        return State(values["tests"], done, {})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what benchmark writes ({error}). Take another --output") from None


def scores_of(results: Results) -> Scores:
    rows = {**results.rows, **results.averages}
    return {row: {name: bar.value for name, bar in figures.items()} for row, figures in rows.items()}


# --- rows of the tables -----------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A method, and the size of its training sets in few-shot suites."""

    method: str
    examples: int

    def __str__(self) -> str:
        return f"{self.method}, {self.examples:,}" if self.examples else self.method


class Tested(NamedTuple):
    """A test set with results. `present`: the languages, or pairs of languages, that have a file."""

    training: TrainingSet
    test: TestSet
    present: Sequence[str]
    is_complete: bool  # it has all languages that papers average over


class SuiteResults(NamedTuple):
    """What the tables are made of."""

    suite: Suite
    tested: Sequence[Tested]
    done: Mapping[Cell, Done]
    comparisons: Mapping[str, Mapping[tuple[Row, Row], Comparison]]  # task → two rows → their difference

    @property
    def rows(self) -> list[Row]:
        return [Row(method.name, examples) for method in self.suite.methods for examples in self.suite.examples]

    def cells(self, row: Row, training: str) -> list[Cell]:
        planned = [
            cell for cell in cells_of(self.suite) if (Row(cell.method, cell.examples), cell.training) == (row, training)
        ]
        return [cell for cell in planned if cell in self.done]

    def values(self, row: Row, tested: Tested, name: str, figure: str) -> list[float]:
        """Returns a figure of every run of a row, in percent."""
        scores = [self.done[cell].scores.get(tested.test.task) for cell in self.cells(row, tested.training.name)]
        return [each[name][figure] for each in scores if each and figure in each.get(name, {})]

    def names(self, tested: Tested) -> list[str]:
        """Returns the languages of a test set as papers order them, without pairs, and then the averages."""
        scores = self._some_scores(tested)
        averages = [name for name in AVERAGES if name in scores]
        langs = [name for name in scores if name not in averages and not ("G-XLT" in averages and "-" in name)]
        return [*in_order(tested.test.task, langs), *averages]

    def figures(self, tested: Tested) -> list[str]:
        return main_figures(next(iter(self._some_scores(tested).values())))

    def scored(self) -> list[Tested]:
        """Returns the test sets that have figures."""
        return [tested for tested in self.tested if self._some_scores(tested)]

    def _some_scores(self, tested: Tested) -> Scores:
        all_scores = (
            done.scores.get(tested.test.task)
            for cell, done in self.done.items()
            if cell.training == tested.training.name
        )
        return next((scores for scores in all_scores if scores), {})


def average_of(names: Sequence[str]) -> str:
    """Returns the row that XTREME counts: the average, MLQA's same-language one, or the only language."""
    return next((name for name in ("XLT", "avg") if name in names), names[0])


# --- tables -----------------------------------------------------------------------------------------------------------


def tables_of(results: SuiteResults) -> dict[str, Table]:
    """Returns title → table: XTREME's averages, a table for each task, MLQA's matrices, and differences."""
    tables = {}
    scored = results.scored()
    if any(xtreme_scores(results, row) for row in results.rows):
        tables["XTREME's averages"] = xtreme_table(results)
    for tested in scored:
        tables[tested.test.task] = task_table(results, tested)
        if "G-XLT" in results.names(tested):
            for row in results.rows:
                if results.cells(row, tested.training.name):
                    tables[f"{tested.test.task}, all pairs of languages: {row}"] = pairs_table(results, tested, row)
    if results.comparisons:
        tables["Differences between methods"] = differences_table(results)
    return tables


def task_table(results: SuiteResults, tested: Tested) -> Table:
    """Returns a row for each method with a column for each language: means and standard deviations over the runs. The
    last column is the gap between English and the mean of the other languages."""
    names, figures = results.names(tested), results.figures(tested)
    body = []
    for row in results.rows:
        values = [[results.values(row, tested, name, figure) for figure in figures] for name in names]
        if not (runs := max(len(cell[0]) for cell in values)):
            continue
        cells = [" / ".join(map(mean_and_sd, cell)) if cell[0] else "–" for cell in values]
        body.append([str(row), str(runs), *cells, mean_and_sd(gaps(results, tested, row)) or "–"])
    header = f"{tested.test.task}, {' / '.join(map(title, figures))}"
    return Table([header, "runs", *(_counted(tested, name) for name in names), f"gap, {title(figures[0])}"], body)


def gaps(results: SuiteResults, tested: Tested, row: Row) -> list[float]:
    """Returns each run's transfer gap of the first figure; none if English is missing."""
    figure = results.figures(tested)[0]
    found = []
    for cell in results.cells(row, tested.training.name):
        scores = results.done[cell].scores.get(tested.test.task, {})
        langs = {
            name: scores[name][figure] for name in results.names(tested) if name not in AVERAGES and name in scores
        }
        if (gap := aggregates.transfer_gap(langs)) is not None:
            found.append(gap)
    return found


def _counted(tested: Tested, name: str) -> str:
    """Returns the head of a column. An average over a part of the languages says so."""
    if name not in AVERAGES:
        return name
    everything = [each for each in tested.test.names if name == "G-XLT" or "-" not in each]
    present = sum(each in tested.present for each in everything)
    return name if present == len(everything) else f"{name} of {present}/{len(everything)}"


def xtreme_scores(results: SuiteResults, row: Row) -> dict[str, list[float]]:
    """Returns task, group and `all` → XTREME's number of each draw of a row. A task whose languages are not complete
    has none, and neither has a group or `all` that lacks a task."""
    draws: dict[tuple[int, int], dict[str, float]] = {}
    of_suite = [tested for tested in results.tested if _is_of_xtreme(tested.test.task)]
    for tested in results.scored():
        if not (tested in of_suite and tested.is_complete):
            continue
        average = average_of(results.names(tested))
        for cell in results.cells(row, tested.training.name):
            if figures := results.done[cell].scores.get(tested.test.task, {}).get(average):
                draws.setdefault((cell.seed, cell.sample), {})[tested.test.task] = aggregates.xtreme_task(figures)
    found: dict[str, list[float]] = {}
    wanted = {test.task for training in results.suite.trainings for test in training.tests if _is_of_xtreme(test.task)}
    for scores in draws.values():
        numbers = aggregates.xtreme(scores)
        if scores.keys() != wanted:
            del numbers["all"]
        for name, value in {**scores, **numbers}.items():
            found.setdefault(name, []).append(value)
    return found


def _is_of_xtreme(task: str) -> bool:
    return any(task in tasks for tasks in aggregates.GROUPS.values())


def xtreme_table(results: SuiteResults) -> Table:
    """Returns XTREME's number of each task (of questions the mean of F1 and exact match), of each group that is
    complete, and of all tasks of the suite."""
    wanted = [test.task for training in results.suite.trainings for test in training.tests if _is_of_xtreme(test.task)]
    groups = [name for name, tasks in aggregates.GROUPS.items() if len(tasks) > 1 and set(tasks) <= set(wanted)]
    body = []
    for row in results.rows:
        scores = xtreme_scores(results, row)
        cells = [mean_and_sd(scores.get(name, [])) or "–" for name in (*wanted, *groups, "all")]
        body.append([str(row), *cells])
    return Table(["XTREME", *wanted, *groups, f"mean of {len(wanted)} tasks"], body)


def matrix_of(results: SuiteResults, tested: Tested, row: Row, figure: str) -> dict[str, dict[str, float]]:
    """Returns language of the context → language of the question → the mean over the runs, in percent."""
    langs = tested.test.langs or TASKS[tested.test.task].langs
    matrix: dict[str, dict[str, float]] = {}
    for context, question in itertools.product(langs, repeat=2):
        name = context if context == question else f"{context}-{question}"
        if values := results.values(row, tested, name, figure):
            matrix.setdefault(context, {})[question] = mean_sd(values)[0]
    return matrix


def pairs_table(results: SuiteResults, tested: Tested, row: Row) -> Table:
    """Returns MLQA's table of all pairs: rows are contexts, columns questions (Lewis et al. 2020, section 4)."""
    figures = results.figures(tested)
    matrices = [matrix_of(results, tested, row, figure) for figure in figures]
    langs = [lang for lang in tested.test.langs or TASKS[tested.test.task].langs]
    body = [
        [
            context,
            *(
                " / ".join(f"{m[context][q]:.1f}" for m in matrices) if q in matrices[0][context] else "–"
                for q in langs
            ),
        ]
        for context in langs
        if context in matrices[0]
    ]
    return Table([f"{row}, {' / '.join(map(title, figures))}, c/q", *langs], body)


def differences_table(results: SuiteResults) -> Table:
    """Returns a row for each two methods and task: the difference of the averages over the languages, its interval, p
    of the paired bootstrap, the same after Holm's correction for all rows, and p of the permutation test over runs."""
    rows = [(task, pair, found) for task, pairs in results.comparisons.items() for pair, found in pairs.items()]
    corrected = significance.holm([found.p for _, _, found in rows])
    body = []
    for (task, (first, second), found), p_holm in zip(rows, corrected, strict=True):
        exact = permutation_of(results, task, first, second)
        low, high = found.interval
        cells = [f"{found.difference:+.2f}", f"{low:+.2f} to {high:+.2f}", f"{found.p:.4f}", f"{p_holm:.4f}"]
        body.append(
            [
                f"{task}, {_first_figure(results, task)}: {second} − {first}",
                *cells,
                "–" if exact is None else f"{exact:.4f}",
            ]
        )
    return Table(["average over languages", "difference", "95% interval", "p", "p, Holm", "p over runs"], body)


def _first_figure(results: SuiteResults, task: str) -> str:
    return next(title(results.figures(tested)[0]) for tested in results.tested if tested.test.task == task)


def permutation_of(results: SuiteResults, task: str, first: Row, second: Row) -> float | None:
    (tested,) = (each for each in results.tested if each.test.task == task)
    average, figure = average_of(results.names(tested)), results.figures(tested)[0]
    one, other = (results.values(row, tested, average, figure) for row in (first, second))
    return significance.permutation_p(one, other)


def compared(runs: Mapping[Row, Sequence[Sequence[LangScores]]], resamples: int) -> dict[tuple[Row, Row], Comparison]:
    """Compares every two rows that have runs and the same number of examples."""
    pairs = itertools.combinations([row for row, of in runs.items() if of], 2)
    return {
        (first, second): significance.paired_bootstrap(runs[first], runs[second], resamples)
        for first, second in pairs
        if first.examples == second.examples
    }


# --- as JSON, as a page -----------------------------------------------------------------------------------------------


def as_json(results: SuiteResults, notes: Sequence[str], made_of: str) -> str:
    """Returns every figure's mean, standard deviation and values by run, unrounded, with what is missing. `made_of`:
    the checksum of the plan."""
    corrected = iter(significance.holm([c.p for pairs in results.comparisons.values() for c in pairs.values()]))
    values = {
        "suite": results.suite.name,
        "tasks": {
            tested.test.task: {
                "training": tested.training.name,
                "langs": list(tested.present),
                "complete": tested.is_complete,
                "rows": {
                    str(row): _rows_of(results, tested, row)
                    for row in results.rows
                    if results.cells(row, tested.training.name)
                },
            }
            for tested in results.scored()
        },
        "xtreme": {
            str(row): {name: _summary(each) for name, each in xtreme_scores(results, row).items()}
            for row in results.rows
        },
        "differences": [
            {
                "task": task,
                "first": str(first),
                "second": str(second),
                **found._asdict(),
                "p_holm": next(corrected),
                "p_runs": permutation_of(results, task, first, second),
            }
            for task, pairs in results.comparisons.items()
            for (first, second), found in pairs.items()
        ],
        "notes": list(notes),
        "made_of": made_of,
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _rows_of(results: SuiteResults, tested: Tested, row: Row) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {figure: _summary(results.values(row, tested, name, figure)) for figure in results.figures(tested)}
        for name in results.names(tested)
    }
    return {**figures, "transfer_gap": _summary(gaps(results, tested, row))}


def _summary(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    mean, sd = mean_sd(values)
    return {"mean": mean, "sd": sd, "values": list(values)}


def as_page(results: SuiteResults, notes: Sequence[str]) -> str:
    """Returns the text of report.html: every table with its pictures."""
    pictures: dict[str, dict[str, str]] = {}
    for tested in results.scored():
        task = tested.test.task
        if len([size for size in results.suite.examples if size]) > 1:
            pictures[task] = {f"{task} over the number of examples": plots.as_svg(_curves(results, tested))}
        else:
            pictures[task] = {
                f"{task}, {title(figure)}. Lines: a standard deviation to both sides.": plots.as_svg(
                    plots.language_bars(_bars(results, tested, figure), f"{task}, {title(figure)}")
                )
                for figure in results.figures(tested)
            }
        if "G-XLT" in results.names(tested):
            for row in results.rows:
                for figure in results.figures(tested):
                    if matrix := matrix_of(results, tested, row, figure):
                        drawn = plots.matrix(matrix, f"{row}: {title(figure)}", "question", "context")
                        name = f"{task}, all pairs of languages: {row}"
                        pictures.setdefault(name, {})[f"{row}, {title(figure)}"] = plots.as_svg(drawn)
    tables = tables_of(results)
    sections = [Section(name, table, (), pictures.get(name, {})) for name, table in tables.items()]
    return page(sections, notes, f"Suite {results.suite.name}")


def _bars(results: SuiteResults, tested: Tested, figure: str) -> dict[str, dict[str, Bar]]:
    bars: dict[str, dict[str, Bar]] = {}
    for row in results.rows:
        for name in results.names(tested):
            if values := results.values(row, tested, name, figure):
                mean, sd = mean_sd(values)
                bars.setdefault(str(row), {})[name] = Bar(mean, (mean - sd, mean + sd) if sd is not None else None)
    return bars


def _curves(results: SuiteResults, tested: Tested) -> Any:
    average = average_of(results.names(tested))
    return plots.few_shot_curves(
        {
            f"{tested.test.task}, {average}: {title(figure)}": {
                method.name: {
                    examples: results.values(Row(method.name, examples), tested, average, figure)
                    for examples in results.suite.examples
                    if examples
                }
                for method in results.suite.methods
            }
            for figure in results.figures(tested)
        }
    )
