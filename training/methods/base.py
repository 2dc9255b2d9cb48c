"""What is trained: an encoder and heads; and where the heads' weights come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from training.models.encoder import Encoder
from training.models.folder import Pretrained

if TYPE_CHECKING:
    from training.data.batches import Packed
    from training.engine.loop import Prepare


class EncoderWithHeads(nn.Module):
    """The encoder and the heads that a method trains, so that they are one model to optimizer and checkpoint."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))


class OnePass:
    """Of a method whose losses take one pass of the encoder and know nothing of a step's other micro-batches."""

    def encoder_inputs(self, batch: Any) -> tuple[Packed, ...]:
        return (batch.inputs,)

    def precompute(self, model: EncoderWithHeads, batches: Sequence[Any], prepare: Prepare) -> Sequence[Any]:
        return [None] * len(batches)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """New weights are drawn from the recipe's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def load_pretrained_heads(heads: Mapping[str, nn.Module], start: Pretrained) -> dict[str, nn.Module]:
    """Heads with the weights that the starting model has for them, where it has some of that size."""
    for name, head in heads.items():
        if has_pretrained_head(start, name, head):
            head.load_state_dict(start.heads[name].state_dict())
    return dict(heads)


def has_pretrained_head(start: Pretrained, name: str, head: nn.Module) -> bool:
    """Whether the starting model has weights for this head."""
    return name in start.heads and start.heads[name].settings == head.settings
