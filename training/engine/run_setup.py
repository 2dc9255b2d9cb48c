"""What every run does before its first step, and says at its last, whether it pre-trains or fine-tunes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from schemas.errors import ConfigError
from schemas.runtime.output_folder import delete_output, finish_replacement
from training.engine import run_folder
from training.engine.flops import EncoderSize
from training.models.encoder import Encoder
from training.recipes.finetuning import FinetuneRecipe
from training.recipes.pretraining import Recipe
from training.runtime.distributed import barrier, from_first_rank, rank, world_size
from training.runtime.outputs import Place, place_for_run, run_files


class Finished(NamedTuple):
    """How a run ended, on this process."""

    steps: int  # done
    stopped_by: int | None  # the signal that ended it before the recipe's last step
    first_rank: bool  # whether this process speaks for all


def chosen_device(name: str, found: torch.device) -> torch.device:
    if name == "cuda" and found.type != "cuda":
        raise ConfigError("--device cuda: torch sees no GPU. Leave the option out to use the CPU")
    return torch.device("cpu") if name == "cpu" else found


def precision(recipe: Recipe | FinetuneRecipe, device: torch.device) -> Literal["bf16", "fp32"]:
    """What the recipe's `auto` comes to, as run.json and the model card tell it."""
    if recipe.precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return recipe.precision


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of all weights, in order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


@contextmanager
def place_for(output: Path, overwrite: bool, command: str) -> Iterator[Place]:
    """`outputs.place_for_run`, by the first rank for all. Raises as that does, on the first rank; the others exit."""
    with ExitStack() as stack:

        def enter() -> Place:
            return stack.enter_context(place_for_run(output, overwrite, command))

        place = from_first_rank(enter)
        if place.is_new:
            tell(f"{output} stays as it is until the new run, which is made in {place.folder}, is complete")
        yield place


def finish(output: Path, place: Place, finished: Finished) -> Finished:
    """Puts a run that is through into its place."""
    if place.is_new and not finished.stopped_by and rank() == 0:
        finish_replacement(output, run_files)
    barrier()
    return finished


def begin(output: Path, now: Callable[[], Mapping[str, Any]], replaceable: bool = False) -> list[str]:
    """Writes run.json, or compares with the one there; all ranks go on together. Returns what to tell of it."""
    changed = from_first_rank(
        lambda: run_folder.begin(output, run_folder.identity(now(), world_size()), replaceable=replaceable)
    )
    return [f"Not as when the run was begun, so not the same to the bit: {each}" for each in changed]


def start_over(output: Path) -> None:
    """Deletes what --overwrite gives up, an unfinished run: late, when all that was asked for has turned out to make
    sense."""
    from_first_rank(lambda: delete_output(output, run_files))


def size_of(encoder: Encoder) -> EncoderSize:
    of = encoder.model.config
    return EncoderSize(of.num_hidden_layers, of.hidden_size, of.intermediate_size, of.vocab_size)


def tell(line: str) -> None:
    """What takes a while before there is a logbook."""
    if rank() == 0:
        print(line, file=sys.stderr, flush=True)
