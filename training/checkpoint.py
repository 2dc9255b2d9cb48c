"""Checkpoints: all or nothing, safetensors and JSON only, the last few kept.

checkpoints/
  step-00001500/
    model.safetensors       every parameter and buffer once, fp32
    optimizer.safetensors   the moments of each parameter: "encoder.….weight/exp_avg"
    state.json              the step, and what the caller adds
A folder of that name is complete: it is written under another, flushed to the disk, then renamed. What else decides the
steps to come (order of examples, masks, dropout) is a function of seed and step, and so is not stored.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from training.errors import InputError
from training.whole import publish

FORMAT_VERSION = 1
_NAME = "step-{:08}"
_UNFINISHED = ".unfinished-"


def save(folder: Path, step: int, model: nn.Module, optimizer: Optimizer, keep: int, **state: Any) -> Path:
    """Writes `folder/step-…` after `step` steps, then deletes all but the last `keep` checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_UNFINISHED}*"):  # by a run that was killed while it wrote or deleted
        shutil.rmtree(left)
    final = folder / _NAME.format(step)
    if not final.exists():
        beside = folder / f"{_UNFINISHED}{final.name}"
        beside.mkdir()
        tensors = {name: tensor.contiguous() for name, tensor in _model_tensors(model).items()}
        save_file(tensors, beside / "model.safetensors")
        save_file(_optimizer_tensors(model, optimizer), beside / "optimizer.safetensors")
        values = {"format_version": FORMAT_VERSION, "step": step, **state}
        (beside / "state.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        publish(beside, final)
    for old in checkpoints(folder)[:-keep]:
        doomed = old.rename(folder / f"{_UNFINISHED}{old.name}")  # no moment at which half of it looks whole
        shutil.rmtree(doomed)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def restore(path: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Puts a checkpoint's tensors into model and optimizer; returns its state: `step`, and what `save` was given.

    Raises `InputError` if a file is missing or torn, or if its tensors are not this model's.
    """
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        version = state["format_version"]
        tensors = load_file(path / "model.safetensors")
        moments = load_file(path / "optimizer.safetensors")
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{path}: the checkpoint cannot be read ({type(error).__name__}: {error}). "
            "Delete its folder, and repeat the command to go on from the one before"
        ) from None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {version!r}, but this release of polyspan reads version {FORMAT_VERSION}. "
            "Go on with the release that wrote it"
        )
    _copy(_model_tensors(model), tensors, path)
    _put_moments(model, optimizer, moments, path)
    return state


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and persistent buffer, a shared one once, under its first name."""
    once: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), (name, tensor))
    return {name: tensor.detach() for name, tensor in once.values()}


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _copy(into: dict[str, Tensor], tensors: dict[str, Tensor], path: Path) -> None:
    if into.keys() != tensors.keys() or any(into[name].shape != tensors[name].shape for name in into):
        differ = [name for name in {**into, **tensors} if _shape(into, name) != _shape(tensors, name)]
        name = differ[0]
        raise InputError(
            f"{path}: {len(differ)} tensors are not this model's, such as {name}: expected {_shape(into, name)}, "
            f"found {_shape(tensors, name)}. Take another --output, or the model that the run was begun with"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            into[name].copy_(tensor)


def _put_moments(model: nn.Module, optimizer: Optimizer, moments: dict[str, Tensor], path: Path) -> None:
    parameters = dict(model.named_parameters())
    index = {
        id(each): at for at, each in enumerate(each for group in optimizer.param_groups for each in group["params"])
    }
    values: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in moments.items():
        name, _, key = full_name.rpartition("/")
        if name not in parameters:
            raise InputError(f"{path}: {name} is no parameter of this model. Take another --output")
        values.setdefault(index[id(parameters[name])], {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})  # it knows which of them go to the device


def _shape(tensors: dict[str, Tensor], name: str) -> str:
    return str(tuple(tensors[name].shape)) if name in tensors else "none"
