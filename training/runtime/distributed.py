"""Ranks: the few collective operations that training needs. With one process they all work, and do nothing.

Every operation must be called by all ranks, in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from schemas.errors import ConfigError

T = TypeVar("T")


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Join the ranks that torchrun started, and leave them at the end. Gives this rank's device.

    Without torchrun's environment there is one rank and no group; a group within a group is the same one. Tensors in
    the host's memory travel by gloo, those on GPUs by NCCL; rank `LOCAL_RANK` of a machine has its GPU of that number.
    """
    gpus = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" not in os.environ or _grouped():
        yield device
        return
    # The first rank alone evaluates and makes candidates, while the others wait.
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=timedelta(hours=12))
    yield device
    # Not after an exception: other ranks may be waiting for this one, and this would wait for them. torchrun ends them.
    dist.destroy_process_group()


def _grouped() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """0 to `world_size() - 1`."""
    return dist.get_rank() if _grouped() else 0


def world_size() -> int:
    """How many ranks there are."""
    return dist.get_world_size() if _grouped() else 1


def barrier() -> None:
    """Wait until every rank is here."""
    if _grouped():
        dist.barrier()


def from_first_rank(make: Callable[[], T]) -> T:
    """What `make` gives on the first rank, on every rank. If it raises there, the other ranks exit with its code, and
    leave it to the first to say why."""
    if not _grouped():
        return make()
    message: list[Any] = [None, None]
    error = None
    if rank() == 0:
        try:
            message[0] = make()
        except Exception as raised:
            error, message[1] = raised, 2 if isinstance(raised, ConfigError) else 1
    dist.broadcast_object_list(message, src=0)
    if error:
        raise error
    if message[1] is not None:
        raise SystemExit(message[1])
    value: T = message[0]
    return value


def all_reduce_sum(x: Tensor) -> Tensor:
    """The sum of all ranks' `x`, a new tensor without gradient. Same shape and type on every rank."""
    x = x.detach().clone()
    if _grouped():
        dist.all_reduce(x)
    return x


class Gathered(NamedTuple):
    rows: Tensor  # all ranks' rows, in the order of ranks
    first: int  # where this rank's own begin


def all_gather_with_grad(x: Tensor) -> Gathered:
    """All ranks' rows of `x`, whose number may differ from rank to rank and be 0; other dimensions are equal.

    The gradient of a rank's rows is the sum of what every rank's loss says of them. So the gradients of losses that
    are summed, not averaged, over ranks come out right, without a factor.
    """
    if not _grouped():
        return Gathered(x, 0)
    # Sizes travel through the host's memory: no device is waited for.
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([len(x)]))
    rows = [int(size) for size in sizes]
    return Gathered(_AllGather.apply(x, rows), sum(rows[: rank()]))  # type: ignore[no-untyped-call]


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: list[int]) -> Tensor:
        ctx.rows = rows
        padded = x.new_zeros((max(rows), *x.shape[1:]))  # collectives want equal sizes
        padded[: len(x)] = x
        received = [torch.empty_like(padded) for _ in rows]
        dist.all_gather(received, padded)
        return torch.cat([each[:size] for each, size in zip(received, rows, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed)
        return torch.split(summed, ctx.rows)[rank()], None
