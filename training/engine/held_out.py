"""Computes the loss on examples that are not trained on: always the same batches, with the same masks, no dropout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import torch
from torch import nn

from training.data.loader import StepBatches
from training.engine.loop import StepFigures, means_of, preparing, summed
from training.methods.base import Method
from training.objectives import Loss
from training.recipes.pretraining import Recipe


class HeldOut:
    """The first `count` of these batches, which stay in the host's memory."""

    def __init__(self, batches: Iterator[StepBatches], count: int) -> None:
        self._left, self._count = batches, count
        self._batches: list[StepBatches] = []

    def figures(self, model: nn.Module, method: Method, recipe: Recipe, device: torch.device) -> dict[str, float]:
        """Returns `held_out/loss`, its parts and the figures of its objectives: means over all ranks. Every rank calls
        this."""
        self._batches = self._batches or list(islice(self._left, self._count))
        sums, nothing = Counter[str](), torch.zeros((), device=device)
        model.eval()
        for fetched in self._batches:
            losses = self._losses(model, method, recipe, fetched, device)
            sums.update(StepFigures(losses, nothing, nothing).read()[1])
        model.train()
        figures = means_of(summed(({}, sums), {}, stop=False), method.weights)
        return {f"held_out/{name}": value for name, value in figures.items()}

    @staticmethod
    def _losses(
        model: nn.Module, method: Method, recipe: Recipe, fetched: StepBatches, device: torch.device
    ) -> list[dict[str, Loss]]:
        batches = [batch.to(device) for batch in fetched.micro_batches]
        prepare, losses = preparing(recipe, fetched.step, device), []
        for number, shared in enumerate(method.precompute(model, batches, prepare)):
            with torch.no_grad(), prepare(number):
                losses.append(dict(method.losses(model, batches[number], shared)))
        return losses
