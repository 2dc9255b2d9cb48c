"""Training and prediction in a few lines, for tests of formulations: all records are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from training.methods.base import EncoderWithHeads
from training.methods.formulation import Formulation
from training.models.encoder import Encoder
from training.models.folder import Pretrained
from training.objectives import Loss, normalised, step_counts
from training.tasks.predictions import Prediction


def reader_of(formulation: Formulation, start: Pretrained) -> EncoderWithHeads:
    """An untrained model. Its encoder is `start`'s own: load that anew for every model."""
    return EncoderWithHeads(Encoder(start.language_model.base_model), formulation.heads(start, seed=0)).eval()


def fit(
    formulation: Formulation, records: Sequence[Any], start: Pretrained, steps: int = 200, lr: float = 5e-3
) -> EncoderWithHeads:
    """The model after so many steps of Adam on all records, without dropout."""
    model = reader_of(formulation, start)
    batch = formulation.batch(formulation.features(records))
    adam = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        adam.zero_grad()
        _objective(formulation, model, batch).backward()
        adam.step()
    return model


def loss_of(model: EncoderWithHeads, formulation: Formulation, records: Sequence[Any]) -> float:
    """What training minimises."""
    with torch.no_grad():
        return _objective(formulation, model, formulation.batch(formulation.features(records))).item()


def predict_all(model: EncoderWithHeads, formulation: Formulation, records: Sequence[Any]) -> list[Prediction]:
    features = formulation.features(records)
    with torch.no_grad():
        outputs = formulation.outputs(model, formulation.batch(features))
    return formulation.predictions(records, features, outputs)


def _objective(formulation: Formulation, model: EncoderWithHeads, batch: Any) -> torch.Tensor:
    """The weighted sum of the mean losses, as in training/engine/loop.py."""
    (known,) = formulation.precompute(model, [batch], lambda at: torch.enable_grad())
    losses = formulation.losses(model, batch, known)
    weighted: dict[str, Loss] = {
        name: loss._replace(total=formulation.weights[name] * loss.total) for name, loss in losses.items()
    }
    return normalised(weighted, step_counts([formulation.counts(batch)]))
