"""Checks of pre-training before torch is imported, which takes seconds: its settings, and that data and model exist."""

from __future__ import annotations

from pathlib import Path

from schemas import manifest
from schemas.errors import ConfigError
from schemas.shards import check_shard
from training.checks.settings import check_numbers, check_output
from training.models.files import check_model
from training.recipes.pretraining import ClismObjective, PretrainConfig, WaeObjective


def check(config: PretrainConfig) -> str:
    """The schema of the data. Raises `ConfigError` or `DatasetError` for what cannot work, before anything heavy."""
    if not config.data:
        raise ConfigError("no data: name the dataset folders with --data FOLDER …; polyspan-data makes them")
    check_output(config.output, {"--data": config.data, "--model": [config.recipe.model]})
    recipe = config.recipe
    expected, maker = (
        ("clism/1", "polyspan-data clism")
        if isinstance(recipe.objective, ClismObjective)
        else ("anchor_mrc/1", "polyspan-data anchor-mrc")
    )
    for folder in config.data:
        found = manifest.load(folder).schema
        if found != expected:
            raise ConfigError(
                f"{folder}: has schema {found}, but recipe {recipe.name} reads {expected}, which `{maker}` makes. "
                f"For {found} there are: {', '.join(RECIPES_FOR.get(found, ['no recipes']))}"
            )
    check_numbers(recipe, {"steps": 1, "batch_size": 1})
    if recipe.warmup_steps > recipe.steps:
        raise ConfigError(
            f"{recipe.warmup_steps} warm-up steps do not fit into {recipe.steps} steps. Lower --warmup-steps"
        )
    check_numbers(config, {"checkpoint_every": 1, "keep_checkpoints": 1})
    check_lengths(recipe.objective)
    if isinstance(recipe.objective, ClismObjective) and not any(
        (recipe.objective.clism_weight, recipe.objective.cacr_weight, recipe.objective.mlm_weight)
    ):
        raise ConfigError("all weights of the losses are 0: there is nothing to learn")
    return expected


def check_lengths(objective: ClismObjective | WaeObjective) -> None:
    """Raises `ConfigError` if the texts of an example do not fit into the objective's `max_tokens`."""
    if isinstance(objective, ClismObjective):
        least = {"max_tokens": 16, "max_source_tokens": 1, "max_target_tokens": 1}
    else:
        least = {"max_tokens": 16, "max_query_tokens": 1, "max_context_tokens": 0}
    check_numbers(objective, least)
    for name in least:
        if getattr(objective, name) > objective.max_tokens:
            raise ConfigError(
                f"--{name.replace('_', '-')}: expected at most the {objective.max_tokens} tokens of --max-tokens, the "
                f"limit of a whole sequence, found {getattr(objective, name)}. Lower it or raise --max-tokens"
            )
    if isinstance(objective, WaeObjective) and objective.max_tokens < objective.max_query_tokens + 16:
        raise ConfigError(
            f"queries of {objective.max_query_tokens} tokens leave no room for a context in {objective.max_tokens}. "
            "Lower --max-query-tokens or raise --max-tokens"
        )


def check_inputs(config: PretrainConfig) -> None:
    """Raises `DatasetError` for a shard that is missing or torn, `ConfigError` or `InputError` for a model that is not
    there. Checksums are compared later."""
    for folder in config.data:
        index = manifest.load(folder)
        for shard in index.shards:
            check_shard(Path(folder) / shard.file, shard.info, index.schema, checksum=False)
    if config.recipe.model != "tiny":
        check_model(config.recipe.model)


RECIPES_FOR = {
    "clism/1": ["clism", "clism_paper", "clism_no_cacr", "mlm_only", "tiny_clism"],
    "anchor_mrc/1": ["mpmr_base", "mpmr_large", "tiny_mpmr"],
}
