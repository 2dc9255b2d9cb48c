"""Gradients of a small model on one of several ranks, by buckets and by one sum for each parameter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.engine.gradients import GradientBuckets
from training.runtime import distributed

BYTES = 4 * 40  # of a bucket: the model's gradients fill several


class Net(nn.Module):
    """A tied weight, a parameter that the ranks but the first do not use, and one that none uses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(11, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.of_first, self.of_none = nn.Linear(4, 3), nn.Linear(4, 2)
        self.out = nn.Linear(4, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids_T: Tensor) -> Tensor:
        hidden_TD = self.embed(ids_T)
        for layer in self.layers:
            hidden_TD = layer(hidden_TD).tanh()
        loss = self.out(hidden_TD).logsumexp(dim=1).sum()
        return loss + self.of_first(hidden_TD).square().sum() if distributed.rank() == 0 else loss


def micro_batches(step: int) -> list[Tensor]:
    torch.manual_seed(100 * step + distributed.rank())
    return [torch.randint(0, 11, (size,)) for size in (5, 3)]


def steps(first: int, last: int, net: Net, by_buckets: bool) -> list[dict[str, Tensor]]:
    """Trains from step `first` to `last`. Returns the gradients of each step."""
    gradients = []
    buckets = GradientBuckets(net, BYTES) if by_buckets else None
    for step in range(first, last):
        net.zero_grad()
        if buckets:
            buckets.begin()
        for number, ids in enumerate(micro_batches(step)):
            if buckets:
                with buckets.last_pass(number == 1):
                    net(ids).backward()
            else:
                net(ids).backward()
        if buckets:
            buckets.finish()
        else:
            for parameter in net.parameters():
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                dist.all_reduce(parameter.grad)
                parameter.grad /= distributed.world_size()
        gradients.append({name: each.grad.clone() for name, each in net.named_parameters() if each.grad is not None})
        with torch.no_grad():
            for parameter in net.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
    return gradients


def traced() -> list[str]:
    """The order of a step's events: `ready` for each gradient of the last backward pass, and each sum's size."""
    events: list[str] = []
    real = dist.all_reduce

    def all_reduce(buffer: Tensor, *args: Any, **kwargs: Any) -> Any:
        events.append(f"sum {buffer.numel()}")
        return real(buffer, *args, **kwargs)

    dist.all_reduce = all_reduce
    net = Net()
    for unused in (net.of_first, net.of_none):  # each would hold back the buckets after it until the end
        unused.requires_grad_(False)
    for name, parameter in net.named_parameters():
        if not parameter.requires_grad:
            continue
        parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _, name=name: events.append(f"ready {name}")
        )
    steps(0, 1, net, by_buckets=True)
    dist.all_reduce = real
    return events


def on_rank(rank: int, ranks: int, port: int, folder: Path) -> None:
    """Writes what this rank finds to `folder`."""
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in values.items()})
    torch.set_num_threads(1)
    with distributed.process_group():
        whole, resumed, other = Net(), Net(), Net()
        found = steps(0, 4, whole, by_buckets=True)
        steps(0, 2, resumed, by_buckets=True)
        other.load_state_dict(resumed.state_dict())
        after = steps(2, 4, other, by_buckets=True)
        expected = steps(0, 4, Net(), by_buckets=False)
        torch.save({"found": found, "after": after, "expected": expected, "events": traced()}, folder / f"{rank}.pt")
