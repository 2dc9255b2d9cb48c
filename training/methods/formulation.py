"""The interface of a method for one kind of task.

records → features → batches → losses (training) or outputs (prediction) → predictions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import nn

from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads, Method
from training.models.folder import Pretrained
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction


class Formulation(Method, Protocol):
    """One method for one kind of task: a frozen dataclass of the inference settings and a `TextEncoder`."""

    unit: ClassVar[str]
    """What one feature is, in the plural, for the log. A step reads `batch_size` features."""

    def __init__(self, settings: InferenceSettings, encoder: TextEncoder, **run_data: Any) -> None: ...

    def heads(self, start: Pretrained, seed: int) -> Mapping[str, nn.Module]:
        """Returns all modules to train besides the encoder, with the starting model's weights where it has them. Those
        that prediction reads are named in `MethodSettings`; the others are dropped when the model is saved."""

    def features(self, records: Sequence[Any]) -> list[Any]:
        """Returns the features of all records, in the records' order: several, one or none for a record.

        Each has `id`, `record` (the index in `records`), `ids` (all tokens that it takes, by whose number micro-batches
        are filled) and `notes` (reasons for what was cut or lost). Records need no labels. Windows of a query's context
        also have `label` and `answers`, by which training leaves out queries that lost all their answers
        (`training.data.windows.taught`).
        """

    def training_features(self, records: Sequence[Any]) -> list[Any]:
        """Returns the features to train on, in the records' order: those of `features`, unless training reads more than
        prediction, such as several translations of a record."""

    def batch(self, features: Sequence[Any]) -> Any:
        """Packs features into one micro-batch, a `Movable` with `example_ids`. The list may be empty."""

    def outputs(self, model: EncoderWithHeads, batch: Any) -> list[Any]:
        """Returns the model's output for each feature of the batch: small values in the host's memory."""

    def predictions(self, records: Sequence[Any], features: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        """Returns one prediction for each record, in their order, also for records without features. `outputs[i]` is
        the output for `features[i]`."""


@runtime_checkable
class StepFormulation(Protocol):
    """A formulation whose training batches depend on the step, for instance by scheduled sampling."""

    def at_step(self, step: int, seed: int) -> Formulation:
        """Returns the formulation whose `batch` makes the batches of this step, counted from 0, of a run with this
        seed. They must be a function of both and of the features, so that a run that resumes makes the same."""
