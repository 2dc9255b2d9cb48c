"""Describes each objective of pre-training in one `PretrainingTask`, which `PRETRAINING_TASKS` finds by the objective's
settings.

The module is free of torch, for checks and `--help`. A task imports its collator and its method when it makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from training.recipes.pretraining import RECIPES, ClismObjective, Recipe, WaeObjective

if TYPE_CHECKING:
    from training.data.collators import Collator
    from training.data.features import Limits
    from training.data.tokens import TextEncoder
    from training.methods.base import Method


@dataclass(frozen=True)
class PretrainingTask:
    """Describes one objective: its datasets, limits, batches and losses. `objective` is an instance of its settings."""

    schema: str
    """The schema of the datasets."""
    dataset_command: str
    """The command that makes such datasets."""
    texts: tuple[str, str]
    """The columns whose texts make one sequence of the encoder, in this order."""
    sides: tuple[str, str]
    """The fields of `Limits` that hold the limits of these texts, in tokens."""
    vocabulary_texts: tuple[str, ...]
    """The columns that the tokenizer of `--model tiny` is trained on."""
    languages: str
    """What the examples are counted by in the log, "language pairs" or "languages"."""
    least: Mapping[str, int]
    """Field of the settings that limits tokens → its least value. All of them are at most `max_tokens`."""
    check: Callable[[Any], None]
    """`check(objective)` raises `ConfigError` for settings that contradict each other."""
    limits: Callable[[Any], Limits]
    """`limits(objective)` returns the most tokens of each text and of a sequence."""
    collator: Callable[[Recipe, TextEncoder, Limits], Collator]
    """Makes what turns rows into batches."""
    method: Callable[[Any], Method]
    """`method(objective)` makes what turns batches into losses."""
    heads: tuple[str, ...]
    """The heads that are saved with the model, by their names in `training.models.heads.HEADS`."""


# --- CLISM ------------------------------------------------------------------------------------------------------------


def _check_clism(objective: ClismObjective) -> None:
    if not any((objective.clism_weight, objective.cacr_weight, objective.mlm_weight)):
        raise ConfigError("all weights of the losses are 0: there is nothing to learn")


def _clism_limits(objective: ClismObjective) -> Limits:
    from training.data.features import Limits

    return Limits(source=objective.max_source_tokens, target=objective.max_target_tokens, total=objective.max_tokens)


def _clism_collator(recipe: Recipe, encoder: TextEncoder, limits: Limits) -> Collator:
    from training.data.collators import ClismCollator
    from training.data.masking import mlm_for

    assert isinstance(recipe.objective, ClismObjective)
    mlm = mlm_for(encoder, recipe.objective.mlm_share) if recipe.objective.mlm_weight else None
    return ClismCollator(encoder, limits, mlm, recipe.seed)


def _clism_method(objective: ClismObjective) -> Method:
    from training.methods.clism import ClismMethod

    return ClismMethod(objective)


CLISM = PretrainingTask(
    schema="clism/1",
    dataset_command="polyspan-data clism",
    texts=("masked_source_text", "target_text"),
    sides=("source", "target"),
    vocabulary_texts=("source_text", "target_text"),
    languages="language pairs",
    least={"max_tokens": 16, "max_source_tokens": 1, "max_target_tokens": 1},
    check=_check_clism,
    limits=_clism_limits,
    collator=_clism_collator,
    method=_clism_method,
    heads=("span",),
)


# --- mPMR's Wiki Anchor Extraction ------------------------------------------------------------------------------------


def _check_wae(objective: WaeObjective) -> None:
    if objective.max_tokens < objective.max_query_tokens + 16:
        raise ConfigError(
            f"queries of {objective.max_query_tokens} tokens leave no room for a context in {objective.max_tokens}. "
            "Lower --max-query-tokens or raise --max-tokens"
        )


def _wae_limits(objective: WaeObjective) -> Limits:
    from training.data.features import Limits

    context = objective.max_context_tokens or objective.max_tokens
    return Limits(query=objective.max_query_tokens, context=context, total=objective.max_tokens)


def _wae_collator(recipe: Recipe, encoder: TextEncoder, limits: Limits) -> Collator:
    from training.data.collators import WaeCollator

    return WaeCollator(encoder, limits)


def _wae_method(objective: WaeObjective) -> Method:
    from training.methods.wae import WaeMethod

    return WaeMethod(objective)


WAE = PretrainingTask(
    schema="anchor_mrc/1",
    dataset_command="polyspan-data anchor-mrc",
    texts=("query_text", "context_text"),
    sides=("query", "context"),
    vocabulary_texts=("query_text", "context_text"),
    languages="languages",
    least={"max_tokens": 16, "max_query_tokens": 1, "max_context_tokens": 0},
    check=_check_wae,
    limits=_wae_limits,
    collator=_wae_collator,
    method=_wae_method,
    heads=("wae",),
)


# --- all --------------------------------------------------------------------------------------------------------------

PRETRAINING_TASKS: dict[type[Any], PretrainingTask] = {ClismObjective: CLISM, WaeObjective: WAE}


def pretraining_task(recipe: Recipe) -> PretrainingTask:
    """Returns the task of a recipe's objective."""
    return PRETRAINING_TASKS[type(recipe.objective)]


def recipes_for(schema: str) -> list[str]:
    """Returns the names of the recipes that train on datasets of this schema."""
    return [name for name, recipe in RECIPES.items() if pretraining_task(recipe).schema == schema]
