"""`polyspan-train benchmark`: runs a suite of methods, tasks, languages and seeds, and writes a paper's tables.

OUT/
  METHOD/TRAINING/seed-S/      a fine-tuning run with the results of its evaluations
  METHOD/TRAINING-SIZE/seed-S-sample-K/   the same in a few-shot suite
  suite.json                   the scores of every run so far
  results.json .md .tex .txt   the tables: means and standard deviations, XTREME's averages, differences
  report.html                  the tables with pictures
  submission/METHOD/seed-S/    predictions as XTREME takes them: TASK/test-LANG.json or .tsv
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import (
    LOCK,
    NEW,
    delete_files,
    delete_temporary_files,
    finish_replacement,
    locked,
    needs_tidying,
    tidy,
)
from training.checks.benchmark import (
    Plan,
    check,
    check_plan,
    command_of,
    digests_of,
    evaluations,
    finetuning,
    folder_of,
    plan_lines,
    plan_of,
    unlabelled_tasks,
)
from training.checks.inference import checked
from training.metrics.reports import main_figures
from training.metrics.significance import LangScores
from training.metrics.tables import latex, markdown, text
from training.recipes.finetuning import FinetuneConfig
from training.recipes.inference import EvaluateConfig
from training.recipes.suites import BenchmarkConfig, Cell
from training.reports.run_results import read_results
from training.reports.suite_results import (
    Done,
    Row,
    State,
    SuiteResults,
    Tested,
    as_json,
    as_page,
    compared,
    read_state,
    scores_of,
    tables_of,
)
from training.runtime import atomic_write
from training.runtime.outputs import REPORT, SUITE, evaluation_files, has_progress, suite_files
from training.runtime.series import UNNEEDED, delete_unneeded, log, run_all, series_folder
from training.score import counted_rows
from training.tasks.catalog import TASKS
from training.tasks.published import PUBLISHED

RESULTS = ("results.json", "results.md", "results.tex", "results.txt", REPORT)
PARALLEL = ("xquad", "mlqa", "paws_x", "xnli")  # tasks whose languages have translations of the same examples

Finetune = Callable[[FinetuneConfig], Any]  # returns a `RunOutcome`
Evaluate = Callable[[Sequence[EvaluateConfig]], Sequence[Any]]  # returns reports, or errors


def run(config: BenchmarkConfig) -> int:
    """Prints the tables and returns the exit code: 0, 1 if a run failed, 128 + N if signal N stopped the suite."""
    check(config)
    plan = plan_of(config)
    if config.dry_run:
        print("\n".join(plan_lines(plan)), flush=True)
        check_plan(config, plan)
        return 0
    check_plan(config, plan)
    if not config.overwrite and is_done(config, plan, begun(config, plan)):
        log(f"{config.output}: complete, nothing to do.")
        print_tables(config)
        return 0
    from training.evaluate import evaluate_tasks  # torch takes seconds to import
    from training.finetune import finetune

    log("\n".join(plan_lines(plan)))
    state, stopped_by = benchmark(config, finetune, evaluate_tasks)
    if stopped_by:
        log(f"Stopped with {len(state.done):,} runs done. Repeat the command to go on.")
        return 128 + stopped_by
    if state.done:
        print_tables(config)
    for failed, error in state.failed.items():
        log(f"failed: {failed}: {error}")
    return 1 if state.failed else 0


def benchmark(config: BenchmarkConfig, finetune: Finetune, evaluate: Evaluate) -> tuple[State, int | None]:
    """Runs what is not done yet and writes the output folder. Returns the state, and the signal that stopped it.

    A run that fails is recorded, and the others go on. Raises `ConfigError` and `InputError` before the first run.
    """
    plan, output = plan_of(config), Path(config.output)
    check_plan(config, plan)
    unlabelled = unlabelled_tasks(plan)
    for task, count in unlabelled.items():
        log(f"{task}: {count} files have no labels. All are predicted, for a submission; nothing is scored")
    with series_folder(
        output,
        suite_files,
        config.overwrite,
        holds_this=lambda: holds_suite(config, plan),
        holds_scores=lambda: (output / SUITE).exists() and bool(read_state(output / SUITE).done),
    ) as (folder, replaces):
        here = replace(config, output=str(folder), overwrite=False)
        state = start(here, plan, replaceable=replaces)
        stopped_by = run_all(
            plan.cells,
            state.done,
            state.failed,
            lambda cell: run_cell(here, plan, cell, state, unlabelled, finetune, evaluate),
            lambda cell: save(here, plan, state, cell),
        )
        if stopped_by is None:
            write_results(here, plan, state, list(unlabelled))
            if replaces and not state.failed:
                finish_replacement(output, suite_files)
            elif replaces:
                log(f"{output} stays as it is, since runs failed. The new suite is in {folder}: repeat the command")
    return state, stopped_by


def run_cell(
    config: BenchmarkConfig,
    plan: Plan,
    cell: Cell,
    state: State,
    unlabelled: dict[str, int],
    finetune: Finetune,
    evaluate: Evaluate,
) -> int | None:
    """Fine-tunes and evaluates, and adds the scores to the state. Returns the signal that stopped it, if one did.
    Evaluations that a killed process completed are not repeated."""
    if stopped_by := finetune(finetuning(config, plan, cell)).stopped_by:
        return int(stopped_by)
    results = folder_of(config, cell) / "results"
    wanted = evaluations(config, plan, cell)
    left = [each for each in wanted if not (results / each.task / "report.json").is_file()]
    for each in wanted:
        if each not in left:
            with locked(results / each.task):
                tidy(results / each.task, evaluation_files)
    for each, scored in zip(left, evaluate(left) if left else (), strict=True):
        if isinstance(scored, InputError) and each.task not in unlabelled:
            raise scored
    state.done[cell] = Done(
        command_of(config, plan, cell),
        {
            each.task: scores_of(read_results(results / each.task / "report.json"))
            for each in wanted
            if each.task not in unlabelled
        },
    )
    state.failed.pop(cell, None)
    return None


def save(config: BenchmarkConfig, plan: Plan, state: State, cell: Cell) -> None:
    atomic_write.text(Path(config.output) / SUITE, state.to_json(plan.suite))
    if cell in state.done and not config.keep_models:
        delete_unneeded(folder_of(config, cell))


# --- how far a suite is -----------------------------------------------------------------------------------------------


def start(config: BenchmarkConfig, plan: Plan, replaceable: bool) -> State:
    """Begins the suite in the output folder, or goes on with it. Deletes what a killed process left; `replaceable`:
    another suite too."""
    output = Path(config.output)
    delete_temporary_files(output)
    state = begun(config, plan, replaceable)
    atomic_write.text(output / SUITE, state.to_json(plan.suite))  # written first: it marks the folder as ours
    for cell in state.done if not config.keep_models else ():
        delete_unneeded(folder_of(config, cell))
    return state


def begun(config: BenchmarkConfig, plan: Plan, replaceable: bool = False) -> State:
    """Returns the suite in the output folder as far as it is done, or a new one.

    Raises `ConfigError` if a run in it had another command or other test files. A suite that is `replaceable`, or never
    took a step, is deleted instead.
    """
    path, new = Path(config.output) / SUITE, State(digests_of(plan), {}, {})
    if not path.exists():
        return new
    before = read_state(path)
    changed = _changed(config, plan, before, new)
    if not changed:
        return before._replace(tests={**before.tests, **new.tests})
    if replaceable or not (before.done or any(map(has_progress, path.parent.glob("*/*/seed-*")))):
        delete_files(path.parent, (suite_files(path.parent) or set()) - {NEW, LOCK})
        return new
    raise ConfigError(
        f"{config.output} holds a suite with another {changed}. Repeat its own command, take another --output, or "
        "begin anew with --overwrite"
    )


def _changed(config: BenchmarkConfig, plan: Plan, before: State, now: State) -> str:
    """Returns what differs between finished runs and the plan; empty if the suite can go on. Methods, training sets and
    seeds may be added."""
    for name, tests in now.tests.items():
        for task, files in tests.items():
            if name in before.tests and before.tests[name].get(task) != files:
                return f"test set {task}"
    for cell in plan.cells:
        if cell in before.done and before.done[cell].command != command_of(config, plan, cell):
            return f"recipe, model, training file or translation of {cell}"
    return ""


def holds_suite(config: BenchmarkConfig, plan: Plan) -> bool:
    """Returns whether the output folder holds runs of this very suite."""
    try:
        return bool(begun(config, plan).done)
    except ConfigError:
        return False


def is_done(config: BenchmarkConfig, plan: Plan, state: State) -> bool:
    """Returns whether nothing is left to train, write or delete."""
    output = Path(config.output)
    unneeded = (
        [] if config.keep_models else [folder_of(config, cell) / name for cell in state.done for name in UNNEEDED]
    )
    return (
        all(cell in state.done for cell in plan.cells)
        and all((output / name).is_file() for name in RESULTS)
        and json.loads((output / "results.json").read_text(encoding="utf-8")).get("made_of") == made_of(config, plan)
        and not any(path.exists() for path in (*unneeded, output / LOCK))
        and not needs_tidying(output)
    )


def made_of(config: BenchmarkConfig, plan: Plan) -> str:
    """Returns the checksum of what the results depend on besides the runs: which runs, and which test files."""
    values = [list(plan.cells), digests_of(plan), plan.missing, config.resamples]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


# --- results ----------------------------------------------------------------------------------------------------------


def write_results(config: BenchmarkConfig, plan: Plan, state: State, unlabelled: Sequence[str]) -> None:
    """Writes the tables, the page and the submissions."""
    output, results = Path(config.output), results_of(config, plan, state)
    (output / "results.json").unlink(missing_ok=True)  # it is written last and says what the others were made of
    notes = [f"missing: {line}" for line in plan.missing]
    notes += [f"{task}: without labels, so predicted and not scored" for task in unlabelled]
    notes += [f"failed: {cell}" for cell in state.failed]
    tables = tables_of(results)
    for suffix, head, mark, draw in (("txt", "", "", text), ("md", "### ", "- ", markdown), ("tex", "% ", "% ", latex)):
        parts = [f"{head}{name}\n\n{draw(table)}" for name, table in tables.items()]
        notes_of = "\n".join(mark + note for note in notes)
        atomic_write.text(output / f"results.{suffix}", "\n\n".join([*parts, notes_of]).strip() + "\n")
    atomic_write.text(output / REPORT, as_page(results, notes))
    for cell in state.done:
        if cell in plan.cells:
            write_submission(config, plan, cell)
    atomic_write.text(output / "results.json", as_json(results, notes, made_of(config, plan)))


def print_tables(config: BenchmarkConfig) -> None:
    output = Path(config.output)
    suffix = {"text": "txt", "markdown": "md", "latex": "tex", "json": "json"}[config.format]
    print((output / f"results.{suffix}").read_text(encoding="utf-8"), end="")
    log(f"Tables: {output / 'results.json'}, results.md, results.tex\nPage with pictures: {output / REPORT}")


def results_of(config: BenchmarkConfig, plan: Plan, state: State) -> SuiteResults:
    """Returns what the tables are made of. Compares methods if there are several."""
    tested = [
        Tested(training, test, plan.found[training.name].present[test.task], plan.is_complete(training, test))
        for training, test in plan.tests
    ]
    done = {cell: of for cell, of in state.done.items() if cell in plan.cells}
    results = SuiteResults(plan.suite, tested, done, {})
    comparisons = {}
    if config.resamples and len(plan.suite.methods) > 1:
        for each in results.scored():
            runs: dict[Row, Sequence[Sequence[LangScores]]] = {
                row: [lang_scores(config, plan, cell, each) for cell in results.cells(row, each.training.name)]
                for row in results.rows
            }
            comparisons[each.test.task] = compared(runs, config.resamples)
    return results._replace(comparisons=comparisons)


def lang_scores(config: BenchmarkConfig, plan: Plan, cell: Cell, tested: Tested) -> list[LangScores]:
    """Returns the counts of a run's predictions, language by language, without MLQA's pairs of different languages."""
    task = TASKS[tested.test.task]
    (evaluation,) = (each for each in evaluations(config, plan, cell) if each.task == tested.test.task)
    scoring, _ = checked(evaluation, folder_of(config, cell) / "results" / evaluation.task)
    gold_of = dict(zip(scoring.predictions, evaluation.gold, strict=True))
    found = []
    for _, predictions, lang, counted in counted_rows(scoring, task):
        if "-" in task.row(gold_of[predictions], lang) and task is TASKS["mlqa"]:
            continue
        figure = main_figures(counted.figures)[0]
        clusters: Sequence[Any] | None = None
        if evaluation.task in PARALLEL:
            clusters = range(len(counted.counts_NK))
            if task.kind == "qa":
                clusters = [record.id for record in task.read(gold_of[predictions], lang)[0]]
        found.append(LangScores(counted.counts_NK, counted.figures[figure][1], clusters))
    return found


# --- submissions to XTREME --------------------------------------------------------------------------------------------


def write_submission(config: BenchmarkConfig, plan: Plan, cell: Cell) -> None:
    """Writes a run's predictions under the names that XTREME's evaluation expects. Questions in other languages than
    their contexts have no place there."""
    method = f"{cell.method}-{cell.examples}" if cell.examples else cell.method
    folder = Path(config.output) / "submission" / method / cell.draw
    for evaluation in evaluations(config, plan, cell):
        name = PUBLISHED[evaluation.task].xtreme if evaluation.task in PUBLISHED else ""
        if not name:
            continue
        suffix = "json" if TASKS[evaluation.task].kind == "qa" else "tsv"
        for lang, content in predictions_by_lang(config, plan, cell, evaluation):
            atomic_write.text(folder / name / f"test-{lang}.{suffix}", content)


def predictions_by_lang(
    config: BenchmarkConfig, plan: Plan, cell: Cell, evaluation: EvaluateConfig
) -> Iterator[tuple[str, str]]:
    """Yields language and official predictions. A file of several languages, such as XNLI's, is divided."""
    task = TASKS[evaluation.task]
    scoring, _ = checked(evaluation, folder_of(config, cell) / "results" / evaluation.task)
    golds = plan.found[cell.training].tests[evaluation.task]
    for gold, path in zip(golds, scoring.predictions, strict=True):
        content = path.read_text(encoding="utf-8")
        if gold.lang is not None:
            if "-" not in task.row(gold.path, gold.lang):
                yield gold.lang, content
            continue
        lines: dict[str, list[str]] = {}
        for record, line in zip(task.read(gold.path, None)[0], content.splitlines(keepends=True), strict=True):
            lines.setdefault(record.lang, []).append(line)
        yield from ((lang, "".join(of)) for lang, of in lines.items())
