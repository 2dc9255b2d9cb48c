"""Starts and ends a run: what pre-training and fine-tuning do before the first step and after the last."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from schemas.errors import ConfigError
from schemas.runtime.output_folder import delete_output, finish_replacement
from training.engine import run_folder
from training.engine.flops import EncoderSize
from training.engine.metrics_log import MetricsLog, SilentLog
from training.models.encoder import Encoder
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.pretraining import Recipe
from training.runtime.distributed import barrier, from_first_rank, rank, world_size
from training.runtime.outputs import RunTarget, reserve_run_folder, run_files

CPU_TOKENS = 1_024  # in a micro-batch: keeps XLM-R base under 8 GB (benchmarks/bench_training_memory.py)


class RunOutcome(NamedTuple):
    """How a run ended, for this process."""

    steps: int  # done
    stopped_by: int | None  # the signal that ended it before the recipe's last step
    first_rank: bool  # whether this process prints for all


def choose_device(name: str, found: torch.device) -> torch.device:
    """Returns the device that `--device` names; `found` is this rank's. Raises `ConfigError` for a missing GPU."""
    if name == "cuda" and found.type != "cuda":
        raise ConfigError("--device cuda: torch sees no GPU. Leave the option out to use the CPU")
    return torch.device("cpu") if name == "cpu" else found


def resolve_precision(recipe: Recipe | FinetuneRecipe, device: torch.device) -> Literal["bf16", "fp32"]:
    """Returns the recipe's precision, with bf16 or fp32 for `auto`, as run.json and the model card show it."""
    if recipe.precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return recipe.precision


def resolve_micro_batch_tokens(config: FinetuneConfig, device: torch.device) -> int:
    """Returns the limit of tokens that a run has, with that of this kind of device for None."""
    if config.micro_batch_tokens is None:
        return CPU_TOKENS if device.type == "cpu" else 0
    return config.micro_batch_tokens


def fingerprint(model: nn.Module) -> str:
    """Computes the SHA-256 of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


@contextmanager
def reserve_output(output: Path, overwrite: bool, command: str) -> Iterator[RunTarget]:
    """Calls `outputs.reserve_run_folder` on the first rank and gives its result to all.

    Raises what that raises, on the first rank; the others exit.
    """
    with ExitStack() as stack:

        def enter() -> RunTarget:
            return stack.enter_context(reserve_run_folder(output, overwrite, command))

        target = from_first_rank(enter)
        if target.is_new:
            log_line(f"{output} stays as it is until the new run, which is made in {target.folder}, is complete")
        yield target


def finish_run(output: Path, target: RunTarget, finished: RunOutcome) -> RunOutcome:
    """Moves a complete new run to `output`, on the first rank, if it was made beside an old one."""
    if target.is_new and not finished.stopped_by and rank() == 0:
        finish_replacement(output, run_files)
    barrier()
    return finished


def begin_or_resume(output: Path, now: Callable[[], Mapping[str, Any]], replaceable: bool = False) -> list[str]:
    """Writes run.json, or compares it with the existing one. All ranks wait. Returns the differences to print."""
    changed = from_first_rank(
        lambda: run_folder.begin(output, run_folder.identity(now(), world_size()), replaceable=replaceable)
    )
    return [f"Not as when the run was begun, so not the same to the bit: {difference}" for difference in changed]


def delete_previous_run(output: Path) -> None:
    """Deletes the unfinished run that --overwrite gives up. Called late, once all settings and inputs are known to be
    valid."""
    from_first_rank(lambda: delete_output(output, run_files))


def encoder_size(encoder: Encoder) -> EncoderSize:
    config = encoder.model.config
    size = EncoderSize(config.num_hidden_layers, config.hidden_size, config.intermediate_size, config.vocab_size)
    return size._replace(positions=encoder.positions, position_products=len(encoder.position_products))


def log_line(line: str) -> None:
    """Prints a line on the first rank, before the run's log is open."""
    if rank() == 0:
        print(line, file=sys.stderr, flush=True)


def open_run_log(output: Path, steps: int, done: int, lines: Iterable[str]) -> MetricsLog | SilentLog:
    """Opens the log of a run that has done `done` of `steps` steps, and prints these lines. Other ranks than the first
    have a log that writes nothing."""
    if rank():
        return SilentLog()
    log = MetricsLog(output, steps, done)
    for line in lines:
        log.print_line(line)
    return log


def run_line(
    verb: str, recipe: Recipe | FinetuneRecipe, encoder: Encoder, device: torch.device, work: str, done: int
) -> str:
    """Returns the first line of a run's log. `work`: the numbers of examples and steps."""
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    parameters = sum(weight.numel() for weight in encoder.parameters())
    processes = f" in {world_size()} processes" if world_size() > 1 else ""
    return (
        f"{'Going on' if done else verb} with {recipe.name} on {where}{processes}: an encoder of "
        f"{len(encoder.layers)} layers and {parameters / 1e6:,.1f} million weights ({recipe.model}), {work}"
        + (f"; {done:,} steps are done." if done else ".")
    )


def compile_layers(encoder: Encoder) -> None:
    """Compiles each layer for any number of tokens and sequences, since no two packed batches have the same."""
    for layer in encoder.layers:
        layer.compile(dynamic=True)
