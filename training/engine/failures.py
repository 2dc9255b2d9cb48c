"""What ends a run before its last step: losses that left the numbers, full memory, a signal."""

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

REMEMBERED = 100  # losses, to tell an explosion by


def check_divergence(
    row: Mapping[str, float],
    before: Sequence[float],
    recipe: Recipe | FinetuneRecipe,
    step: int,
    fetched: StepBatches,
    found: Sequence[Mapping[str, Loss]],
    checkpoints: Path,
) -> None:
    """Raises `TrainingError` if loss or gradient are no numbers, or the loss is more than `stop_loss_factor` times
    the largest of the last 100 steps. The weights are lost by then; the last checkpoint is not."""
    factor = recipe.stop_loss_factor
    numbers = math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"])
    exploded = factor and len(before) == REMEMBERED and row["loss"] > factor * max(before)
    if numbers and not exploded:
        return
    bad = [
        batch
        for batch, losses in zip(fetched.micro_batches, found, strict=True)
        if not all(math.isfinite(loss.total.item()) for loss in losses.values())
    ]
    ids = [each for batch in bad or fetched.micro_batches for each in batch.example_ids]
    kept = _last_sound(checkpoints, step)
    usual = f" after at most {max(before):.4g} in the {len(before)} steps before" if before else ""
    raise TrainingError(
        f"Step {step + 1}: loss {row['loss']:.4g}, gradient norm {row['gradient_norm']:.4g}{usual}. "
        + (f"The weights of {kept} are sound. " if kept else "")
        + "In another --output, try a lower --learning-rate or a longer --warmup-steps"
        + ("" if numbers or recipe.precision == "fp32" else ", or --precision fp32")
        + f". Process {rank()} was reading these examples: {' '.join(ids)}"
    )


def _last_sound(checkpoints: Path, step: int) -> Path | None:
    try:
        return checkpoint.newest_sound(checkpoints, upto=step)[0]
    except InputError:
        return None


@contextmanager
def memory_errors_explained(config: PretrainConfig | FinetuneConfig) -> Iterator[None]:
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
    received: list[int]

    @property
    def asked_for(self) -> bool:
        return bool(self.received)

    @property
    def number(self) -> int | None:
        return self.received[0] if self.received else None


@contextmanager
def stop_signal() -> Iterator[Stop]:
    """Inside, SIGTERM and the first Ctrl-C are noted, to stop after the step with a checkpoint; a second Ctrl-C stops
    at once."""
    stop = Stop([])
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, _: Any) -> None:
        stop.received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shield_workers_from_signals(batches: Iterator[StepBatches]) -> Iterator[Iterator[StepBatches]]:
    """The same batches, of a loader whose workers are started where SIGTERM and Ctrl-C do not reach them, and are ended
    with the block. A terminal, torchrun and schedulers send those to every process, and without its workers a run could
    not finish its step."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # processes inherit it
    try:
        first = next(batches)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield chain([first], batches)
    finally:
        if isinstance(batches, Generator):
            batches.close()
