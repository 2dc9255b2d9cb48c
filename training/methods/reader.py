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
    from training.loop import Prepare


class Reader(nn.Module):
    """The encoder and the heads that a method trains, so that they are one model to optimizer and checkpoint."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))


class OnePass:
    """Of a method whose losses take one pass of the encoder and know nothing of a step's other micro-batches."""

    def passes(self, batch: Any) -> tuple[Packed, ...]:
        return (batch.inputs,)

    def first_pass(self, model: Reader, batches: Sequence[Any], prepare: Prepare) -> Sequence[Any]:
        return [None] * len(batches)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """New weights are drawn from the recipe's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def known_before(heads: Mapping[str, nn.Module], start: Pretrained) -> dict[str, nn.Module]:
    """Heads with the weights that the starting model has for them, where it has some of that size."""
    for name, head in heads.items():
        if brings(start, name, head):
            head.load_state_dict(start.heads[name].state_dict())
    return dict(heads)


def brings(start: Pretrained, name: str, head: nn.Module) -> bool:
    """Whether the starting model has weights for this head."""
    return name in start.heads and start.heads[name].settings == head.settings
