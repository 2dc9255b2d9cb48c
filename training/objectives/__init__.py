"""Training objectives: pure functions from a model's outputs to a `Loss`, and the sum of losses that is minimised.

Shapes in names: N sequences, T tokens of a packed batch, D hidden size, Q questions, A answers, M masked tokens, V
vocabulary. Scores become probabilities in fp32 (fp64 stays fp64), also if the encoder runs in bf16: at |z| >= 16, bf16
has steps of 0.125, which would give nested spans equal scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from training.runtime.distributed import all_reduce_sum, world_size


class Loss(NamedTuple):
    """One objective's loss on one rank's micro-batch.

    `total` is a differentiable sum over items (questions, masked tokens, …) and `count` is their number. Totals and
    counts add up over ranks and micro-batches; a mean of means would weigh items unequally. A figure for the log is a
    float64 tensor (sum, number of summands), which adds up in the same way.
    """

    total: Tensor
    count: Tensor  # type: ignore[assignment]  # int64, no dimension; hides tuple.count
    figures: dict[str, Tensor]


def step_counts(micro_batches: Sequence[Mapping[str, int | Tensor]]) -> dict[str, Tensor]:
    """Sums each objective's counts over a step's micro-batches and all ranks: the divisors of the totals.

    They are needed before the first backward pass. Take them from batches in the host's memory (`len(batch.que_Q)`,
    `len(batch.labels_M)`, `wae.valid_pairs(batch)`), so that no device has to finish its work first. They equal the
    `count` of the losses. Every rank calls this with the same names.
    """
    names = sorted(micro_batches[0])
    table = torch.tensor([[int(counts[name]) for name in names] for counts in micro_batches])
    return dict(zip(names, all_reduce_sum(table.sum(dim=0)).unbind(), strict=True))


def normalised(losses: Mapping[str, Loss], counts: Mapping[str, Tensor]) -> Tensor:
    """Returns a micro-batch's part of the step's loss, for `backward()`: Σ total / count over the objectives (CLISM,
    equation 9), times the number of ranks. `counts` are the whole step's (`step_counts`).

    The step's gradient is the sum of Σ total / count over micro-batches and ranks. Accumulation sums over
    micro-batches, but averaging gradients divides by the number of ranks, which the factor undoes.
    """
    return world_size() * sum(
        (loss.total / counts[name].clamp(min=1) for name, loss in losses.items()), start=torch.zeros(())
    )


def hit_rate(hits: Tensor, counted: Tensor | None = None) -> Tensor:
    """Makes the figure of a bool tensor: (number that are true, number of all). `counted` is true at those that count;
    hits are among them."""
    all_of = torch.full_like(hits.sum(), hits.numel()) if counted is None else counted.sum()
    return torch.stack([hits.sum(), all_of]).double()


def at_least_fp32(x: Tensor) -> Tensor:
    """Converts bf16 and fp16 to fp32; leaves fp32 and fp64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
