"""What is trained: an encoder and heads; and where the heads' weights come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from training.models.encoder import Encoder
from training.models.folder import Pretrained


class Reader(nn.Module):
    """The encoder and the heads that a method trains, so that they are one model to optimizer and checkpoint."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """New weights are drawn from the recipe's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def known_before(heads: Mapping[str, nn.Module], start: Pretrained) -> dict[str, nn.Module]:
    """Heads with the weights that the starting model has for them, where it has some of that size."""
    for name, head in heads.items():
        before = start.heads.get(name)
        if before is not None and before.settings == head.settings:
            head.load_state_dict(before.state_dict())
    return dict(heads)
