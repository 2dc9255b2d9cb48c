"""Checks `evaluate` and `predict` before torch is imported, which takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from schemas.errors import ConfigError
from training import score
from training.models.files import check_model
from training.recipes.inference import EvaluateConfig, PredictConfig
from training.recipes.scoring import Reporting, ScoreConfig
from training.tasks.catalog import Task
from training.tasks.predictions import BEST
from training.tasks.records import check_paths, task_of
from training.tasks.translations import check_translations

OUTPUT_EXISTS = "the file is there already. Name another, or replace it with: --overwrite"


def check_evaluate_inputs(config: EvaluateConfig) -> None:
    """Raises `ConfigError` or `InputError` for options that cannot work, and for a missing file or model."""
    checked(config, output_of(config))
    check_paths((*config.gold, *config.labels))
    check_translations(config.translations, config.task, config.translation_langs)
    check_model(config.model, finetuned=True)


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
