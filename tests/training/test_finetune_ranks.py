"""Fine-tuning in processes of its own: killed at any moment, and on two ranks."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.training.people import people_config
from tests.training.runs import finish, kill_at, losses, start, weights
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig


@pytest.fixture
def config(xlmr_folder: Path, tmp_path: Path) -> FinetuneConfig:
    """Two-stage training of 6 steps from a model without dropout, which ranks would draw differently."""
    model = tmp_path / "xlmr"
    shutil.copytree(xlmr_folder, model)
    values = json.loads((model / "config.json").read_text("utf-8"))
    (model / "config.json").write_text(json.dumps(values | {"hidden_dropout_prob": 0.0}), "utf-8")
    plain = people_config(model, tmp_path)
    recipe = replace(plain.recipe, name="two_stage", method=FINETUNE_RECIPES["two_stage"].method)
    return replace(plain, recipe=recipe, checkpoint_every=3)


def test_killed_twice_it_ends_with_the_same_losses_weights_and_choice(config: FinetuneConfig, tmp_path: Path) -> None:
    killed = replace(config, output=str(tmp_path / "killed"))
    for row in (2, 5):
        kill_at(killed, row)
    assert finish(start(killed)) == finish(start(config)) == [0]
    assert losses(killed.output) == losses(config.output)
    assert weights(killed.output) == weights(config.output)
    assert chosen(killed) == chosen(config) and len(chosen(config)) == 3


@pytest.mark.slow
def test_two_ranks_take_the_steps_of_one_and_choose_alike(config: FinetuneConfig, tmp_path: Path) -> None:
    two = replace(config, output=str(tmp_path / "two"))
    # Both from one baseline: small differences of its weights could change candidates, and so the losses.
    assert finish(start(config)) == [0]
    baseline = str(Path(config.output) / "baseline" / "model")
    assert finish(start(replace(two, baseline=baseline), ranks=2)) == [0, 0]
    assert_alike(config, two)


@pytest.mark.slow
def test_two_ranks_make_their_baseline_and_stop_together(config: FinetuneConfig, tmp_path: Path) -> None:
    patient = replace(config, patience=1, recipe=replace(config.recipe, learning_rate=1e-9))  # nothing gets better
    two = replace(patient, output=str(tmp_path / "two"))
    assert finish(start(patient)) == [0]
    assert finish(start(two, ranks=2)) == [0, 0]
    assert len(losses(two.output)) == len(losses(two.output + "/baseline")) == 4
    assert_alike(patient, two)
    assert_alike(*(replace(each, output=each.output + "/baseline") for each in (patient, two)))


def assert_alike(config: FinetuneConfig, other: FinetuneConfig) -> None:
    for expected, found in zip(losses(config.output), losses(other.output), strict=True):
        for name in expected:
            if name.startswith("loss") or name in ("gradient_norm", "lr", "examples", "tokens"):
                assert found[name] == pytest.approx(expected[name], rel=1e-3), name
    assert [row["step"] for row in chosen(other)] == [row["step"] for row in chosen(config)]
    assert [row["best"] for row in chosen(other)] == [row["best"] for row in chosen(config)]
    expected_weights, found_weights = (load_file(f"{each.output}/model/model.safetensors") for each in (config, other))
    # Adam's first steps are a learning rate long whatever the gradient: where it is rounding, signs may differ. That is
    # so of all biases that move a whole softmax.
    off = torch.cat([((found_weights[name] - each).abs() > 1e-4).flatten() for name, each in expected_weights.items()])
    assert off.float().mean() < 0.01


def chosen(config: FinetuneConfig) -> list[dict[str, float]]:
    return [json.loads(line) for line in (Path(config.output) / "dev.jsonl").read_text("utf-8").splitlines()]
