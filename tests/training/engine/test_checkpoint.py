from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from schemas.errors import InputError
from training.engine.checkpoint import checkpoints, damage, newest_sound, restore, save


class Tied(nn.Module):
    """Two layers that share their weights, as an encoder and its MLM head do, and a buffer."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.register_buffer("seen", torch.zeros(2))

    def step(self, optimizer: Optimizer) -> None:
        self.second(self.first(torch.ones(1, self.first.in_features))).sum().backward()
        self.seen += 1
        optimizer.step()
        optimizer.zero_grad()


def trained(seed: int, steps: int = 2, width: int = 3) -> tuple[Tied, Optimizer]:
    torch.manual_seed(seed)
    model = Tied(width)
    optimizer = AdamW([{"params": [p for p in model.parameters() if p.ndim > 1]}, {"params": [model.first.bias]}])
    for _ in range(steps):
        model.step(optimizer)
    return model, optimizer


def test_a_restored_run_takes_the_same_next_step_to_the_bit(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    path = save(tmp_path, 2, model, optimizer, keep=1, losses=[0.5, 0.25])
    other, other_optimizer = trained(1, steps=0)
    state = restore(path, other, other_optimizer)
    assert (state["format_version"], state["step"], state["losses"]) == (2, 2, [0.5, 0.25])
    model.step(optimizer)
    other.step(other_optimizer)
    assert all(
        torch.equal(*pair) for pair in zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_holds_shared_weights_once_and_no_pickle(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path = save(tmp_path, 2, *trained(0), keep=1)
    assert sorted(each.name for each in path.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    assert sorted(load_file(path / "model.safetensors")) == ["first.bias", "first.weight", "second.bias", "seen"]


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    for step in (5, 20, 100):
        save(tmp_path, step, *trained(0), keep=2)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
        path.name for path in tmp_path.glob("step-*")
    ]
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000020", "step-00000100"]


def test_what_a_killed_run_left_unfinished_is_no_checkpoint_and_goes_away(tmp_path: Path) -> None:
    save(tmp_path, 1, *trained(0), keep=2)
    left = tmp_path / f".step-00000002.{'0' * 32}.partial"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"torn")
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000001"]
    save(tmp_path, 2, *trained(0), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_a_run_killed_while_writing_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.engine.checkpoint.publish", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 1, *trained(0), keep=2)
    assert list(tmp_path.iterdir()) and not checkpoints(tmp_path)


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_a_damaged_checkpoint_is_named_with_what_to_do(file: str, damage: str, tmp_path: Path) -> None:
    model, optimizer = trained(0)
    path = save(tmp_path, 1, model, optimizer, keep=2)
    content = (path / file).read_bytes()
    (path / file).unlink()
    if damage == "torn":
        (path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"step-00000001: the checkpoint is damaged: {re.escape(file)} .*from a copy"):
        restore(path, model, optimizer)
    with pytest.raises(InputError, match=r"no sound checkpoint to go on from \(step-00000001: .*--overwrite"):
        newest_sound(tmp_path)


def spoil(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    if how == "zeros":
        content[middle : middle + 16] = bytes(16)
    elif how == "flipped":
        content[middle] ^= 1
    else:
        del content[-9:]
    file.write_bytes(content)


@pytest.mark.parametrize("how", ["zeros", "flipped", "truncated"])
@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_the_newest_checkpoint_whose_bytes_are_those_that_were_written_is_taken(
    file: str, how: str, tmp_path: Path
) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, *trained(step), keep=3, losses=[1.5] * 40)
    spoil(tmp_path / "step-00000003" / file, how)
    found, damaged = newest_sound(tmp_path)
    assert found == tmp_path / "step-00000002"
    assert file in damaged[tmp_path / "step-00000003"]
    assert newest_sound(tmp_path, upto=1) == (tmp_path / "step-00000001", {})


def test_a_state_without_a_field_is_damage(tmp_path: Path) -> None:
    path = save(tmp_path, 1, *trained(0), keep=1, losses=[1.0])
    state = json.loads((path / "state.json").read_text())
    for field in ("losses", "step", "format_version", "sha256"):
        (path / "state.json").write_text(json.dumps({name: each for name, each in state.items() if name != field}))
        assert damage(path) == "state.json is not what was written"
    (path / "state.json").write_text("[]")
    assert damage(path) == "state.json is not what was written"


def test_a_damaged_checkpoint_is_replaced_by_one_of_the_same_step_and_later_ones_go(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, *trained(0), keep=3)
    for step in (2, 3):
        spoil(tmp_path / f"step-{step:08}" / "model.safetensors", "flipped")
    save(tmp_path, 2, *trained(0), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]
    assert damage(tmp_path / "step-00000002") is None


def test_what_somebody_put_beside_a_checkpoints_files_stays(tmp_path: Path) -> None:
    path = save(tmp_path, 1, *trained(0), keep=1)
    (path / "notes.txt").write_text("mine")
    save(tmp_path, 2, *trained(0), keep=1)
    assert [file.read_text() for file in tmp_path.rglob("notes.txt")] == ["mine"]


def test_another_models_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1, *trained(0, width=3), keep=2)
    with pytest.raises(InputError, match=r"such as first\.weight: expected \(4, 4\), found \(3, 3\)"):
        restore(path, *trained(0, width=4))


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1, *trained(0), keep=2)
    (path / "state.json").write_text(json.dumps({"format_version": 3, "step": 1}))
    with pytest.raises(InputError, match="format version 3"):
        restore(path, *trained(0))
