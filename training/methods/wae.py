"""Pre-trains by mPMR's Wiki Anchor Extraction (WAE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from training.data.batches import WaeBatch
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.models.folder import Pretrained
from training.models.heads import WaeExtractor
from training.objectives import Loss
from training.objectives.wae import valid_pairs, wae_loss
from training.recipes.pretraining import WaeObjective


@dataclass(frozen=True)
class WaeMethod(OnePass):
    """Trains an extractor of the spans that answer a query (mPMR, 2.1)."""

    objective: WaeObjective

    @property
    def weights(self) -> dict[str, float]:
        return {"wae": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        hidden_size, settings = start.language_model.config.hidden_size, self.objective
        with seeded(seed):
            return load_pretrained_heads(
                {"wae": WaeExtractor(hidden_size, settings.extractor_inner, settings.extractor_dropout)}, start
            )

    def counts(self, batch: WaeBatch) -> dict[str, int | Tensor]:
        return {"wae": valid_pairs(batch)}

    def losses(self, model: EncoderWithHeads, batch: WaeBatch, shared: Any) -> dict[str, Loss]:
        start_TD, end_TD = model.heads["wae"](model.encoder(batch.inputs))
        return {"wae": wae_loss(start_TD, end_TD, batch)}
