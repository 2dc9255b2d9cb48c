"""Makes batches of features that are in memory, as in fine-tuning, with the plan and loader of pre-training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from training.data.loader import Batches
from training.data.plan import Plan
from training.methods.formulation import Formulation, StepFormulation
from training.recipes.finetuning import FinetuneConfig
from training.runtime.distributed import rank, world_size


@dataclass(frozen=True)
class _Rows:
    """The features, in the form in which the loader reads rows."""

    features: Sequence[Any]

    def __getitem__(self, row: int) -> Any:
        return self.features[row]

    def file_of(self, row: int) -> str:
        return "the training files"


@dataclass(frozen=True)
class _Collator:
    """A collator for features that are made already."""

    formulation: Formulation
    seed: int

    def at_step(self, step: int) -> _Collator:
        if not isinstance(self.formulation, StepFormulation):
            return self
        return replace(self, formulation=self.formulation.at_step(step, self.seed))

    def features(self, row: Any) -> Any:
        return row

    def batch(self, examples: Sequence[Any], keys: Sequence[tuple[int, int]]) -> Any:
        return self.formulation.batch(examples)


def batches_of(config: FinetuneConfig, formulation: Formulation, features: Sequence[Any], pin_memory: bool) -> Batches:
    lengths = np.array([len(feature.ids) for feature in features], np.float32)
    plan = Plan(np.zeros(len(features), np.int64), [1.0], lengths, config.recipe.batch_size, config.recipe.seed)
    return Batches(
        _Rows(features),
        plan,
        _Collator(formulation, config.recipe.seed),
        rank=rank(),
        world_size=world_size(),
        most_tokens=config.micro_batch_tokens or None,
        pin_memory=pin_memory,
    )
