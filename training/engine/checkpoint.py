"""Writes and reads checkpoints, which are complete or absent and have checksums. Only the last few are kept.

checkpoints/
  step-00001500/
    model.safetensors       every parameter and buffer once, fp32
    optimizer.safetensors   the moments of each parameter: "encoder.….weight/exp_avg"
    state.json              the step, the caller's values, and SHA-256 of the other two files and of these values
A folder of that name is complete: it is written under another name, flushed to the disk, then renamed. Checksums show
later damage. Order of examples, masks and dropout are functions of seed and step, so they are not stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from schemas.errors import InputError
from schemas.runtime.output_folder import delete_files
from training.runtime.atomic_write import os_errors_of, publish, temporary
from training.runtime.outputs import SAFETENSORS_TEMPORARY, digest_of

FORMAT_VERSION = 2
_NAME = "step-{:08}"
_TENSORS = ("model.safetensors", "optimizer.safetensors")


class Snapshot(NamedTuple):
    """The content of a checkpoint. Its tensors may be those that the training changes."""

    step: int
    model: dict[str, Tensor]
    moments: dict[str, Tensor]
    state: dict[str, Any]  # the caller's values


def snapshot(step: int, model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> Snapshot:
    """Returns what a checkpoint of this step holds, without copying tensors that are contiguous."""
    tensors = {name: tensor.contiguous() for name, tensor in _model_tensors(model).items()}
    return Snapshot(step, tensors, _optimizer_tensors(model, optimizer), dict(state))


def save(folder: Path, step: int, model: nn.Module, optimizer: Optimizer, keep: int, **state: Any) -> Path:
    """Calls `write` with a snapshot of this step."""
    return write(folder, snapshot(step, model, optimizer, state), keep)


def write(folder: Path, content: Snapshot, keep: int) -> Path:
    """Writes `folder/step-…`, replacing one of that step, then deletes all but the last `keep` checkpoints up to it.

    Also deletes later checkpoints: they were damaged, and the run was resumed from one before them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.glob(".step-*.partial"):  # a run was killed while it wrote or deleted them
        _discard(unfinished)
    final = folder / _NAME.format(content.step)
    beside = temporary(final)
    beside.mkdir()
    try:
        _write(beside, content)
        publish(beside, final)
    except OSError:
        _discard(beside)
        raise
    _discard(beside)  # it holds the previous checkpoint of this step, if there was one
    prune(folder, content.step, keep)
    for path in checkpoints(folder):
        if step_of(path) > content.step:
            _delete(path)
    return final


def prune(folder: Path, step: int, keep: int) -> None:
    """Deletes all but the last `keep` of the checkpoints up to this step."""
    for path in [path for path in checkpoints(folder) if step_of(path) <= step][:-keep]:
        _delete(path)


def _delete(path: Path) -> None:
    doomed = temporary(path)
    path.rename(doomed)  # so that a half-deleted checkpoint never has a checkpoint's name
    _discard(doomed)


def _write(folder: Path, content: Snapshot) -> None:
    for name, tensors in zip(_TENSORS, (content.model, content.moments), strict=True):
        with os_errors_of(folder / name):
            save_file(tensors, folder / name)
    values = {"format_version": FORMAT_VERSION, "step": content.step, **content.state}
    sha256 = {name: digest_of(folder / name) for name in _TENSORS} | {"state": _digest_of_state(values)}
    text = json.dumps({**values, "sha256": sha256}, indent=2) + "\n"
    (folder / "state.json").write_text(text, encoding="utf-8")


def _discard(folder: Path) -> None:
    """Deletes a checkpoint's files, and its folder unless it holds other files."""
    unfinished = [path.name for path in folder.glob(".tmp*") if re.fullmatch(SAFETENSORS_TEMPORARY, path.name)]
    delete_files(folder, (*_TENSORS, "state.json", *unfinished))
    try:
        folder.rmdir()
    except OSError:
        return


def checkpoints(folder: Path) -> list[Path]:
    """Lists the complete checkpoints, oldest first."""
    return sorted((path for path in folder.glob("step-*") if path.name[5:].isdigit()), key=step_of)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def damage(path: Path) -> str | None:
    """Compares a checkpoint with the checksums in its state.json. Returns what is wrong, or None if it is sound.

    Raises `InputError` if another release wrote it.
    """
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        version = state["format_version"]
    except OSError as error:
        return f"state.json cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "state.json is not what was written"
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {version!r}, but this release of polyspan reads version {FORMAT_VERSION}. "
            "Go on with the release that wrote it, or begin anew with --overwrite"
        )
    sha256 = state.pop("sha256", None)
    if not isinstance(sha256, dict) or sha256.get("state") != _digest_of_state(state) or state["step"] != step_of(path):
        return "state.json is not what was written"
    for name in _TENSORS:
        try:
            if digest_of(path / name) != sha256.get(name):
                return f"{name} is not what was written: its checksum differs"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def newest_sound(folder: Path, upto: int | None = None) -> tuple[Path | None, dict[Path, str]]:
    """Finds the last sound checkpoint, at most of step `upto`. Returns it, and what is wrong with those after it.

    Raises `InputError` if there are checkpoints, but none is sound.
    """
    damaged: dict[Path, str] = {}
    for path in reversed(checkpoints(folder)):
        if upto is not None and step_of(path) > upto:
            continue
        if (problem := damage(path)) is None:
            return path, damaged
        damaged[path] = problem
    if damaged:
        problems = "; ".join(f"{path.name}: {problem}" for path, problem in damaged.items())
        raise InputError(
            f"{folder} holds no sound checkpoint to go on from ({problems}). Restore one from a copy, or begin anew "
            "with --overwrite"
        )
    return None, {}


def restore(path: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Copies a checkpoint's tensors into model and optimizer. Returns its state: `step`, and the values given to
    `save`.

    Raises `InputError` if it is damaged, or if its tensors are not this model's.
    """
    if problem := damage(path):
        raise InputError(f"{path}: the checkpoint is damaged: {problem}. Restore it from a copy")
    try:
        state: dict[str, Any] = json.loads((path / "state.json").read_text(encoding="utf-8"))
        tensors, moments = (load_file(path / name) for name in _TENSORS)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{path}: the checkpoint cannot be read ({type(error).__name__}: {error})") from None
    _copy(_model_tensors(model), tensors, path)
    _put_moments(model, optimizer, moments, path)
    return state


def _digest_of_state(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Returns every parameter and persistent buffer. A shared one is returned once, under its first name."""
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
    differ = [name for name in {**into, **tensors} if _shape(into, name) != _shape(tensors, name)]
    if differ:
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
    in_order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    index = {id(parameter): number for number, parameter in enumerate(in_order)}
    values: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in moments.items():
        name, _, key = full_name.rpartition("/")
        if name not in parameters:
            raise InputError(f"{path}: {name} is no parameter of this model. Take another --output")
        values.setdefault(index[id(parameters[name])], {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})  # moves them to the device


def _shape(tensors: dict[str, Tensor], name: str) -> str:
    return str(tuple(tensors[name].shape)) if name in tensors else "none"
