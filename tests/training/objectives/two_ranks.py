"""What torchrun starts on each of two ranks: every objective's step, and the collectives, saved for the test."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.training.objectives.samples import (
    OBJECTIVES,
    accumulate,
    clism_examples,
    gradients_of,
    model_for,
    wae_examples,
)
from training.runtime import distributed

# Rank 0 has more than rank 1, which has an empty micro-batch too.
SHARES = [[slice(0, 3), slice(3, 4)], [slice(4, 6), slice(6, 6)]]


def examples(objective: str) -> list[dict]:
    return (wae_examples if objective == "wae" else clism_examples)(6)


def steps() -> dict[str, tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    done = {}
    for objective in OBJECTIVES:
        model = DistributedDataParallel(model_for(objective), find_unused_parameters=True)
        value = accumulate(objective, model, [examples(objective)[part] for part in SHARES[distributed.rank()]])
        done[objective] = distributed.all_reduce_sum(value) / distributed.world_size(), gradients_of(model)
    return done


def collectives() -> dict[str, object]:
    """Rank r has r + 1 rows of r, and its loss weighs every row by r + 1 and by the row's number."""
    rank = distributed.rank()
    x = torch.full((rank + 1, 2), float(rank), requires_grad=True)
    gathered = distributed.all_gather_with_grad(x)
    weights = torch.arange(1.0, len(gathered.rows) + 1)
    ((rank + 1) * weights.unsqueeze(1) * gathered.rows).sum().backward()
    distributed.barrier()
    summand = torch.tensor([rank + 1])
    summed = distributed.all_reduce_sum(summand)
    return {
        "rank": (rank, distributed.world_size()),
        "gathered": (gathered.rows.detach(), gathered.first, x.grad),
        "summed": (summed, summand),
    }


if __name__ == "__main__":
    with distributed.process_group() as device:
        torch.save(
            {"device": device, "steps": steps(), **collectives()}, Path(sys.argv[1]) / f"{distributed.rank()}.pt"
        )
