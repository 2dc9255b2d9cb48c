"""Early termination: non-finite or diverging loss, out of memory, SIGTERM or SIGINT."""

from __future__ import annotations

import math
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch

from schemas.errors import InputError
from training.data.loader import StepBatches
from training.engine import checkpoint
from training.engine.checkpoint_writer import CheckpointWriter
from training.objectives import Loss
from training.recipes.finetuning import FinetuneConfig
from training.recipes.pretraining import PretrainConfig
from training.runtime.distributed import rank
from training.runtime.errors import TrainingError

REMEMBERED = 100  # losses that a diverging one is compared with


class History:
    """What the steps done so far tell about the next one. A checkpoint keeps it."""

    def __init__(self, losses: Iterable[float] = (), skipped: int = 0) -> None:
        self.losses = deque(losses, maxlen=REMEMBERED)  # of steps that were not skipped
        self.skipped = skipped  # steps in a row, up to the last one

    def add(self, row: Mapping[str, float]) -> None:
        """Adds a step's row of the log."""
        if "skipped" in row:
            self.skipped += 1
        else:
            self.losses.append(row["loss"])
            self.skipped = 0

    @property
    def state(self) -> dict[str, Any]:
        return {"losses": list(self.losses), "skipped": self.skipped}


def check_divergence(
    row: Mapping[str, float],
    history: History,
    config: PretrainConfig | FinetuneConfig,
    step: int,
    fetched: StepBatches,
    micro_batch_losses: Sequence[Mapping[str, Loss]],
    writer: CheckpointWriter,
) -> None:
    """Raises `TrainingError` if this step is the last of `stop_after_skipped` skipped ones in a row, or the loss is
    more than `stop_loss_factor` times the largest of the last 100 steps. The message names the last sound checkpoint
    and the batch's examples. A step is skipped if its loss or its gradient's norm is not finite."""
    recipe, losses = config.recipe, history.losses
    factor, skipped = recipe.stop_loss_factor, history.skipped + 1 if "skipped" in row else 0
    diverged = factor and len(losses) == REMEMBERED and row["loss"] > factor * max(losses)
    if not skipped and not diverged:
        return
    if skipped and skipped < config.stop_after_skipped:
        return
    kept = _last_sound(writer, step)
    usual = f" after at most {max(losses):.4g} in the {len(losses)} steps before" if losses else ""
    in_a_row = f"; {skipped} steps in a row were skipped, the most that --stop-after-skipped allows" if skipped else ""
    raise TrainingError(
        f"{_figures(row, step)}{usual}{in_a_row}. "
        + (f"The weights of {kept} are sound. " if kept else "")
        + "In another --output, try a lower --learning-rate or a longer --warmup-steps"
        + (", or --precision fp32" if skipped and recipe.precision != "fp32" else "")
        + f". {_reading(fetched, micro_batch_losses)}"
    )


def skipped_line(
    row: Mapping[str, float], step: int, fetched: StepBatches, micro_batch_losses: Sequence[Mapping[str, Loss]]
) -> str:
    """Returns the log's line about a skipped step."""
    return f"  {_figures(row, step)}: skipped, nothing changed. {_reading(fetched, micro_batch_losses)}"


def _figures(row: Mapping[str, float], step: int) -> str:
    return f"Step {step + 1}: loss {row['loss']:.4g}, gradient norm {row['gradient_norm']:.4g}"


def _reading(fetched: StepBatches, micro_batch_losses: Sequence[Mapping[str, Loss]]) -> str:
    """Names the examples of the micro-batches whose loss is not finite or, if there are none, of the whole step."""
    bad = [
        batch
        for batch, losses in zip(fetched.micro_batches, micro_batch_losses, strict=True)
        if not all(math.isfinite(loss.total.item()) for loss in losses.values())
    ]
    ids = " ".join(id for batch in bad or fetched.micro_batches for id in batch.example_ids)
    return f"Process {rank()} was reading these examples: {ids}"


def _last_sound(writer: CheckpointWriter, step: int) -> Path | None:
    try:
        writer.wait()
        return checkpoint.newest_sound(writer.folder, upto=step)[0]
    except (InputError, OSError):
        return None


@contextmanager
def memory_errors_explained(config: PretrainConfig | FinetuneConfig) -> Iterator[None]:
    """Inside, running out of the device's memory raises a `TrainingError` that names the options to change."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        tokens = config.micro_batch_tokens
        too_much = f"{tokens:,} tokens" if tokens else "a whole batch"
        smaller = f"--micro-batch-tokens {tokens // 2 if tokens else 16_384}"
        other = "" if config.activation_checkpointing else " or --activation-checkpointing"
        raise TrainingError(
            f"The device's memory does not hold {too_much} at once. Repeat the command with {smaller}{other}: "
            f"it goes on from the last checkpoint, to the same losses up to rounding. ({error})"
        ) from None


class Stop(NamedTuple):
    """The signals that asked the run to stop."""

    received: list[int]

    @property
    def asked_for(self) -> bool:
        return bool(self.received)

    @property
    def number(self) -> int | None:
        return self.received[0] if self.received else None


@contextmanager
def stop_signal() -> Iterator[Stop]:
    """Inside, SIGTERM and the first Ctrl-C are recorded, so that the run stops after the step, with a checkpoint. A
    second Ctrl-C stops it at once."""
    stop = Stop([])
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def record(number: int, _: Any) -> None:
        stop.received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, record) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shield_workers_from_signals(batches: Iterator[StepBatches]) -> Iterator[Iterator[StepBatches]]:
    """Yields the same batches. The loader's workers start with SIGTERM and SIGINT blocked, and end with the block.

    A terminal, torchrun and schedulers send these signals to every process, and without its workers a run could not
    finish its step.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # workers inherit the mask
    try:
        first = next(batches)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield chain([first], batches)
    finally:
        if isinstance(batches, Generator):
            batches.close()
