"""Checks `evaluate` and `predict` before torch is imported, which takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path

from schemas.errors import ConfigError
from training import score
from training.models.files import check_model
from training.recipes.inference import EvaluateConfig, PredictConfig
from training.recipes.scoring import Reporting, ScoreConfig
from training.tasks.catalog import TASKS, Task
from training.tasks.predictions import BEST
from training.tasks.records import check_paths, task_of
from training.tasks.translations import check_translations

OUTPUT_EXISTS = "the file is there already. Name another, or replace it with: --overwrite"


def check_evaluate_inputs(config: EvaluateConfig) -> None:
    """Raises `ConfigError` or `InputError` for options that cannot work, and for a missing file or model."""
    for each in evaluations_of(config):
        checked(each, output_of(each))
        check_paths((*each.gold, *each.labels))
        check_translations(each.translations, each.task, each.translation_langs)
    check_model(config.model, finetuned=True)


def evaluations_of(config: EvaluateConfig) -> tuple[EvaluateConfig, ...]:
    """Returns a configuration for each task: files, label files and languages belong to the task whose `TASK=` precedes
    them, or to --task. Raises `ConfigError` if a file belongs to no task, or a label file to a task without files."""
    golds = _by_task("--gold", config.gold, config.task)
    labels = _by_task("--labels", config.labels, config.task)
    langs = _by_task("--langs", config.reporting.langs, config.task)
    translations = _by_task("--translations", config.translations, config.task)
    pairs = _by_task("--translation-langs", config.translation_langs, config.task)
    if not golds:
        return (config,)
    others = {"--labels": labels, "--langs": langs, "--translations": translations, "--translation-langs": pairs}
    for option, values in others.items():
        if other := [task for task in values if task not in golds]:
            raise ConfigError(f"{option} {other[0]}=: --gold has no files of {other[0]}")
    return tuple(
        replace(
            config,
            task=task,
            gold=tuple(map(Path, files)),
            labels=tuple(map(Path, labels.get(task, ()))),
            translations=tuple(map(Path, translations.get(task, ()))),
            translation_langs=tuple(pairs.get(task, ())),
            output=str(Path(config.output) / task) if config.output and len(golds) > 1 else config.output,
            reporting=replace(config.reporting, langs=tuple(langs.get(task, ()))),
        )
        for task, files in golds.items()
    )


def _by_task(option: str, values: Iterable[str | Path], task: str) -> dict[str, list[str]]:
    """Returns task → the values that follow its `TASK=` or, in the case of `task`, that precede every such mark."""
    by_task: dict[str, list[str]] = {}
    for value in map(str, values):
        name, mark, rest = value.partition("=")
        if mark and name in TASKS and not Path(value).exists():
            task, value = name, rest
            by_task.setdefault(task, [])
        if value and not task:
            raise ConfigError(f"{option} {value}: of which task? Name it with --task, or write TASK= before its files")
        if value:
            by_task.setdefault(task, []).append(value)
    return by_task


def check_predict_inputs(config: PredictConfig) -> None:
    """Raises `ConfigError` or `InputError` for options that cannot work, and for a missing file or model."""
    check_predict(config)
    check_model(config.model, finetuned=True)


def output_of(config: EvaluateConfig) -> Path:
    """Returns the folder to write. Raises `ConfigError` if no folder is given and the model belongs to no run."""
    if config.output:
        return Path(config.output)
    folder = Path(config.model)
    candidates = (folder, folder.resolve().parent)
    run_ = next((candidate for candidate in candidates if (candidate / "run.json").is_file()), None)
    if run_ is None:
        raise ConfigError(f"{config.model} is no run's folder: name the folder to write with --output FOLDER")
    return run_ / "results" / config.task


def checked(config: EvaluateConfig, output: Path) -> tuple[ScoreConfig, Task]:
    """Returns what will be scored, and the task. Raises `ConfigError` for options that cannot work; reads no file."""
    if not config.gold:
        raise ConfigError("no gold files: name them with --gold FILE …")
    if config.labels and len(config.labels) != len(config.gold):
        raise ConfigError(
            f"expected a label file for each of {len(config.gold)} gold files, found {len(config.labels)}"
        )
    if config.computing.batch_tokens is not None and config.computing.batch_tokens < 1:
        raise ConfigError(f"--batch-tokens: expected 1 or more, found {config.computing.batch_tokens}")
    suffix = task_of(config.task).shared.suffix
    scoring = ScoreConfig(
        config.task,
        config.labels or config.gold,
        tuple(output / "predictions" / f"{name}{suffix}" for name in distinct_names(config.gold)),
        **{option.name: getattr(config.reporting, option.name) for option in fields(Reporting)},
    )
    return scoring, score.checked(scoring)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Returns the name of each file's predictions: with its folder's where names repeat, as WikiAnn's `de/test` do."""
    names = [path.name.removesuffix(".xz").removesuffix(".json").removesuffix(".tsv") for path in paths]
    repeated = {name for name in names if names.count(name) > 1}
    names = [
        f"{path.resolve().parent.name}-{name}" if name in repeated else name
        for path, name in zip(paths, names, strict=True)
    ]
    if len(set(names)) < len(names):
        raise ConfigError("two gold files have the same name, and their folders too: evaluate them in two commands")
    return names


def check_predict(config: PredictConfig) -> None:
    """Raises `ConfigError` for options that cannot work. Does not look at the model."""
    for name, value, most in (
        ("best", config.best, BEST),
        ("batch-size", config.batch_size, None),
        ("batch-tokens", config.computing.batch_tokens, None),
    ):
        if value is not None and (value < 1 or (most and value > most)):
            raise ConfigError(f"--{name}: expected 1 {f'to {most}' if most else 'or more'}, found {value}")
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if getattr(config, name) == "-" and stream is None:  # it was closed before the command began
            raise ConfigError(f"standard {name} is closed: name a file with --{name}")
    if config.input != "-" and not Path(config.input).is_file():
        raise ConfigError(f"{config.input}: no such file. Expected JSON lines, or - for standard input")
    if config.output == "-":
        return
    output = Path(config.output)
    if output.is_dir() or not output.resolve().parent.is_dir():
        raise ConfigError(f"--output {output}: expected a file in a folder that exists, or -")
    if output.exists() and not output.is_file():
        raise ConfigError(f"--output {output}: no regular file. Expected one to write, or - for standard output")
    if output.exists() and not config.overwrite:
        raise ConfigError(f"--output {output}: {OUTPUT_EXISTS}")
