"""Counts the places where the host would wait for a GPU, on a CPU: calls that read a tensor's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest
from torch.overrides import TorchFunctionMode, resolve_name

from training.engine import loop
from training.engine.loop import StepFigures
from training.models import attention

READS = {"item", "tolist", "numpy", "cpu", "nonzero", "__int__", "__float__", "__bool__", "__index__"}


class Waits(TorchFunctionMode):
    """Records what happens: `launch` and `launched` of a step, `read` of its figures, and every read of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.on_host = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = (resolve_name(func) or "").rpartition(".")[2]
        if name in READS and not self.on_host:
            self.events.append(name)
        return func(*args, **(kwargs or {}))

    @property
    def in_launches(self) -> list[str]:
        """The reads between the launch of a step and its end: each would stop the host until the device is done."""
        found, inside = [], False
        for event in self.events:
            inside = event == "launch" or (inside and event != "launched")
            if inside and event != "launch":
                found.append(event)
        return found


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[Waits]:
    """Counts waits of all training steps inside. Tensors of the host's memory do not count: counts of a batch, the sums
    over ranks, and the bounds of sequences where a CPU does the attention."""
    waits = Waits()

    def marked(function: Callable[..., Any], before: str, after: str = "", on_host: bool = False) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            waits.events += [before] if before else []
            waits.on_host += on_host
            try:
                return function(*args, **kwargs)
            finally:
                waits.on_host -= on_host
                waits.events += [after] if after else []

        return call

    for name in ("step_counts", "summed", "work_of"):
        patch.setattr(loop, name, marked(getattr(loop, name), "", on_host=True))
    patch.setattr(attention, "attention_by_length", marked(attention.attention_by_length, "", on_host=True))
    patch.setattr(loop, "take_step", marked(loop.take_step, "launch", "launched"))
    patch.setattr(StepFigures, "read", marked(StepFigures.read, "read"))
    with waits:
        yield waits
