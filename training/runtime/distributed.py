"""The collective operations that training needs. With one process they need no process group.

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
TIMEOUT = timedelta(hours=12)  # the first rank alone evaluates and makes candidates, while the others wait


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Joins the ranks that torchrun started, and leaves them at the end. Yields this rank's device.

    Without torchrun's environment there is one rank and no group. A nested call uses the existing group. Tensors in the
    host's memory travel by gloo, those on GPUs by NCCL. Rank `LOCAL_RANK` of a machine uses its GPU of that number.
    """
    gpus = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" not in os.environ or _grouped():
        yield device
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=TIMEOUT)
    yield device
    # Not after an exception: other ranks may be waiting for this one, and this would wait for them. torchrun ends them.
    dist.destroy_process_group()


def _grouped() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Returns this process's rank, from 0 to `world_size() - 1`."""
    return dist.get_rank() if _grouped() else 0


def world_size() -> int:
    """Returns the number of ranks."""
    return dist.get_world_size() if _grouped() else 1


def barrier() -> None:
    """Waits until every rank has called it."""
    if _grouped():
        dist.barrier()


def from_first_rank(make: Callable[[], T]) -> T:
    """Calls `make` on the first rank and returns its result on every rank.

    If it raises there, the other ranks exit with the exit code of that error, without a message.
    """
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
    """Returns the sum of all ranks' `x`, which have one shape and type, as a new tensor without gradient."""
    x = x.detach().clone()
    if _grouped():
        dist.all_reduce(x)
    return x


class Gathered(NamedTuple):
    rows: Tensor  # all ranks' rows, in the order of ranks
    first: int  # index of this rank's first row


def all_gather_with_grad(x: Tensor) -> Gathered:
    """Returns all ranks' rows of `x`. Their number may differ from rank to rank and be 0; other dimensions are equal.

    The gradient of a rank's rows is the sum of the gradients from every rank's loss. So the gradients of a loss that is
    summed, not averaged, over ranks need no factor.
    """
    if not _grouped():
        return Gathered(x, 0)
    # Sizes travel through the host's memory, so that no device has to finish its work first.
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([len(x)]))
    rows = [int(size) for size in sizes]
    return Gathered(_AllGather.apply(x, rows), sum(rows[: rank()]))  # type: ignore[no-untyped-call]


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: list[int]) -> Tensor:
        ctx.rows = rows
        padded = x.new_zeros((max(rows), *x.shape[1:]))  # collectives need equal sizes
        padded[: len(x)] = x
        received = [torch.empty_like(padded) for _ in rows]
        dist.all_gather(received, padded)
        return torch.cat([padded[:size] for padded, size in zip(received, rows, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed)
        return torch.split(summed, ctx.rows)[rank()], None
