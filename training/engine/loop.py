"""The training loop of pre-training and fine-tuning. A method (training/methods/base.py) computes the losses of a step.

A step is a function of the weights, the optimizer's moments and (seed, step, rank): order, masks and dropout carry no
state. So a run that was killed goes on from its last checkpoint to the same losses and weights, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from training.data.loader import StepBatches
from training.engine import checkpoint
from training.engine.failures import (
    REMEMBERED,
    check_divergence,
    memory_errors_explained,
    shield_workers_from_signals,
    stop_signal,
)
from training.engine.flops import EncoderSize, model_flops, peak_flops
from training.engine.metrics_log import LOST, MetricsLog, SilentLog
from training.methods.base import Method, Prepare
from training.objectives import Loss, normalised, step_counts
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.pretraining import PretrainConfig, Recipe
from training.runtime import stateless_random
from training.runtime.distributed import all_reduce_sum, barrier, from_first_rank, rank, world_size

_DROPOUT = 6  # number of this stream of random numbers


def train(
    model: nn.Module,
    method: Method,
    batches_from: Callable[[int], Iterator[StepBatches]],
    config: PretrainConfig | FinetuneConfig,
    size: EncoderSize,
    device: torch.device,
    open_log: Callable[[int], MetricsLog | SilentLog],
    ends_after: Callable[[int, MetricsLog | SilentLog], bool] = lambda done, log: False,
) -> tuple[int, int | None]:
    """Trains `model` from its last checkpoint, or from the start, to the recipe's last step.

    `batches_from(step)` iterates over this rank's batches from `step`, counted from 0; `open_log(done)` opens the log.
    After every step the loop calls `ends_after(done, log)`, which ends the training if it returns True, on every rank
    alike; it must not change the weights. Returns the steps done and, if a signal stopped the run, the signal. Raises
    `TrainingError` where training cannot go on.
    """
    recipe, checkpoints = config.recipe, Path(config.output) / "checkpoints"
    optimizer = make_optimizer(model, recipe, device)
    done, losses_before = resume(checkpoints, model, optimizer)
    if rank() == 0:  # a killed process may have left more than `keep_checkpoints`
        checkpoint.prune(checkpoints, done, config.keep_checkpoints)
    if done == recipe.steps:
        return done, None
    model.train()
    with (
        stop_signal() as stop,
        shield_workers_from_signals(batches_from(done)) as batches,
        open_log(done) as log,
        memory_errors_explained(config),
    ):
        for step in range(done, recipe.steps):
            begun = time.perf_counter()
            fetched = next(batches)
            losses, gradient_norm = take_step(model, optimizer, method, fetched, recipe, step, device)
            sums = summed(losses, work_of(fetched, method, size), stop.asked_for)  # waits for the device
            seconds = time.perf_counter() - begun
            row = figures(sums, method.weights, seconds, device) | {
                "lr": learning_rate(recipe, step),
                "gradient_norm": gradient_norm.item(),
                "loader_wait": min(1.0, fetched.seconds_waited / seconds),
            }
            check_divergence(row, losses_before, recipe, step, fetched, losses, checkpoints)
            losses_before.append(row["loss"])
            log.write(step + 1, row)

            ended = ends_after(step + 1, log) or step + 1 == recipe.steps
            stopping = sums["stop"] > 0 and not ended
            if (step + 1) % config.checkpoint_every == 0 or ended or stopping:
                if rank() == 0:
                    state = {"losses": list(losses_before)}
                    checkpoint.save(checkpoints, step + 1, model, optimizer, config.keep_checkpoints, **state)
                barrier()
            if ended or stopping:
                return step + 1, (stop.number or signal.SIGTERM) if sums["stop"] else None
    return done, None


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    method: Method,
    fetched: StepBatches,
    recipe: Recipe | FinetuneRecipe,
    step: int,
    device: torch.device,
) -> tuple[list[dict[str, Loss]], Tensor]:
    """Updates the weights once. Returns the losses of each micro-batch, before their weights and without gradients, and
    the norm of the gradient before clipping."""
    counts = step_counts([method.counts(batch) for batch in fetched.micro_batches])
    on_device = [batch.to(device) for batch in fetched.micro_batches]
    prepare = preparing(recipe, step, device)

    detached: list[dict[str, Loss]] = []
    for number, shared in enumerate(method.precompute(model, on_device, prepare)):
        with prepare(number):
            losses = method.losses(model, on_device[number], shared)
        torch.autograd.backward(normalised(weighted(losses, method.weights), counts))
        detached.append({name: loss._replace(total=loss.total.detach()) for name, loss in losses.items()})
    average_gradients(model)
    gradient_norm = clip_gradients(model, recipe.max_gradient_norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(recipe, step)
    optimizer.step()
    optimizer.zero_grad()
    return detached, gradient_norm


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
        fused=device.type == "cuda",
    )


def resume(checkpoints: Path, model: nn.Module, optimizer: Optimizer) -> tuple[int, deque[float]]:
    """Restores the newest sound checkpoint and reports damaged ones. Returns the steps done and the last losses.

    Raises `InputError` if there are checkpoints, but none is sound.
    """
    newest, damaged = from_first_rank(lambda: checkpoint.newest_sound(checkpoints))
    for path, problem in damaged.items() if rank() == 0 else ():
        print(f"{path} is damaged, and not gone on from: {problem}", file=sys.stderr, flush=True)
    if newest is None:
        return 0, deque(maxlen=REMEMBERED)
    state = checkpoint.restore(newest, model, optimizer)
    return state["step"], deque(state["losses"], maxlen=REMEMBERED)


# --- a step -----------------------------------------------------------------------------------------------------------


def preparing(recipe: Recipe | FinetuneRecipe, step: int, device: torch.device) -> Prepare:
    """Returns `prepare(i)`, the context manager for the passes of micro-batch i. It sets the precision and seeds
    dropout, so that the two passes of GradCache drop the same units."""

    def prepare(number: int) -> AbstractContextManager[Any]:
        torch.manual_seed(stateless_random.key(recipe.seed, _DROPOUT, step, rank(), number))
        return torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16")

    return prepare


def weighted(losses: Mapping[str, Loss], weights: Mapping[str, float]) -> dict[str, Loss]:
    return {name: loss._replace(total=weights[name] * loss.total) for name, loss in losses.items()}


def average_gradients(model: nn.Module) -> None:
    """Averages the gradients over ranks.

    `DistributedDataParallel` would lay out its buckets anew after the first step, which changes the order of sums over
    three ranks or more, and so the bits of a run that is resumed. Its overlap of communication and computation would
    hide little: most of the bytes are the embeddings', whose gradient is ready last.
    """
    if world_size() == 1:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:  # no example of this rank uses it
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        work.wait()
    torch._foreach_div_(gradients, float(world_size()))


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


def summed(micro_batches: Sequence[Mapping[str, Loss]], work: Mapping[str, float], stop: bool) -> dict[str, float]:
    """Sums totals, counts and figures over a step's micro-batches and all ranks, with one wait for the device and one
    message between ranks."""
    names, values = [], []
    for losses in micro_batches:
        for name, loss in losses.items():
            figures = [(f"{name}_{figure}", value) for figure, value in loss.figures.items()]
            for key, pair in (("loss/" + name, torch.stack([loss.total, loss.count]).double()), *figures):
                names += [f"{key} total", f"{key} count"]
                values.append(pair)
    sums = {**work, "stop": float(stop)}
    for key, value in zip(names, torch.cat(values).tolist(), strict=True):
        sums[key] = sums.get(key, 0.0) + value
    return dict(zip(sums, all_reduce_sum(torch.tensor(list(sums.values()), dtype=torch.float64)).tolist(), strict=True))


def figures(
    sums: Mapping[str, float], weights: Mapping[str, float], seconds: float, device: torch.device
) -> dict[str, float]:
    """Computes the part of a row of the log (training/engine/metrics_log.py) that follows from a step's sums."""
    means = {
        name.removesuffix(" total"): total / max(1.0, sums[name.removesuffix("total") + "count"])
        for name, total in sums.items()
        if name.endswith(" total")
    }
    row = {"loss": sum(weight * means[f"loss/{name}"] for name, weight in weights.items()), **means}
    row |= {"examples": sums["examples"], "tokens": sums["tokens"], "seconds": seconds}
    row |= {name: number for name, number in sums.items() if name.startswith("lost/") and number}
    row |= {f"{name}_per_s": sums[name] / seconds for name in ("examples", "tokens")}
    row["padding"] = 1 - sums["tokens"] / max(1.0, sums["computed"])
    if device.type == "cuda":
        row["memory"] = torch.cuda.max_memory_allocated(device) / 2**30
        if peak := peak_flops(torch.cuda.get_device_name(device)):
            row["mfu"] = sums["flops"] / seconds / peak / world_size()
    return row
