"""`polyspan-train few-shot`: how models do with few training examples (CLISM 3.4, figure 4b, appendices C and F).

OUT/
  MODEL/SIZE/sample-K/   a fine-tuning run with the results of its evaluation
  few_shot.json          the scores of every run so far
  few_shot.csv           the same, a line a figure
  few_shot.svg           curves over the sizes
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from schemas.errors import ConfigError, InputError
from schemas.manifest import DatasetError
from schemas.runtime.output_folder import (
    LOCK,
    NEW,
    begin_replacement,
    check_output,
    delete_files,
    delete_output,
    delete_temporary_files,
    finish_replacement,
    locked,
    needs_tidying,
    recover,
    tidy,
)
from schemas.runtime.shown_paths import shown_path, shown_paths, shown_text
from training.checks.finetuning import check as check_run
from training.checks.settings import check_numbers
from training.metrics.reports import main_figures, title
from training.metrics.tables import Table, latex, markdown, text
from training.models.files import check_model
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe, plain_values
from training.recipes.inference import Computing, EvaluateConfig
from training.recipes.scoring import Reporting
from training.reports import plots
from training.reports.run_results import in_order, mean_and_sd, read_results
from training.runtime import atomic_write
from training.runtime.errors import TrainingError, in_words
from training.runtime.outputs import SERIES, delete_parts, has_progress, is_series, series_files
from training.tasks.records import check_recipe, check_sources, read_records, task_of

HEAVY = (
    "checkpoints",
    "model",
    "last",
    "baseline",
    "candidates",
)  # of a run, not needed for its scores


@dataclass(frozen=True)
class FewShotConfig:
    """Every model is fine-tuned on every size, on several draws of it, and evaluated."""

    recipe: FinetuneRecipe
    train: tuple[Path, ...] = ()
    """Files as the task's authors or XTREME publish them, or dataset folders, to draw the examples from."""
    train_langs: tuple[str, ...] = ()
    """One for each file of --train, where its name does not say it."""
    test: tuple[Path, ...] = ()
    """Files with labels to evaluate on."""
    test_langs: tuple[str, ...] = ()
    """As --train-langs."""
    test_task: str = ""
    """Whose files --test names, where they are another task's: xquad, mlqa. Empty: the recipe's."""
    models: tuple[str, ...] = ()
    """What to fine-tune, one after the other: folders or names on the hub. None: the recipe's --model."""
    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """Training examples (CLISM, C)."""
    resamples: int = 5
    """Draws of each size: the samples 1 to so many (CLISM, C)."""
    output: str = ""
    """The folder to write. Repeat a command to go on where it was stopped, or to try again what failed; models, sizes
    and draws may be added."""
    overwrite: bool = False
    """Begin anew. A series in the output folder stays until the new one, made in `.NAME.new` beside it, is complete and
    takes its place."""
    keep_models: bool = False
    """Keep what every run has trained: gigabytes each. Else its scores, predictions and logs stay."""
    format: Literal["text", "markdown", "latex"] = "text"
    """Of the table that is printed."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    micro_batch_tokens: int = 0
    """As of finetune."""


class Try(NamedTuple):
    """One run of the series."""

    model: str
    size: int
    sample: int

    def __str__(self) -> str:
        return f"{self.model}, {self.size:,} examples, sample {self.sample}"


Scores = dict[str, dict[str, float]]  # row of the report, as "de" or "avg" → figure → percent


class Series(NamedTuple):
    """What `few_shot.json` holds. `about`: what all runs have in common."""

    about: dict[str, Any]
    scores: dict[Try, Scores]
    failed: dict[Try, str]
    names: Mapping[str, str] = {}  # each model as it is written: its path says nothing of the machine

    def written(self, each: Try) -> Try:
        return each._replace(model=self.names.get(each.model, each.model))

    def to_json(self) -> str:
        values = {
            **self.about,
            "scores": [{**self.written(each)._asdict(), "rows": rows} for each, rows in self.scores.items()],
            "failed": [
                {**self.written(each)._asdict(), "error": shown_text(error)} for each, error in self.failed.items()
            ],
        }
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


Finetune = Callable[[FinetuneConfig], Any]  # gives a `Finished`
Evaluate = Callable[[EvaluateConfig], Any]


def run(config: FewShotConfig) -> int:
    """Prints the table; the exit code: 0, 1 if a run failed, 128 and more if a signal stopped it."""
    check_inputs(config)
    about = check_files(config)
    if not config.overwrite and is_done(config, series := begun(config, about)):
        _say(f"{config.output}: complete, nothing to do.")
        tell_of(config, series)
        return 0
    from training.evaluate import evaluate  # torch takes seconds to import
    from training.finetune import finetune

    series, stopped_by = few_shot(config, finetune, evaluate)
    if stopped_by:
        _say(f"Stopped with {len(series.scores):,} runs done. Repeat the command to go on.")
        return 128 + stopped_by
    if series.scores:
        tell_of(config, series)
    for each, error in series.failed.items():
        _say(f"failed: {each}: {error}")
    return 1 if series.failed else 0


def tell_of(config: FewShotConfig, series: Series) -> None:
    draw = {"text": text, "markdown": markdown, "latex": latex}[config.format]
    print(draw(table_of(config, series)))
    _say(f"Every score: {Path(config.output) / 'few_shot.csv'}\nCurves: {Path(config.output) / 'few_shot.svg'}")


def few_shot(config: FewShotConfig, finetune: Finetune, evaluate: Evaluate) -> tuple[Series, int | None]:
    """Runs what is not done yet and writes the output folder; the signal that stopped it, if one did.

    A run that fails is recorded, and the others go on. Raises `ConfigError` and `InputError` before the first run.
    """
    about, output = check_files(config), Path(config.output)
    with place_for_series(config, about) as (folder, replaces):
        found = train_all(replace(config, output=str(folder), overwrite=False), about, replaces, finetune, evaluate)
        series, stopped_by = found
        if replaces and not stopped_by and not series.failed:
            finish_replacement(output, series_files)
        elif replaces and not stopped_by:
            _say(f"{output} stays as it is, since runs failed. The new series is in {folder}: repeat the command")
    return found


@contextmanager
def place_for_series(config: FewShotConfig, about: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
    """Inside, this process alone writes the series: where, and whether that is beside an old one, to replace it."""
    output = Path(config.output)
    recover(output, series_files)
    with locked(output):
        was_replaced = (output / NEW).exists()  # by this command, which was killed before it could tidy up
        tidy(output, series_files)
        if was_replaced and is_of(config, about):
            yield output, False
        elif config.overwrite and (output / SERIES).exists() and begun(config, None).scores:
            new = begin_replacement(output, series_files)
            _say(f"{output} stays as it is until the new series, which is made in {new}, is complete")
            with locked(new, becomes=output.resolve()):
                yield new, True
        else:
            if config.overwrite:
                delete_output(output, series_files)
            yield output, False


def train_all(
    config: FewShotConfig, about: dict[str, Any], replaceable: bool, finetune: Finetune, evaluate: Evaluate
) -> tuple[Series, int | None]:
    """Runs what is not done yet in `config.output`, where another series may go if it is `replaceable`."""
    output, tries = Path(config.output), list(tries_of(config))
    delete_temporary_files(output)  # of a process that was killed here
    series = begun(config, about, replaceable)
    atomic_write.text(output / SERIES, series.to_json())  # the mark of all that follows
    for each in series.scores:
        drop_heavy(config, each)  # of a process that was killed before it could
    left = [each for each in tries if each not in series.scores]
    if len(left) < len(tries):
        _say(f"{len(tries) - len(left):,} of {len(tries):,} runs are done.")
    for place, each in enumerate(left, start=1):
        _say(f"Run {place:,} of {len(left):,}: {each}")
        folder = folder_of(config, each)
        try:
            if stopped_by := finetune(finetuning(config, each, folder)).stopped_by:
                return series, stopped_by
            evaluate(evaluation(config, folder))
            found = read_results(folder / "results" / test_task(config) / "report.json")
        except Exception as error:  # the next one may fare better: a bad draw, a model that is missing, no memory
            if in_words(error):  # a full disk: the others would fare alike
                raise
            if not isinstance(error, ConfigError | InputError | DatasetError | TrainingError):
                traceback.print_exc()
            series.failed[each] = f"{type(error).__name__}: {error}"
            _say(f"failed: {each}: {error}")
        else:
            series.scores[each] = {
                row: {name: bar.value for name, bar in of.items()} for row, of in found.in_papers.items()
            }
        atomic_write.text(output / SERIES, series.to_json())
        if each in series.scores:
            drop_heavy(config, each)
    atomic_write.text(output / "few_shot.csv", as_csv(series))
    if series.scores:
        atomic_write.text(output / "few_shot.svg", plots.as_svg(plots.few_shot_curves(curves_of(config, series))))
    return series, None


def drop_heavy(config: FewShotConfig, each: Try) -> None:
    """Deletes what a run that was evaluated is no longer needed for, unless it is wanted."""
    if not config.keep_models and folder_of(config, each).is_dir():
        delete_parts(folder_of(config, each), HEAVY)


def is_done(config: FewShotConfig, series: Series) -> bool:
    """Whether nothing is left to train, write or delete."""
    output, tries = Path(config.output), list(tries_of(config))
    heavy = [] if config.keep_models else [folder_of(config, each) / name for each in series.scores for name in HEAVY]
    return (
        all(each in series.scores for each in tries)
        and all((output / f"few_shot.{kind}").is_file() for kind in ("csv", "svg"))
        and not any(path.exists() for path in (*heavy, output / LOCK))
        and not needs_tidying(output)
    )


# --- before the first run ---------------------------------------------------------------------------------------------


def check(config: FewShotConfig) -> None:
    """Raises `ConfigError` for what cannot work, before anything is read."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("few-shot runs are short, and one process does them: start it without torchrun")
    if not config.train or not config.test:
        raise ConfigError("name the files to draw from with --train FILE …, those to evaluate on with --test FILE …")
    if not config.output:
        raise ConfigError("no output: name the folder to write with --output FOLDER")
    if (Path(config.output) / SERIES).is_file() and not is_series(Path(config.output)):
        raise InputError(f"{Path(config.output) / SERIES}: not what few-shot writes. Take another --output")
    models = {"--models": config.models, "--model": [config.recipe.model]}
    check_output(Path(config.output), series_files, {"--train": config.train, "--test": config.test, **models})
    if task_of(test_task(config)).kind != task_of(config.recipe.task).kind:
        raise ConfigError(f"--test-task {test_task(config)} is another kind of task than {config.recipe.task}")
    check_recipe(config.recipe)
    if folders := [path for path in config.test if path.is_dir()]:
        raise ConfigError(f"{folders[0]}: a folder; --test takes files as the task's authors publish them")
    if config.recipe.examples or config.recipe.sample != 1:
        raise ConfigError("--examples and --sample are finetune's: few-shot takes --sizes and --resamples")
    check_numbers(config, {"resamples": 1, "micro_batch_tokens": 0})
    if not config.sizes or min(config.sizes) < 1 or len(set(config.sizes)) < len(config.sizes):
        raise ConfigError(f"--sizes: expected different numbers of 1 or more, found {config.sizes}")
    if len(set(config.models)) < len(config.models):
        raise ConfigError("--models: one is named twice")


def check_inputs(config: FewShotConfig) -> None:
    """Raises as `check` does, also for a file or model that is not there, before torch is imported."""
    check(config)
    first = next(tries_of(config))
    check_run(finetuning(config, first, folder_of(config, first)))
    check_sources(config.train, config.recipe.task, config.train_langs)
    check_sources(config.test, test_task(config), config.test_langs)
    for model in models_of(config):
        if model != "tiny":
            check_model(model, fetch=False)  # if the hub lacks one, that run fails and the others go on


def check_files(config: FewShotConfig) -> dict[str, Any]:
    """What all runs have in common. Raises `ConfigError` and `InputError` for files that cannot do."""
    check(config)
    check_sources(config.train, config.recipe.task, config.train_langs)
    check_sources(config.test, test_task(config), config.test_langs)
    train = read_records(config.train, config.recipe.task, config.train_langs, labelled=True)
    test = read_records(config.test, test_task(config), config.test_langs, labelled=True)
    if len(train.records) < max(config.sizes):
        raise ConfigError(f"--sizes: {max(config.sizes):,} examples of the {len(train.records):,} that --train has")
    recipe = plain_values(config.recipe)
    for name in ("model", "examples", "sample"):
        del recipe[name]
    return {"recipe": recipe, "train": train.files, "test_task": test_task(config), "test": test.files}


def begun(config: FewShotConfig, about: dict[str, Any] | None, replaceable: bool = False) -> Series:
    """The series in the output folder as far as it is done, or a new one; any series if nothing is known `about` it.

    Raises `ConfigError` if it is another, unless that is `replaceable` or never took a step, and goes.
    """
    path, names = Path(config.output) / SERIES, shown_paths(models_of(config))
    if not path.exists():
        return Series(about or {}, {}, {}, names)
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        given = {written: model for model, written in names.items()}
        models = [shown_path(each["model"]) for each in before["scores"]]  # older releases wrote whole paths
        scores = {
            Try(given.get(model, model), each["size"], each["sample"]): each["rows"]
            for model, each in zip(models, before["scores"], strict=True)
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what few-shot writes ({error}). Take another --output") from None
    other = [name for name, value in (about or {}).items() if before.get(name) != json.loads(json.dumps(value))]
    if other and (replaceable or not (scores or any(map(has_progress, path.parent.glob("*/*/sample-*"))))):
        own = series_files(path.parent) or set()
        delete_files(path.parent, own - {NEW, LOCK})
        return Series(about or {}, {}, {}, names)
    if other:
        raise ConfigError(
            f"{config.output} holds a series with another {other[0]}. Repeat its own command, take another --output, "
            "or begin anew with --overwrite"
        )
    return Series(about or {}, scores, {}, names)


def is_of(config: FewShotConfig, about: dict[str, Any]) -> bool:
    """Whether the output folder holds this very series."""
    try:
        return bool(begun(config, about).scores)
    except ConfigError:
        return False


def test_task(config: FewShotConfig) -> str:
    return config.test_task or config.recipe.task


def models_of(config: FewShotConfig) -> tuple[str, ...]:
    return config.models or (config.recipe.model,)


def tries_of(config: FewShotConfig) -> Iterator[Try]:
    for model in models_of(config):
        for size in config.sizes:
            for sample in range(1, config.resamples + 1):
                yield Try(model, size, sample)


def folder_names(config: FewShotConfig) -> dict[str, str]:
    """Model → what its folder is called, and tables call it: the last parts of its name that tell it from the others,
    without what file systems may not take. `runs/a/model` is `a`."""
    parts = {}
    for model in models_of(config):
        safe = [re.sub(r"[^\w.-]+|^\.+", "-", part) for part in Path(model).parts]
        parts[model] = [part for part in safe if part.strip("-")] or ["model"]
        if parts[model][-1] == "model" and len(parts[model]) > 1:
            del parts[model][-1]
    for length in range(1, max(map(len, parts.values())) + 1):
        names = {model: "-".join(of[-length:]) for model, of in parts.items()}
        if len({name.casefold() for name in names.values()}) == len(names):
            return names
    return {model: f"{name}-{place}" for place, (model, name) in enumerate(names.items(), start=1)}


def folder_of(config: FewShotConfig, each: Try) -> Path:
    return Path(config.output) / folder_names(config)[each.model] / str(each.size) / f"sample-{each.sample}"


def finetuning(config: FewShotConfig, each: Try, folder: Path) -> FinetuneConfig:
    return FinetuneConfig(
        recipe=replace(config.recipe, model=each.model, examples=each.size, sample=each.sample),
        train=config.train,
        train_langs=config.train_langs,
        output=str(folder),
        device=config.device,
        micro_batch_tokens=config.micro_batch_tokens,
    )


def evaluation(config: FewShotConfig, folder: Path) -> EvaluateConfig:
    return EvaluateConfig(
        model=str(folder),
        task=test_task(config),
        gold=config.test,
        reporting=Reporting(langs=config.test_langs),
        computing=Computing(device=config.device),
    )


# --- what is told -----------------------------------------------------------------------------------------------------


def rows_and_figures(config: FewShotConfig, series: Series) -> tuple[list[str], list[str]]:
    """Languages as papers print them, then averages; and the figures that they print."""
    first = next(iter(series.scores.values()))
    averages = [row for row in first if row in ("avg", "XLT", "G-XLT")]
    langs = in_order(test_task(config), [row for row in first if row not in averages])
    return [*langs, *averages], main_figures(first[[*langs, *averages][0]])


def values_of(config: FewShotConfig, series: Series, model: str, size: int, row: str, figure: str) -> list[float]:
    found = (series.scores.get(Try(model, size, sample)) for sample in range(1, config.resamples + 1))
    return [scores[row][figure] for scores in found if scores]


def table_of(config: FewShotConfig, series: Series) -> Table:
    """CLISM's table 9 with a column a language: means over the draws, and their standard deviations."""
    rows, figures = rows_and_figures(config, series)
    names, body = folder_names(config), []
    for size in sorted(config.sizes):
        for model in models_of(config):
            values = [[values_of(config, series, model, size, row, figure) for figure in figures] for row in rows]
            cells = [" / ".join(mean_and_sd(each) for each in cell) if cell[0] else "–" for cell in values]
            body.append([names[model], f"{size:,}", str(len(values[0][0])), *cells])
    header = f"{test_task(config)}, {' / '.join(title(figure) for figure in figures)}"
    return Table([header, "examples", "draws", *rows], body)


def curves_of(config: FewShotConfig, series: Series) -> dict[str, dict[str, dict[int, Sequence[float]]]]:
    """The panels of the picture: each main figure's average; its only row if there is no average."""
    rows, figures = rows_and_figures(config, series)
    row = next((row for row in ("avg", "XLT") if row in rows), rows[0])
    return {
        f"{test_task(config)}, {row}: {title(figure)}": {
            name: {size: values_of(config, series, model, size, row, figure) for size in config.sizes}
            for model, name in folder_names(config).items()
        }
        for figure in figures
    }


def as_csv(series: Series) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["model", "size", "sample", "row", "figure", "percent"])
    for each, rows in series.scores.items():
        writer.writerows(
            [*series.written(each), row, figure, value] for row, of in rows.items() for figure, value in of.items()
        )
    return target.getvalue()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
