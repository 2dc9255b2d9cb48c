"""What can be checked of `few-shot` before its first run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import check_output
from training.checks import finetuning
from training.checks.settings import check_numbers
from training.models.files import check_model
from training.recipes.few_shot import FewShotConfig, models_of, test_task, tries_of
from training.recipes.few_shot import finetuning as finetuning_of
from training.recipes.finetuning import plain_values
from training.runtime.outputs import SERIES, is_series, series_files
from training.tasks.records import check_sources, read_records, task_of
from training.tasks.translations import check_translations, read_translations


def check(config: FewShotConfig) -> None:
    """Raises `ConfigError` for what cannot work. Reads no file."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("few-shot runs are short, and one process does them: start it without torchrun")
    _check_paths(config)
    if task_of(test_task(config)).kind != task_of(config.recipe.task).kind:
        raise ConfigError(f"--test-task {test_task(config)} is another kind of task than {config.recipe.task}")
    finetuning.check_recipe(config.recipe)
    if folders := [path for path in config.test if path.is_dir()]:
        raise ConfigError(f"{folders[0]}: a folder; --test takes files as the task's authors publish them")
    if config.recipe.examples or config.recipe.sample != 1:
        raise ConfigError("--examples and --sample are finetune's: few-shot takes --sizes and --resamples")
    check_numbers(config, {"resamples": 1, "micro_batch_tokens": 0})
    if not config.sizes or min(config.sizes) < 1 or len(set(config.sizes)) < len(config.sizes):
        raise ConfigError(f"--sizes: expected different numbers of 1 or more, found {config.sizes}")
    if len(set(config.models)) < len(config.models):
        raise ConfigError("--models: one is named twice")


def _check_paths(config: FewShotConfig) -> None:
    if not config.train or not config.test:
        raise ConfigError("name the files to draw from with --train FILE …, those to evaluate on with --test FILE …")
    if not config.output:
        raise ConfigError("no output: name the folder to write with --output FOLDER")
    if (Path(config.output) / SERIES).is_file() and not is_series(Path(config.output)):
        raise InputError(f"{Path(config.output) / SERIES}: not what few-shot writes. Take another --output")
    models = {"--models": config.models, "--model": [config.recipe.model]}
    translations = {"--translations": config.translations, "--test-translations": config.test_translations}
    files = {"--train": config.train, "--test": config.test, **translations}
    check_output(Path(config.output), series_files, {**files, **models})


def check_inputs(config: FewShotConfig) -> None:
    """Raises as `check` does, and for a file or model that does not exist. Does not import torch."""
    check(config)
    finetuning.check(finetuning_of(config, next(tries_of(config))))
    _check_sources(config)
    for model in models_of(config):
        if model != "tiny":
            check_model(model, fetch=False)  # if the hub lacks one, that run fails and the others go on


def check_files(config: FewShotConfig) -> dict[str, Any]:
    """Returns what all runs have in common: the recipe and the files. Raises `ConfigError` and `InputError` for files
    that cannot be used."""
    check(config)
    _check_sources(config)
    train = read_records(config.train, config.recipe.task, config.train_langs, labelled=True)
    test = read_records(config.test, test_task(config), config.test_langs, labelled=True)
    if len(train.records) < max(config.sizes):
        raise ConfigError(f"--sizes: {max(config.sizes):,} examples of the {len(train.records):,} that --train has")
    translations = read_translations(config.translations, config.recipe.task).files
    of_test = read_translations(config.test_translations, test_task(config)).files
    recipe = plain_values(config.recipe)
    for name in ("model", "examples", "sample"):
        del recipe[name]
    files = {"recipe": recipe, "train": train.files, "test_task": test_task(config), "test": test.files}
    if translations or of_test:  # so that series without any stay what they are
        files |= {"translations": translations, "test_translations": of_test}
    return files


def _check_sources(config: FewShotConfig) -> None:
    check_sources(config.train, config.recipe.task, config.train_langs)
    check_sources(config.test, test_task(config), config.test_langs)
    check_translations(config.translations, config.recipe.task)
    check_translations(config.test_translations, test_task(config))
