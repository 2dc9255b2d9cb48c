"""Checks pre-training's settings, datasets and model before torch is imported, which takes seconds."""

from __future__ import annotations

from pathlib import Path

from schemas import manifest
from schemas.errors import ConfigError
from schemas.shards import check_shard
from training.checks.settings import check_numbers, check_output
from training.methods.pretraining_tasks import pretraining_task, recipes_for
from training.models.files import check_model
from training.recipes.pretraining import PretrainConfig, Recipe


def check(config: PretrainConfig) -> None:
    """Raises `ConfigError` or `DatasetError` for settings that cannot work and for datasets of another schema."""
    if not config.data:
        raise ConfigError("no data: name the dataset folders with --data FOLDER …; polyspan-data makes them")
    inputs = {"--data": config.data, "--held-out": config.held_out, "--model": [config.recipe.model]}
    check_output(config.output, inputs)
    data = {Path(folder).resolve() for folder in config.data}
    if twice := [folder for folder in config.held_out if Path(folder).resolve() in data]:
        raise ConfigError(f"--held-out: {twice[0]} is also in --data. Expected examples that are not trained on")
    check_schemas(config)
    recipe = config.recipe
    check_numbers(recipe, {"steps": 1, "batch_size": 1})
    if recipe.warmup_steps > recipe.steps:
        raise ConfigError(
            f"{recipe.warmup_steps} warm-up steps do not fit into {recipe.steps} steps. Lower --warmup-steps"
        )
    least = {"checkpoint_every": 1, "keep_checkpoints": 1, "stop_after_skipped": 1}
    check_numbers(config, least | {"evaluate_every": 1, "held_out_examples": 1, "model_every": 0})
    check_objective(recipe)


def check_schemas(config: PretrainConfig) -> None:
    """Raises `ConfigError` if a dataset has another schema than the recipe reads."""
    recipe, task = config.recipe, pretraining_task(config.recipe)
    for folder in (*config.data, *config.held_out):
        schema = manifest.load(folder).schema
        if schema != task.schema:
            raise ConfigError(
                f"{folder}: has schema {schema}, but recipe {recipe.name} reads {task.schema}, which "
                f"`{task.dataset_command}` makes. For {schema} there are: "
                f"{', '.join(recipes_for(schema) or ['no recipes'])}"
            )


def check_objective(recipe: Recipe) -> None:
    """Raises `ConfigError` if the texts of an example do not fit into the objective's `max_tokens`, or for what its
    task checks."""
    objective, task = recipe.objective, pretraining_task(recipe)
    check_numbers(objective, task.least)
    for name in task.least:
        if getattr(objective, name) > objective.max_tokens:
            raise ConfigError(
                f"--{name.replace('_', '-')}: expected at most the {objective.max_tokens} tokens of --max-tokens, the "
                f"limit of a whole sequence, found {getattr(objective, name)}. Lower it or raise --max-tokens"
            )
    task.check(objective)


def check_inputs(config: PretrainConfig) -> None:
    """Raises `DatasetError` for a shard that is missing or torn, `ConfigError` or `InputError` for a model that does
    not exist. Checksums are compared later."""
    for folder in (*config.data, *config.held_out):
        index = manifest.load(folder)
        for shard in index.shards:
            check_shard(Path(folder) / shard.file, shard.info, index.schema, checksum=False)
    if config.recipe.model != "tiny":
        check_model(config.recipe.model)
