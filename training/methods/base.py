"""The interface of a training method; the model that it trains; the first weights of its heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from training.models.encoder import Encoder
from training.models.folder import Pretrained
from training.models.row_dropout import install

if TYPE_CHECKING:
    from training.data.batches import Packed
    from training.objectives import Loss

Prepare = Callable[[int], AbstractContextManager[Any]]
"""`with prepare(i):` seeds the dropout of micro-batch i and sets the precision (`training.engine.loop.preparing`)."""


class Method(Protocol):
    """Computes the losses of a training step. The loop (training/engine/loop.py) calls `precompute` once for each step
    and `losses` for each micro-batch."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Loss name → its weight in the total."""

    def heads(self, start: Pretrained, seed: int) -> Mapping[str, nn.Module]:
        """Makes the heads on top of the encoder, with the starting model's weights where it has them. New weights are
        drawn from `seed`."""

    def counts(self, batch: Any) -> dict[str, int | Tensor]:
        """Counts the items of this micro-batch for each loss: loss name → number. The loop sums over micro-batches and
        ranks, then divides."""

    def encoder_inputs(self, batch: Any) -> Sequence[Packed]:
        """Returns the packed sequences that go through the encoder, one for each of its passes."""

    def precompute(self, model: Any, batches: Sequence[Any], prepare: Prepare) -> Sequence[Any]:
        """Returns for each micro-batch what its losses need to know of the step's other micro-batches, or None. Passes
        of the encoder over micro-batch i run inside `prepare(i)`."""

    def losses(self, model: Any, batch: Any, shared: Any) -> Mapping[str, Loss]:
        """Returns loss name → `Loss` of one micro-batch. `shared` is what `precompute` returned for it."""


class EncoderWithHeads(nn.Module):
    """The encoder and the heads that a method trains, as one model for optimizer and checkpoints."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))
        install(self)


class OnePass:
    """Defaults of a method whose losses need one pass of the encoder and nothing of a step's other micro-batches, and
    which has the same features in training as in prediction."""

    unit: ClassVar[str] = "sequences"

    def training_features(self, records: Sequence[Any]) -> list[Any]:
        return self.features(records)

    def features(self, records: Sequence[Any]) -> list[Any]:
        raise NotImplementedError

    def encoder_inputs(self, batch: Any) -> tuple[Packed, ...]:
        return (batch.inputs,)

    def precompute(self, model: EncoderWithHeads, batches: Sequence[Any], prepare: Prepare) -> Sequence[Any]:
        return [None] * len(batches)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, new weights are drawn from `seed`. Restores torch's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def load_pretrained_heads(heads: Mapping[str, nn.Module], start: Pretrained) -> dict[str, nn.Module]:
    """Returns the heads with the starting model's weights, where it has a head of that name and size."""
    for name, head in heads.items():
        if has_pretrained_head(start, name, head):
            head.load_state_dict(start.heads[name].state_dict())
    return dict(heads)


def has_pretrained_head(start: Pretrained, name: str, head: nn.Module) -> bool:
    """Returns whether the starting model has a head of this name and size."""
    return name in start.heads and start.heads[name].settings == head.settings
