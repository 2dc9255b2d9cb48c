"""`polyspan-train few-shot`: fine-tunes on few training examples and evaluates (CLISM 3.4, figure 4b, appendices C, F).

OUT/
  MODEL/SIZE/sample-K/   a fine-tuning run with the results of its evaluation
  few_shot.json          the scores of every run so far
  few_shot.csv           the same, a line for each figure
  few_shot.svg           curves over the sizes
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.runtime.output_folder import (
    LOCK,
    NEW,
    delete_files,
    delete_temporary_files,
    finish_replacement,
    needs_tidying,
)
from schemas.runtime.shown_paths import shown_paths
from training.checks.few_shot import check_files, check_inputs
from training.metrics.tables import latex, markdown, text
from training.recipes.few_shot import (
    FewShotConfig,
    Try,
    evaluation,
    finetuning,
    folder_of,
    models_of,
    test_task,
    tries_of,
)
from training.recipes.finetuning import FinetuneConfig
from training.recipes.inference import EvaluateConfig
from training.reports import plots
from training.reports.few_shot_series import Scores, Series, as_csv, curves_of, read_series, table_of
from training.reports.run_results import read_results
from training.runtime import atomic_write
from training.runtime.outputs import SERIES, has_progress, series_files
from training.runtime.series import UNNEEDED, delete_unneeded, log, run_all, series_folder

Finetune = Callable[[FinetuneConfig], Any]  # returns a `RunOutcome`
Evaluate = Callable[[EvaluateConfig], Any]


def run(config: FewShotConfig) -> int:
    """Prints the table and returns the exit code: 0, 1 if a run failed, 128 + N if signal N stopped the series."""
    check_inputs(config)
    about = check_files(config)
    if not config.overwrite and is_done(config, series := begun(config, about)):
        log(f"{config.output}: complete, nothing to do.")
        print_table(config, series)
        return 0
    from training.evaluate import evaluate  # torch takes seconds to import
    from training.finetune import finetune

    series, stopped_by = few_shot(config, finetune, evaluate)
    if stopped_by:
        log(f"Stopped with {len(series.scores):,} runs done. Repeat the command to go on.")
        return 128 + stopped_by
    if series.scores:
        print_table(config, series)
    for failed, error in series.failed.items():
        log(f"failed: {failed}: {error}")
    return 1 if series.failed else 0


def print_table(config: FewShotConfig, series: Series) -> None:
    draw = {"text": text, "markdown": markdown, "latex": latex}[config.format]
    print(draw(table_of(config, series)))
    log(f"Every score: {Path(config.output) / 'few_shot.csv'}\nCurves: {Path(config.output) / 'few_shot.svg'}")


def few_shot(config: FewShotConfig, finetune: Finetune, evaluate: Evaluate) -> tuple[Series, int | None]:
    """Runs what is not done yet and writes the output folder. Returns the series, and the signal that stopped it.

    A run that fails is recorded, and the others go on. Raises `ConfigError` and `InputError` before the first run.
    """
    about, output = check_files(config), Path(config.output)
    with series_folder(
        output,
        series_files,
        config.overwrite,
        holds_this=lambda: holds_series(config, about),
        holds_scores=lambda: (output / SERIES).exists() and bool(begun(config, None).scores),
    ) as (folder, replaces):
        here = replace(config, output=str(folder), overwrite=False)
        series = start_series(here, about, replaceable=replaces)
        stopped_by = train_all(here, series, finetune, evaluate)
        if stopped_by is None:
            write_results(here, series)
            if replaces and not series.failed:
                finish_replacement(output, series_files)
            elif replaces:
                log(f"{output} stays as it is, since runs failed. The new series is in {folder}: repeat the command")
    return series, stopped_by


def start_series(config: FewShotConfig, about: dict[str, Any], replaceable: bool) -> Series:
    """Begins the series in the output folder, or goes on with it. Deletes what a killed process left; `replaceable`:
    another series too."""
    output = Path(config.output)
    delete_temporary_files(output)
    series = begun(config, about, replaceable)
    atomic_write.text(output / SERIES, series.to_json())  # written first: it marks the folder as ours
    for done in series.scores:
        delete_models(config, done)
    return series


def train_all(config: FewShotConfig, series: Series, finetune: Finetune, evaluate: Evaluate) -> int | None:
    """Runs what is not done yet and adds it to the series. Returns the signal that stopped it, if one did."""

    def work(planned: Try) -> int | None:
        if stopped_by := finetune(finetuning(config, planned)).stopped_by:
            return int(stopped_by)
        evaluate(evaluation(config, planned))
        series.scores[planned] = scores_of(config, planned)
        return None

    def save(planned: Try) -> None:
        atomic_write.text(Path(config.output) / SERIES, series.to_json())
        if planned in series.scores:
            delete_models(config, planned)

    return run_all(list(tries_of(config)), series.scores, series.failed, work, save)


def scores_of(config: FewShotConfig, done: Try) -> Scores:
    """Reads the scores of a run's evaluation."""
    results = read_results(folder_of(config, done) / "results" / test_task(config) / "report.json")
    return {row: {name: bar.value for name, bar in figures.items()} for row, figures in results.in_papers.items()}


def write_results(config: FewShotConfig, series: Series) -> None:
    """Writes the scores as CSV, and the curves."""
    output = Path(config.output)
    atomic_write.text(output / "few_shot.csv", as_csv(series))
    if series.scores:
        atomic_write.text(output / "few_shot.svg", plots.as_svg(plots.few_shot_curves(curves_of(config, series))))


def delete_models(config: FewShotConfig, done: Try) -> None:
    """Deletes the models and checkpoints of a run that was evaluated, unless they are to be kept."""
    if not config.keep_models:
        delete_unneeded(folder_of(config, done))


# --- how far a series is ----------------------------------------------------------------------------------------------


def is_done(config: FewShotConfig, series: Series) -> bool:
    """Returns whether nothing is left to train, write or delete."""
    output = Path(config.output)
    unneeded = (
        [] if config.keep_models else [folder_of(config, done) / name for done in series.scores for name in UNNEEDED]
    )
    return (
        all(planned in series.scores for planned in tries_of(config))
        and all((output / f"few_shot.{suffix}").is_file() for suffix in ("csv", "svg"))
        and not any(path.exists() for path in (*unneeded, output / LOCK))
        and not needs_tidying(output)
    )


def begun(config: FewShotConfig, about: dict[str, Any] | None, replaceable: bool = False) -> Series:
    """Returns the series in the output folder as far as it is done, or a new one. `about` is what the runs of this
    command have in common; None accepts any series.

    Raises `ConfigError` if it is another series. One that is `replaceable`, or never took a step, is deleted instead.
    """
    path = Path(config.output) / SERIES
    new = Series(about or {}, {}, {}, shown_paths(models_of(config)))
    if not path.exists():
        return new
    before = read_series(path, config)
    other = [name for name, value in (about or {}).items() if before.about.get(name) != json.loads(json.dumps(value))]
    if not other:
        return before._replace(about=about or {})
    if replaceable or not (before.scores or any(map(has_progress, path.parent.glob("*/*/sample-*")))):
        delete_files(path.parent, (series_files(path.parent) or set()) - {NEW, LOCK})
        return new
    raise ConfigError(
        f"{config.output} holds a series with another {other[0]}. Repeat its own command, take another --output, "
        "or begin anew with --overwrite"
    )


def holds_series(config: FewShotConfig, about: dict[str, Any]) -> bool:
    """Returns whether the output folder holds runs of this very series."""
    try:
        return bool(begun(config, about).scores)
    except ConfigError:
        return False
