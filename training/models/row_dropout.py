"""Dropout that does not depend on how a step's examples are cut into micro-batches.

A step's examples are in one order, of which each micro-batch holds the next few. So the rows (tokens, words or pairs)
that a dropout layer is given in micro-batch 0, 1, 2 … are one after another the rows that it is given if all examples
go through the model at once. Which units are dropped is a function of the seed, the layer, and the number of the row in
this order:

    rows of a layer       micro-batch 0: a b c    micro-batch 1: d e
    number in the order                  0 1 2                   3 4

A layer that is called several times in a micro-batch, as in two passes of the encoder, has an order for each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

import torch
from torch import Tensor, nn

from training.runtime import stateless_random

BLOCK = 256  # rows that are drawn together

_Call = tuple[int, int]  # a layer, and the number of its call in a micro-batch
RowsOf = dict[_Call, dict[int, int]]
"""Call → micro-batch → rows of the layer's input."""


class Draws:
    """The state of the dropout layers in one micro-batch of a step. `rows_of` is shared by the step's micro-batches."""

    def __init__(self, seed: int, number: int, rows_of: RowsOf) -> None:
        self.seed, self.number, self._rows_of = seed, number, rows_of
        self.calls: dict[int, int] = {}  # layer → its calls so far

    def first_row(self, layer: int, rows: int) -> tuple[int, int]:
        """Counts a call of a layer. Returns the key of its units and the number of its first row."""
        call = (layer, self.calls.get(layer, 0))
        self.calls[layer] = call[1] + 1
        of_call = self._rows_of.setdefault(call, {})
        of_call[self.number] = rows
        before = sum(of_call[number] for number in of_call if number < self.number)
        return stateless_random.key(self.seed, *call), before


_CURRENT: ContextVar[Draws | None] = ContextVar("dropout", default=None)


@contextmanager
def drawing(draws: Draws | None) -> Iterator[None]:
    """Inside, `RowDropout` draws from `draws`; without any, it drops as torch does."""
    token = _CURRENT.set(draws)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class Replay:
    """Remembers the state before a call, so that calling again, as activation checkpointing does, drops the same."""

    def __init__(self) -> None:
        self._draws = _CURRENT.get()
        self._calls = dict(self._draws.calls) if self._draws else {}

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if self._draws:
            self._draws.calls = dict(self._calls)
        with drawing(self._draws):
            yield


class RowDropout(nn.Dropout):
    """Drops units of the rows of an input (…, rows, width) as a function of their number in the step. Inside
    torch.compile it drops as torch does."""

    def __init__(self, p: float, layer: int) -> None:
        super().__init__(p)
        self.layer = layer  # number of this layer in its model

    def forward(self, input: Tensor) -> Tensor:
        draws = None if torch.compiler.is_compiling() else _CURRENT.get()
        if draws is None or not self.training or self.p == 0.0:
            return super().forward(input)
        rows, width = input.shape[-2:]
        key, first = draws.first_row(self.layer, rows)
        kept = kept_units(key, first, rows, width, self.p, input.device)
        return input * (kept / (1 - self.p)).to(input.dtype)


def kept_units(key: int, first: int, rows: int, width: int, p: float, device: torch.device) -> Tensor:
    """Returns which units are kept of rows `first` to `first + rows`: bool, (rows, width)."""
    if not rows:
        return torch.ones(0, width, dtype=torch.bool, device=device)
    generator, blocks = torch.Generator(device), []
    for block in range(first // BLOCK, -(-(first + rows) // BLOCK)):
        generator.manual_seed(stateless_random.key(key, block))
        blocks.append(torch.rand(BLOCK, width, generator=generator, device=device) >= p)
    start = first % BLOCK
    return torch.cat(blocks)[start : start + rows]


def install(model: nn.Module) -> None:
    """Replaces all dropout layers of a model by `RowDropout`, but for those of DeBERTa's table of relative positions,
    whose rows are not those of a batch."""
    numbers = count()
    for parent in list(model.modules()):
        for name, module in parent.named_children():
            if type(module) is nn.Dropout and name != "pos_dropout":
                setattr(parent, name, RowDropout(module.p, next(numbers)).train(module.training))
