"""The training loop of pre-training and fine-tuning. A method (training/methods/base.py) computes the losses of a step.

A step is a function of the weights, the optimizer's moments and (seed, step, rank): order, masks and dropout carry no
state. So a run that was killed goes on from its last checkpoint to the same losses and weights, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from training.data.loader import StepBatches
from training.engine import checkpoint
from training.engine.checkpoint_writer import CheckpointWriter
from training.engine.failures import (
    History,
    check_divergence,
    memory_errors_explained,
    shield_workers_from_signals,
    skipped_line,
    stop_signal,
)
from training.engine.flops import EncoderSize, model_flops, peak_flops
from training.engine.gradients import GradientBuckets
from training.engine.metrics_log import LOST, MetricsLog, SilentLog
from training.methods.base import Method, Prepare
from training.models import row_dropout
from training.objectives import Loss, normalised, step_counts
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.pretraining import PretrainConfig, Recipe
from training.runtime import stateless_random
from training.runtime.distributed import all_reduce_sum, barrier, from_first_rank, rank, world_size

_DROPOUT = 6  # number of this stream of random numbers


class Pauses(NamedTuple):
    """What a run does after some steps besides training, on every rank alike. It must not change the weights."""

    are_due: Callable[[int], bool] = lambda done: False
    """Whether there is a pause after this number of steps."""
    figures: Callable[[int], Mapping[str, float]] = lambda done: {}
    """Returns more figures for the row of the step."""
    ends: Callable[[int, MetricsLog | SilentLog], bool] = lambda done, log: False
    """Called once the row is written. Returns whether the training ends here."""


NO_PAUSES = Pauses()


class Launched(NamedTuple):
    """A step that the device may still be computing."""

    step: int
    fetched: StepBatches
    losses: list[dict[str, Loss]]
    figures: StepFigures
    begun: float


def train(
    model: nn.Module,
    method: Method,
    batches_from: Callable[[int], Iterator[StepBatches]],
    config: PretrainConfig | FinetuneConfig,
    size: EncoderSize,
    device: torch.device,
    open_log: Callable[[int], MetricsLog | SilentLog],
    pauses: Pauses = NO_PAUSES,
    keep_last: bool = True,
) -> tuple[int, int | None]:
    """Trains `model` from its last checkpoint, or from the start, to the recipe's last step.

    `batches_from(step)` iterates over this rank's batches from `step`, counted from 0; `open_log(done)` opens the log.
    The figures of a step are read when the next one has been launched, so that the device never waits for the host;
    before a pause and a checkpoint they are read at once. Without `keep_last`, a training that comes to its end writes
    no checkpoint there. Returns the steps done and, if a signal stopped the run, the signal. Raises `TrainingError`
    where training cannot go on.
    """
    recipe, checkpoints = config.recipe, Path(config.output) / "checkpoints"
    optimizer, buckets = make_optimizer(model, recipe, device), GradientBuckets(model)
    done, history = resume(checkpoints, model, optimizer)
    if rank() == 0:  # a killed process may have left more than `keep_checkpoints`
        checkpoint.prune(checkpoints, done, config.keep_checkpoints)
    if done == recipe.steps:
        return done, None
    model.train()
    with (
        stop_signal() as stop,
        shield_workers_from_signals(batches_from(done)) as batches,
        open_log(done) as log,
        CheckpointWriter(checkpoints, config.keep_checkpoints, writes_in_background(config, device)) as writer,
        memory_errors_explained(config),
    ):
        run = Run(method, config, size, device, history, log, writer, pauses)
        before: Launched | None = None  # the step whose figures have not been read
        for step in range(done, recipe.steps):
            begun = time.perf_counter()
            writer.raise_error()
            fetched = next(batches)
            launched = Launched(
                step, fetched, *take_step(model, optimizer, buckets, method, fetched, recipe, step, device), begun
            )
            stopping = before is not None and settle(run, before, begun, stop.asked_for)
            is_pause, is_last = pauses.are_due(step + 1), step + 1 == recipe.steps
            if not (stopping or is_pause or is_last or (step + 1) % config.checkpoint_every == 0):
                before = launched
                continue

            stopping |= settle(run, launched, time.perf_counter(), stop.asked_for, is_pause)
            before = None
            ended = (is_pause and pauses.ends(step + 1, log)) or is_last
            if rank() == 0 and (keep_last or not ended):
                writer.save(step + 1, model, optimizer, **history.state)
            if ended or stopping:
                writer.wait()
                barrier()
                return step + 1, (stop.number or signal.SIGTERM) if stopping else None
    return done, None


class Run(NamedTuple):
    """What `settle` needs of a run."""

    method: Method
    config: PretrainConfig | FinetuneConfig
    size: EncoderSize
    device: torch.device
    history: History
    log: MetricsLog | SilentLog
    writer: CheckpointWriter
    pauses: Pauses


def settle(run: Run, launched: Launched, ended_at: float, stop: bool, is_pause: bool = False) -> bool:
    """Reads, checks and logs the figures of a step. Returns whether a rank is asked to stop, on every rank alike."""
    step, fetched, losses, history = launched.step, launched.fetched, launched.losses, run.history
    sums = summed(launched.figures.read(), work_of(fetched, run.method, run.size), stop)
    row = row_of(sums, run.method.weights, launched, ended_at - launched.begun, run.config.recipe, run.device)
    check_divergence(row, history, run.config, step, fetched, losses, run.writer)
    if "skipped" in row:
        run.log.print_line(skipped_line(row, step, fetched, losses))
    history.add(row)
    run.log.write(step + 1, {**row, **(run.pauses.figures(step + 1) if is_pause else {})})
    return sums["stop"] > 0


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    buckets: GradientBuckets,
    method: Method,
    fetched: StepBatches,
    recipe: Recipe | FinetuneRecipe,
    step: int,
    device: torch.device,
) -> tuple[list[dict[str, Loss]], StepFigures]:
    """Updates the weights once, unless a loss or the gradient's norm is not finite. Returns the losses of each
    micro-batch, before their weights and without gradients, and the step's figures."""
    counts = step_counts([method.counts(batch) for batch in fetched.micro_batches])
    on_device = [batch.to(device) for batch in fetched.micro_batches]
    prepare = preparing(recipe, step, device)
    buckets.begin()

    detached: list[dict[str, Loss]] = []
    for number, shared in enumerate(method.precompute(model, on_device, prepare)):
        with prepare(number):
            losses = method.losses(model, on_device[number], shared)
        with buckets.last_pass(number == len(on_device) - 1):
            torch.autograd.backward(normalised(weighted(losses, method.weights), counts))
        detached.append({name: loss._replace(total=loss.total.detach()) for name, loss in losses.items()})
    buckets.finish()
    gradient_norm = clip_gradients(model, recipe.max_gradient_norm)
    skipped = all_reduce_sum(not_finite(detached, gradient_norm))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(recipe, step)
    update(optimizer, skipped)
    optimizer.zero_grad()
    return detached, StepFigures(detached, gradient_norm, skipped)


# --- before the first step --------------------------------------------------------------------------------------------


def make_optimizer(model: nn.Module, recipe: Recipe | FinetuneRecipe, device: torch.device) -> Optimizer:
    """Makes Adam or AdamW. Weight decay applies to matrices only, not to biases and norms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    kind = {"adam": Adam, "adamw": AdamW}[recipe.optimizer]
    return kind(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=True,
    )


def resume(checkpoints: Path, model: nn.Module, optimizer: Optimizer) -> tuple[int, History]:
    """Restores the newest sound checkpoint and reports damaged ones. Returns the steps done and their history.

    Raises `InputError` if there are checkpoints, but none is sound.
    """
    newest, damaged = from_first_rank(lambda: checkpoint.newest_sound(checkpoints))
    for path, problem in damaged.items() if rank() == 0 else ():
        print(f"{path} is damaged, and not gone on from: {problem}", file=sys.stderr, flush=True)
    if newest is None:
        return 0, History()
    state = checkpoint.restore(newest, model, optimizer)
    return state["step"], History(state["losses"], state.get("skipped", 0))


def writes_in_background(config: PretrainConfig | FinetuneConfig, device: torch.device) -> bool:
    """Returns whether checkpoints are written in a thread."""
    return config.write_checkpoints == "background" or (config.write_checkpoints == "auto" and device.type == "cuda")


# --- a step -----------------------------------------------------------------------------------------------------------


def preparing(recipe: Recipe | FinetuneRecipe, step: int, device: torch.device) -> Prepare:
    """Returns `prepare(i)`, the context manager for the passes of micro-batch i. It sets the precision and seeds
    dropout, so that the two passes of GradCache drop the same units, and any micro-batches those of the whole."""
    seed = stateless_random.key(recipe.seed, _DROPOUT, step, rank())
    rows_of: row_dropout.RowsOf = {}

    @contextmanager
    def prepare(number: int) -> Iterator[None]:
        torch.manual_seed(stateless_random.key(seed, number))
        draws = row_dropout.Draws(seed, number, rows_of)
        with (
            row_dropout.drawing(draws),
            torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16"),
        ):
            yield

    return prepare


def weighted(losses: Mapping[str, Loss], weights: Mapping[str, float]) -> dict[str, Loss]:
    return {name: loss._replace(total=weights[name] * loss.total) for name, loss in losses.items()}


def not_finite(micro_batches: Sequence[Mapping[str, Loss]], gradient_norm: Tensor) -> Tensor:
    """Returns 1 if a loss of this rank or the gradient's norm is not finite, else 0: fp32, on the device."""
    totals = [loss.total.float() for losses in micro_batches for loss in losses.values()]
    return 1 - torch.stack([gradient_norm, *totals]).isfinite().all().float()


def update(optimizer: Optimizer, skipped: Tensor) -> None:
    """Takes the optimizer's step if `skipped` is 0. Otherwise weights, moments and the number of steps stay as they
    are. The device decides; the host does not wait.

    The fused kernels of Adam and AdamW have this for loss scaling (`torch.amp.GradScaler`).
    """
    optimizer.found_inf = skipped.clamp(max=1)  # type: ignore[attr-defined]
    optimizer.step()


def clip_gradients(model: nn.Module, max_norm: float) -> Tensor:
    """Scales all gradients so that their norm is at most `max_norm`, unless that is 0. Returns the norm before."""
    return nn.utils.clip_grad_norm_(model.parameters(), max_norm or math.inf)


def learning_rate(recipe: Recipe | FinetuneRecipe, step: int) -> float:
    """Returns the rate of a step, counted from 0: it rises to the full rate in `warmup_steps`, then falls linearly to
    almost 0 at the last step.

    With 5 steps, 2 of them warm-up, the rates are 1/2, 1, 3/4, 1/2, 1/4 of the full rate.
    """
    number, steps, warmup = step + 1, recipe.steps, max(1, recipe.warmup_steps)
    return recipe.learning_rate * min(number / warmup, (steps + 1 - number) / (steps + 1 - warmup))


# --- the log of a step ------------------------------------------------------------------------------------------------


def work_of(fetched: StepBatches, method: Method, size: EncoderSize) -> dict[str, float]:
    """Counts this rank's examples, tokens, FLOPs and losses of data in a step, from batches in the host's memory."""
    batches = fetched.micro_batches
    passes = [packed for batch in batches for packed in method.encoder_inputs(batch)]
    predicted = sum(len(getattr(batch, "labels_M", ())) for batch in batches)
    return {
        "examples": sum(len(batch.example_ids) for batch in batches),
        "tokens": sum(int(packed.bounds_N1[-1]) for packed in passes),
        "computed": sum(packed.tokens for packed in passes),
        "flops": model_flops(size, passes, predicted),
        **{f"lost/{reason}": fetched.refused.get(reason, 0) + fetched.notes.get(reason, 0) for reason in LOST},
    }


class StepFigures:
    """Totals, counts and figures of this rank's micro-batches, on their way to the host's memory."""

    def __init__(self, micro_batches: Sequence[Mapping[str, Loss]], gradient_norm: Tensor, skipped: Tensor) -> None:
        self._names, values = ["gradient_norm", "skipped"], [torch.stack([gradient_norm, skipped]).double()]
        for losses in micro_batches:
            for name, loss in losses.items():
                figures = [(f"{name}_{figure}", value) for figure, value in loss.figures.items()]
                for key, pair in (("loss/" + name, torch.stack([loss.total, loss.count]).double()), *figures):
                    self._names += [f"{key} total", f"{key} count"]
                    values.append(pair)
        self._values = torch.cat(values).to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event() if gradient_norm.is_cuda else None  # type: ignore[no-untyped-call]
        if self._copied:
            self._copied.record()

    def read(self) -> tuple[dict[str, float], dict[str, float]]:
        """Waits until the device has computed the step. Returns the figures that are equal on all ranks, and sums over
        micro-batches."""
        if self._copied:
            self._copied.synchronize()
        values = list(zip(self._names, self._values.tolist(), strict=True))
        sums: dict[str, float] = {}
        for key, value in values[2:]:
            sums[key] = sums.get(key, 0.0) + value
        return dict(values[:2]), sums


def summed(
    read: tuple[Mapping[str, float], Mapping[str, float]], work: Mapping[str, float], stop: bool
) -> dict[str, float]:
    """Sums this rank's sums, work and wish to stop over all ranks, with one message between them."""
    shared, own = read
    sums = {**work, "stop": float(stop), **own}
    values = all_reduce_sum(torch.tensor(list(sums.values()), dtype=torch.float64)).tolist()
    return {**shared, **dict(zip(sums, values, strict=True))}


def row_of(
    sums: Mapping[str, float],
    weights: Mapping[str, float],
    launched: Launched,
    seconds: float,
    recipe: Recipe | FinetuneRecipe,
    device: torch.device,
) -> dict[str, float]:
    """Returns the row of a step for the log (training/engine/metrics_log.py)."""
    row = figures(sums, weights, seconds, device) | {
        "lr": learning_rate(recipe, launched.step),
        "gradient_norm": sums["gradient_norm"],
        "loader_wait": min(1.0, launched.fetched.seconds_waited / seconds),
    }
    return row | ({"skipped": 1.0} if sums["skipped"] else {})


def figures(
    sums: Mapping[str, float], weights: Mapping[str, float], seconds: float, device: torch.device
) -> dict[str, float]:
    """Computes the part of a row of the log (training/engine/metrics_log.py) that follows from a step's sums."""
    row = means_of(sums, weights)
    row |= {"examples": sums["examples"], "tokens": sums["tokens"], "seconds": seconds}
    row |= {name: number for name, number in sums.items() if name.startswith("lost/") and number}
    row |= {f"{name}_per_s": sums[name] / seconds for name in ("examples", "tokens")}
    row["padding"] = 1 - sums["tokens"] / max(1.0, sums["computed"])
    if device.type == "cuda":
        row["memory"] = torch.cuda.max_memory_allocated(device) / 2**30
        if peak := peak_flops(torch.cuda.get_device_name(device)):
            row["mfu"] = sums["flops"] / seconds / peak / world_size()
    return row


def means_of(sums: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Divides totals by counts. Returns the weighted `loss`, its parts and the objectives' figures."""
    means = {
        name.removesuffix(" total"): total / max(1.0, sums[name.removesuffix("total") + "count"])
        for name, total in sums.items()
        if name.endswith(" total")
    }
    return {"loss": sum(weight * means[f"loss/{name}"] for name, weight in weights.items()), **means}
