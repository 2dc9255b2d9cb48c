"""Writes a run's checkpoints, in a thread while the training goes on, or at once.

In a thread, a step waits only until the tensors are copied to the host's memory, which takes as much of it as a
checkpoint has. At most one checkpoint is being written. Its errors are raised by the next call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training.engine import checkpoint


class CheckpointWriter:
    """Writes checkpoints into `folder`, of which it keeps the last `keep`. The end of a `with` block waits for the one
    that is being written."""

    def __init__(self, folder: Path, keep: int, in_background: bool) -> None:
        self.folder, self.keep, self.in_background = folder, keep, in_background
        self._copies: dict[str, Tensor] = {}
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.wait()
        except Exception:
            if kind is None:  # otherwise the error that ended the training is the one to report
                raise

    def save(self, step: int, model: nn.Module, optimizer: Optimizer, **state: Any) -> None:
        """Writes the checkpoint of this step, or starts to. Raises what an earlier one met, such as a full disk."""
        self.wait()
        taken = checkpoint.snapshot(step, model, optimizer, state)
        if not self.in_background:
            checkpoint.write(self.folder, taken, self.keep)
            return
        copied = taken._replace(model=self._copied("model", taken.model), moments=self._copied("", taken.moments))
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        write = partial(checkpoint.write, self.folder, copied, self.keep)
        self._thread = Thread(target=self._keep_error_of, args=(write,), name="checkpoint", daemon=True)
        self._thread.start()

    def raise_error(self) -> None:
        """Raises what the thread met, once. Does not wait for it."""
        error, self._error = self._error, None
        if error:
            raise error

    def wait(self) -> None:
        """Waits until no checkpoint is being written. Raises what the thread met."""
        if self._thread:
            self._thread.join()
            self._thread = None
        self.raise_error()

    def _keep_error_of(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BaseException as error:
            self._error = error

    def _copied(self, part: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Copies tensors to the host's memory, into the copies of the checkpoint before."""
        for name, tensor in tensors.items():
            key = f"{part}/{name}"
            if key not in self._copies:
                self._copies[key] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self._copies[key].copy_(tensor, non_blocking=True)
        return {name: self._copies[f"{part}/{name}"] for name in tensors}
