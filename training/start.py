"""What every run does before its first step, and says at its last, whether it pre-trains or fine-tunes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from training import run_folder
from training.distributed import barrier, rank, world_size
from training.errors import ConfigError
from training.finetune_recipes import FinetuneRecipe
from training.flops import EncoderSize
from training.models.encoder import Encoder
from training.recipes import Recipe


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


def begin(output: Path, overwrite: bool, now: Callable[[], Mapping[str, Any]]) -> list[str]:
    """Writes run.json, or compares with the one there; all ranks go on together. Returns what to tell of it."""
    changed: list[str] = []
    if rank() == 0:
        if overwrite:
            run_folder.delete(output)
        changed = run_folder.begin(output, run_folder.identity(now(), world_size()))
    barrier()
    return [f"Not as when the run was begun, so not the same to the bit: {each}" for each in changed]


def size_of(encoder: Encoder) -> EncoderSize:
    of = encoder.model.config
    return EncoderSize(of.num_hidden_layers, of.hidden_size, of.intermediate_size, of.vocab_size)


def tell(line: str) -> None:
    """What takes a while before there is a logbook."""
    if rank() == 0:
        print(line, file=sys.stderr, flush=True)
