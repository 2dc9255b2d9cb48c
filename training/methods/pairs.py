"""Classifies sentence pairs with a linear classifier on the first token.

N pairs of a batch, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from schemas.mrc import PairExample
from training.data.pair_features import pair_features
from training.data.task_batches import PairBatch, PairFeatures, pair_batch
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.models.folder import Pretrained
from training.models.heads import task_head
from training.objectives import Loss
from training.objectives.labels import UNLABELLED, label_loss, probabilities
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction


@dataclass(frozen=True)
class PlainPairs(OnePass):
    """The classifier that transformers has for the encoder's family."""

    settings: InferenceSettings
    encoder: TextEncoder

    @property
    def weights(self) -> dict[str, float]:
        return {"pairs": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        with seeded(seed):
            head = task_head("pairs", start.language_model.config, self.settings.labels)
        return load_pretrained_heads({"pairs": head}, start)

    def features(self, records: Sequence[PairExample]) -> list[PairFeatures]:
        return pair_features(records, self.encoder, self.settings)

    def batch(self, features: Sequence[PairFeatures]) -> PairBatch:
        return pair_batch(features)

    def counts(self, batch: PairBatch) -> dict[str, int | Tensor]:
        return {"pairs": (batch.labels_N != UNLABELLED).sum()}

    def scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: PairBatch) -> tuple[Tensor]:
        """Returns the logits of each pair's labels, (N, C)."""
        return (model.heads["pairs"](hidden_TD, batch.inputs.bounds_N1[:-1]),)

    def losses(self, model: EncoderWithHeads, batch: PairBatch, shared: Any) -> dict[str, Loss]:
        return {"pairs": self.loss_of(self.scores(model, model.encoder(batch.inputs), batch), batch)}

    def loss_of(self, scores: tuple[Tensor], batch: PairBatch) -> Loss:
        return label_loss(*scores, batch.labels_N)

    def outputs(self, model: EncoderWithHeads, batch: PairBatch) -> list[np.ndarray]:
        return self.outputs_of(self.scores(model, model.encoder(batch.inputs), batch), batch)

    def outputs_of(self, scores: tuple[Tensor], batch: PairBatch) -> list[np.ndarray]:
        """Returns P(label) of each pair, (C,)."""
        return list(probabilities(*scores).cpu().numpy())

    def predictions(
        self, records: Sequence[PairExample], features: Sequence[PairFeatures], outputs: Sequence[np.ndarray]
    ) -> list[Prediction]:
        """Predicts the most likely label and every label's probability; no label for a pair without features."""
        predictions = [Prediction(record.id, ()) for record in records]
        for pair, p_C in zip(features, outputs, strict=True):
            scores = dict(zip(self.settings.labels, p_C.tolist(), strict=True))
            label = self.settings.labels[int(p_C.argmax())]
            predictions[pair.record] = predictions[pair.record]._replace(label=label, scores=scores)
        return predictions
