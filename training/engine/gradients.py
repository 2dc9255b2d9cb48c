"""Averages gradients over ranks while the backward pass goes on.

Parameters in reverse order, which is about the order in which their gradients are ready, fill buckets of about 25 MiB:

    parameters   embeddings │ layer 0 … layer 11 │ heads
    buckets            2    │          1         │   0       their sums are started in this order on every rank

Each gradient is a part of its bucket's buffer, so that a bucket is one message. Buckets never change: over three ranks
or more, other buckets would change the order of sums, and so the bits of a run that is resumed. For this reason
`DistributedDataParallel`, which makes its buckets anew after the first step, is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.runtime.distributed import TIMEOUT, world_size

BUCKET_BYTES = 25 * 2**20


class GradientBuckets:
    """The gradients of a model's parameters, in buckets. With one rank there are none, and every method does nothing.

    `begin`, backward passes of which the last is inside `last_pass`, then `finish`: every gradient is the mean over
    ranks. A parameter that no rank uses has a gradient of zeros.
    """

    def __init__(self, model: nn.Module, most_bytes: int = BUCKET_BYTES) -> None:
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._buckets = [] if world_size() == 1 else [_Bucket(each) for each in split(parameters, most_bytes)]
        # Sums of a group of their own do not have to keep the order of the losses' messages, which depends on data.
        self._group = dist.new_group(timeout=TIMEOUT) if self._buckets else None
        self._is_last_pass = False
        self._works: list[Any] = []
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._counted_in(bucket))  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Sets all gradients to zero."""
        for bucket in self._buckets:
            bucket.begin()

    @contextmanager
    def last_pass(self, is_last: bool) -> Iterator[None]:
        """Inside, if `is_last`, a bucket's sum is started as soon as its gradients and the buckets before are ready."""
        self._is_last_pass = is_last
        try:
            yield
        finally:
            self._is_last_pass = False

    def finish(self) -> None:
        """Starts the sums that were not started yet, waits for all and divides by the number of ranks."""
        self._start(whatever_is_missing=True)
        for bucket, work in zip(self._buckets, self._works, strict=True):
            work.wait()
            bucket.buffer.div_(world_size())
        self._works.clear()

    def _counted_in(self, bucket: _Bucket) -> Callable[[Tensor], None]:
        def count(_: Tensor) -> None:
            if self._is_last_pass:
                bucket.missing -= 1
                self._start()

        return count

    def _start(self, whatever_is_missing: bool = False) -> None:
        """Starts the sums of the next buckets that are ready, always in the same order."""
        for bucket in self._buckets[len(self._works) :]:
            if bucket.missing and not whatever_is_missing:
                return
            self._works.append(dist.all_reduce(bucket.buffer, group=self._group, async_op=True))


class _Bucket:
    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters, self.missing = parameters, len(parameters)
        self.buffer = torch.zeros(
            sum(each.numel() for each in parameters), dtype=parameters[0].dtype, device=parameters[0].device
        )

    def begin(self) -> None:
        self.missing = len(self.parameters)
        self.buffer.zero_()
        parts = torch.split(self.buffer, [each.numel() for each in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def split(parameters: Sequence[nn.Parameter], most_bytes: int) -> list[list[nn.Parameter]]:
    """Returns the parameters from the last to the first, in lists of one type and at most `most_bytes`, unless one
    parameter has more."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        if not buckets or size > room or parameter.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = most_bytes
        buckets[-1].append(parameter)
        room -= size
    return buckets
