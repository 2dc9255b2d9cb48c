"""Training objectives: pure functions from a model's outputs to a `Loss`, and how losses become one number to minimise.

Shapes in names: N sequences, T tokens of a packed batch, D hidden size, Q questions, A answers, M masked tokens,
V vocabulary. Scores become probabilities in fp32 (fp64 stays fp64), whatever precision the encoder ran in: at
|z| >= 16, bf16 moves in steps of 0.125, which ties nested spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from training.runtime.distributed import all_reduce_sum, world_size


class Loss(NamedTuple):
    """What one objective says of one rank's micro-batch.

    `total` is a differentiable sum over items (questions, masked tokens, …) and `count` is how many there are. Only
    totals and counts add up over ranks and micro-batches: a mean of means would weigh items unequally.
    A figure is a float64 tensor of two, (sum, how many it is a sum over), for the log: add up, then divide.
    """

    total: Tensor
    count: Tensor  # type: ignore[assignment]  # int64, no dimension; hides tuple.count
    figures: dict[str, Tensor]


def step_counts(micro_batches: Sequence[Mapping[str, int | Tensor]]) -> dict[str, Tensor]:
    """What each objective's total is divided by: the counts of a step's micro-batches, summed over them and all ranks.

    They are needed before the first backward pass, so take them from the batches while those are in the host's memory
    (`len(batch.que_Q)`, `len(batch.example_ids)`, `len(batch.labels_M)`, `wae.valid_pairs(batch)`): then no device has
    to be waited for, and they are the `count` of the losses to come. Every rank calls this with the same names.
    """
    names = sorted(micro_batches[0])
    table = torch.tensor([[int(counts[name]) for name in names] for counts in micro_batches])
    return dict(zip(names, all_reduce_sum(table.sum(dim=0)).unbind(), strict=True))


def normalised(losses: Mapping[str, Loss], counts: Mapping[str, Tensor]) -> Tensor:
    """One micro-batch's share of the step's loss: Σ total / count over the objectives (CLISM, equation 9), to call
    `backward()` on. `counts` are the whole step's (`step_counts`).

    The gradient of a step is the sum of these shares' gradients over micro-batches and ranks. Accumulation adds up;
    `DistributedDataParallel`, however, divides the sum over ranks by their number, so each share is multiplied by it
    here. What all ranks' values, divided by the number of ranks, add up to is the step's loss.
    """
    return world_size() * sum(
        (loss.total / counts[name].clamp(min=1) for name, loss in losses.items()), start=torch.zeros(())
    )


def share(hits: Tensor) -> Tensor:
    """The figure of a tensor of yes and no: (how many yes, how many)."""
    return torch.stack([hits.sum(), torch.full_like(hits.sum(), hits.numel())]).double()


def at_least_fp32(x: Tensor) -> Tensor:
    """bf16 and fp16 as fp32; fp32 and fp64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
