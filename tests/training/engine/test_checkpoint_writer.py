from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.engine.test_checkpoint import trained
from tests.training.runs import finish, losses, small, start, wait_for_row, weights
from training.engine import checkpoint
from training.engine.checkpoint import checkpoints, damage, restore
from training.engine.checkpoint_writer import CheckpointWriter
from training.pretrain import pretrain
from training.recipes.pretraining import PretrainConfig

real_write = checkpoint.write


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets no checkpoint be written before it is set."""
    event = threading.Event()

    def write(*arguments: Any) -> Path:
        assert event.wait(20)
        return real_write(*arguments)

    monkeypatch.setattr(checkpoint, "write", write)
    return event


def background(config: PretrainConfig) -> PretrainConfig:
    return replace(config, write_checkpoints="background")


def test_training_goes_on_while_the_tensors_of_its_step_are_written(tmp_path: Path, held: threading.Event) -> None:
    model, optimizer = trained(0)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with CheckpointWriter(tmp_path, keep=2, in_background=True) as writer:
        writer.save(2, model, optimizer, losses=[0.5])
        model.step(optimizer)
        assert not checkpoints(tmp_path)
        held.set()
    other, other_optimizer = trained(1, steps=0)
    assert restore(tmp_path / "step-00000002", other, other_optimizer)["losses"] == [0.5]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in other.state_dict().items())
    assert float(other_optimizer.state[other.first.bias]["step"]) == 2


def test_the_next_checkpoint_waits_for_the_one_before(tmp_path: Path, held: threading.Event) -> None:
    model, optimizer = trained(0)
    with CheckpointWriter(tmp_path, keep=3, in_background=True) as writer:
        writer.save(1, model, optimizer)
        second = threading.Thread(target=writer.save, args=(2, model, optimizer))
        second.start()
        second.join(0.1)
        assert second.is_alive()
        held.set()
        second.join()
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000001", "step-00000002"]
    assert not any(map(damage, checkpoints(tmp_path)))


def failing(number: int) -> Callable[..., Path]:
    """Fails at that checkpoint with a full disk."""
    calls = []

    def write(*arguments: Any) -> Path:
        calls.append(1)
        if len(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "step-00000006/model.safetensors")
        return real_write(*arguments)

    return write


def test_an_error_of_the_thread_ends_the_run_and_repeating_it_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = background(small("tiny_clism", tmp_path / "run", steps=10))
    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left.*step-00000006"):
        patch.setattr(checkpoint, "write", failing(2))
        pretrain(config)
    assert 6 <= len(losses(config.output)) < 10
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoints")] == ["step-00000003"]
    pretrain(config)
    pretrain(small("tiny_clism", tmp_path / "foreground", steps=10))
    assert losses(config.output) == losses(tmp_path / "foreground")
    assert weights(config.output) == weights(tmp_path / "foreground")


def test_an_error_in_the_last_checkpoint_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "write", failing(1))
    with pytest.raises(OSError, match="No space left"):
        pretrain(background(small("tiny_clism", tmp_path / "run", steps=2)))


def test_asked_to_stop_it_waits_until_its_checkpoint_is_complete(tmp_path: Path) -> None:
    config = background(small("tiny_mpmr", tmp_path / "run"))
    processes = start(config)
    wait_for_row(config, 4, processes)
    os.kill(processes[0].pid or 0, signal.SIGTERM)
    assert finish(processes) == [128 + signal.SIGTERM]
    kept = checkpoints(tmp_path / "run" / "checkpoints")
    assert checkpoint.step_of(kept[-1]) == len(losses(config.output)) and not any(map(damage, kept))
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))
