"""Checks of fine-tuning's settings and paths. Free of torch, which takes seconds to import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.errors import ConfigError
from training.checks.settings import check_numbers, check_output
from training.models.files import check_model
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig, FinetuneRecipe
from training.recipes.methods import METHODS, check_method
from training.tasks.catalog import TASKS
from training.tasks.records import check_sources, task_of
from training.tasks.translations import check_translations


def check(config: FinetuneConfig) -> None:
    """Raises `ConfigError` for settings that cannot work. Reads no file."""
    recipe = config.recipe
    if not config.train:
        raise ConfigError("no data: name the task's files with --train FILE …")
    check_output(config.output, inputs_of(config))
    kind = task_of(recipe.task).kind
    check_method(recipe.method, kind)
    check_recipe(recipe)
    if task_of(config.dev_task or recipe.task).kind != kind:
        raise ConfigError(f"--dev-task {config.dev_task} is another kind of task than {recipe.task}")
    if config.baseline and not recipe.method.first_stage():
        raise ConfigError(
            f"--baseline is for methods with a first stage, such as two_stage: recipe {recipe.name} has no use for it"
        )
    check_translations_option(config)
    if config.patience and not config.dev:
        raise ConfigError("--patience needs --dev FILE …: without, there is nothing to be patient with")
    check_numbers(recipe, {"batch_size": 1, "epochs": 0, "steps": 0, "examples": 0, "max_answer_tokens": 1})
    check_numbers(config, {"checkpoint_every": 1, "keep_checkpoints": 1, "evaluate_every": 0, "patience": 0})
    check_numbers(config, {"stop_after_skipped": 1, "micro_batch_tokens": 0})
    if not recipe.steps and not recipe.epochs:
        raise ConfigError("neither --steps nor --epochs: there is nothing to do")
    if recipe.max_tokens < recipe.max_query_tokens + 16:
        raise ConfigError(
            f"queries of {recipe.max_query_tokens} tokens leave no room for a context in {recipe.max_tokens}. "
            "Lower --max-query-tokens or raise --max-tokens"
        )
    if not 0 <= recipe.warmup_share <= 1:
        raise ConfigError(f"--warmup-share: expected 0 to 1, found {recipe.warmup_share}")


def check_translations_option(config: FinetuneConfig) -> None:
    """Raises `ConfigError` unless translations are given exactly where the method reads them."""
    method = config.recipe.method
    if method.reads_translations and not config.translations:
        raise ConfigError(
            f"method {method.name} trains on records beside their translations: name these with --translations FILE …"
        )
    if config.translations and not method.reads_translations:
        able = ", ".join(name for name, other in METHODS.items() if other.reads_translations)
        raise ConfigError(
            f"--translations: method {method.name} of recipe {config.recipe.name} reads none. Methods that do: {able}"
        )


def check_recipe(recipe: FinetuneRecipe) -> None:
    """Raises `ConfigError` if one of our recipes is given a task of another kind than its own: its settings, such as
    sequence length and epochs, do not suit that. A recipe with another name is not checked."""
    given, original = task_of(recipe.task).kind, FINETUNE_RECIPES.get(recipe.name)
    if original is None or (own := TASKS[original.task].kind) == given:
        return
    fitting = ", ".join(name for name, other in FINETUNE_RECIPES.items() if TASKS[other.task].kind == given)
    raise ConfigError(
        f"recipe {recipe.name} is for {own}, but --task {recipe.task} is {given}. Recipes for {given}: {fitting}"
    )


def inputs_of(config: FinetuneConfig) -> Mapping[str, Iterable[str | Path]]:
    """Returns option → the input paths that it names, none of which may be in the output folder."""
    return {
        "--train": config.train,
        "--dev": config.dev,
        "--translations": config.translations,
        "--model": [config.recipe.model],
        "--baseline": [config.baseline],
    }


def check_inputs(config: FinetuneConfig) -> None:
    """Raises `ConfigError`, `InputError` or `DatasetError` if a file or model that the command names does not exist.
    Reads no record."""
    recipe = config.recipe
    check_sources(config.train, recipe.task, config.train_langs)
    if config.dev:
        check_sources(config.dev, config.dev_task or recipe.task, config.dev_langs)
    check_translations(config.translations, recipe.task, config.translation_langs)
    if config.baseline:
        check_model(config.baseline, finetuned=True)
    if recipe.model != "tiny":
        check_model(recipe.model)
