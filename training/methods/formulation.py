"""How a task becomes what a model reads, and what it says becomes predictions: what fine-tuning asks of a method.

records → features → batches → losses (training) or outputs (prediction) → predictions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import nn

from training.methods.base import EncoderWithHeads, Method
from training.models.folder import Pretrained
from training.tasks.predictions import Prediction


class Formulation(Method, Protocol):
    """One method for one kind of task. Frozen; holds a `TextEncoder` and what the method is set to."""

    def heads(self, start: Pretrained, seed: int) -> Mapping[str, nn.Module]:
        """What reads the encoder, with the weights that the starting model has for it, if it has some."""

    def features(self, records: Sequence[Any]) -> list[Any]:
        """Every record's features, in the records' order, several or none for a record. Each has `id`, `record` (its
        place in `records`), `ids` and `notes`, the reasons for what was cut or lost of it; it is the same in training
        and in prediction, for which records need no labels."""

    def batch(self, features: Sequence[Any]) -> Any:
        """One micro-batch of features, maybe of none."""

    def outputs(self, model: EncoderWithHeads, batch: Any) -> list[Any]:
        """What the model says of each feature of the batch: small values in the host's memory."""

    def predictions(self, records: Sequence[Any], features: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        """One for each record, in their order, also for one without features. `outputs` belong to `features`."""
