"""Early termination: non-finite or diverging loss, out of memory, SIGTERM or SIGINT."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch

from schemas.errors import InputError
from training.data.loader import StepBatches
from training.engine import checkpoint
from training.objectives import Loss
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.pretraining import PretrainConfig, Recipe
from training.runtime.distributed import rank
from training.runtime.errors import TrainingError

REMEMBERED = 100  # losses that a diverging one is compared with


def check_divergence(
    row: Mapping[str, float],
    losses_before: Sequence[float],
    recipe: Recipe | FinetuneRecipe,
    step: int,
    fetched: StepBatches,
    micro_batch_losses: Sequence[Mapping[str, Loss]],
    checkpoints: Path,
) -> None:
    """Raises `TrainingError` if loss or gradient norm are not finite, or the loss is more than `stop_loss_factor` times
    the largest of the last 100 steps. The message names the last sound checkpoint and the batch's examples."""
    factor = recipe.stop_loss_factor
    is_finite = math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"])
    diverged = factor and len(losses_before) == REMEMBERED and row["loss"] > factor * max(losses_before)
    if is_finite and not diverged:
        return
    bad = [
        batch
        for batch, losses in zip(fetched.micro_batches, micro_batch_losses, strict=True)
        if not all(math.isfinite(loss.total.item()) for loss in losses.values())
    ]
    ids = [id for batch in bad or fetched.micro_batches for id in batch.example_ids]
    kept = _last_sound(checkpoints, step)
    usual = f" after at most {max(losses_before):.4g} in the {len(losses_before)} steps before" if losses_before else ""
    raise TrainingError(
        f"Step {step + 1}: loss {row['loss']:.4g}, gradient norm {row['gradient_norm']:.4g}{usual}. "
        + (f"The weights of {kept} are sound. " if kept else "")
        + "In another --output, try a lower --learning-rate or a longer --warmup-steps"
        + ("" if is_finite or recipe.precision == "fp32" else ", or --precision fp32")
        + f". Process {rank()} was reading these examples: {' '.join(ids)}"
    )


def _last_sound(checkpoints: Path, step: int) -> Path | None:
    try:
        return checkpoint.newest_sound(checkpoints, upto=step)[0]
    except InputError:
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
            f"it goes on from the last checkpoint, and the loss stays the same. ({error})"
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
