"""CLISM's pre-training: span loss, contrastive loss and masked language modelling in one step.

N sequences, T tokens of a packed batch, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from training.data.batches import ClismBatch, Packed
from training.methods.base import EncoderWithHeads, Prepare, load_pretrained_heads, seeded
from training.models.folder import Pretrained
from training.models.heads import MlmHead, SpanHead
from training.objectives import Loss
from training.objectives.cacr import cached_gradients, cacr_loss, mean_pool, replayed_loss, shared_out
from training.objectives.clism import clism_loss
from training.objectives.mlm import mlm_loss
from training.recipes.pretraining import ClismObjective


@dataclass(frozen=True)
class ClismMethod:
    """Adds the losses of CLISM, CACR and MLM (CLISM, 3.1 to 3.3; decision 5). A weight of 0 leaves a loss out."""

    objective: ClismObjective

    @property
    def weights(self) -> dict[str, float]:
        settings = self.objective
        weights = {"clism": settings.clism_weight, "cacr": settings.cacr_weight, "mlm": settings.mlm_weight}
        return {name: weight for name, weight in weights.items() if weight}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        heads: dict[str, nn.Module] = {}
        if "clism" in self.weights:
            with seeded(seed):
                heads["span"] = SpanHead(start.language_model.config.hidden_size, self.objective.deep_head)
        if "mlm" in self.weights:
            heads["mlm"] = MlmHead(start.language_model)
        return load_pretrained_heads(heads, start)

    def counts(self, batch: ClismBatch) -> dict[str, int | Tensor]:
        counts = {"clism": len(batch.que_Q), "cacr": len(batch.example_ids), "mlm": len(batch.labels_M)}
        return {name: counts[name] for name in self.weights}

    def encoder_inputs(self, batch: ClismBatch) -> tuple[Packed, ...]:
        return (batch.inputs, batch.sources) if "cacr" in self.weights else (batch.inputs,)

    def represent(self, model: EncoderWithHeads, batch: ClismBatch) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns hidden_TD of the pass over `inputs`; and for CACR source_ND of the pass over `sources`, and masked
        source_ND and target_ND of the first."""
        hidden_TD = model.encoder(batch.inputs)
        if "cacr" not in self.weights:
            return hidden_TD, ()
        source_ND = mean_pool(model.encoder(batch.sources), batch.source_only_N2)
        return hidden_TD, (source_ND, mean_pool(hidden_TD, batch.source_N2), mean_pool(hidden_TD, batch.target_N2))

    def precompute(self, model: EncoderWithHeads, batches: Sequence[ClismBatch], prepare: Prepare) -> Sequence[Any]:
        """Computes CACR's loss over all micro-batches, and its gradients: a sentence's negatives are in all of them."""
        if len(batches) == 1 or "cacr" not in self.weights:
            return [None] * len(batches)
        representations = []
        for number, batch in enumerate(batches):
            with torch.no_grad(), prepare(number):
                representations.append(self.represent(model, batch)[1])
        return shared_out(*cached_gradients(representations, self._cacr))

    def losses(self, model: EncoderWithHeads, batch: ClismBatch, shared: Any) -> dict[str, Loss]:
        hidden_TD, representations = self.represent(model, batch)
        losses = {}
        if "clism" in self.weights:
            start_QT, end_QT = model.heads["span"](hidden_TD, batch.que_Q)
            losses["clism"] = clism_loss(start_QT, end_QT, batch, self.objective.target_only)
        if "cacr" in self.weights and shared:
            losses["cacr"] = replayed_loss(representations, *shared)
        elif "cacr" in self.weights:
            losses["cacr"] = self._cacr(*representations)
        if "mlm" in self.weights:
            losses["mlm"] = mlm_loss(model.heads["mlm"](hidden_TD, batch.masked_M), batch.labels_M)
        return losses

    @property
    def _cacr(self) -> partial[Loss]:
        return partial(cacr_loss, temperature=self.objective.cacr_temperature)
