"""What pre-training does between steps: evaluation on examples that are not trained on, and models that are kept."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForMaskedLM

from schemas.errors import ConfigError
from tests.golden import make_anchor_mrc_1, make_clism_1
from tests.training.runs import finish, kill_at, losses, small, start, weights
from training.models.folder import load_model
from training.pretrain import pretrain
from training.recipes.pretraining import PretrainConfig
from training.runtime import outputs

MAKERS = {"tiny_clism": make_clism_1, "tiny_mpmr": make_anchor_mrc_1}


def config_for(recipe: str, folder: Path, name: str = "run", **fields: object) -> PretrainConfig:
    """6 steps of 4 examples; the held-out dataset is a copy of the training data under another name."""
    if not (held_out := folder / "held out").exists():
        MAKERS[recipe].write(held_out)
    config = small(recipe, folder / name, steps=6)
    values = {"evaluate_every": 2, "model_every": 4, **fields}
    return replace(config, held_out=(str(held_out),), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", MAKERS)
def test_the_held_out_loss_is_in_the_log_and_changes_no_weight(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_for(recipe, tmp_path)
    pretrain(config)
    pretrain(replace(config, held_out=(), model_every=0, output=str(tmp_path / "plain")))
    rows = losses(config.output)
    held_out = {row["step"]: row["held_out/loss"] for row in rows if "held_out/loss" in row}
    assert list(held_out) == [2, 4, 6] and held_out[6] < held_out[2]
    assert "held-out loss" in capsys.readouterr().err
    plain = [{name: value for name, value in row.items() if not name.startswith("held_out/")} for row in rows]
    assert plain == losses(tmp_path / "plain")
    assert weights(config.output) == weights(tmp_path / "plain")
    board = EventAccumulator(str(Path(config.output) / "tensorboard")).Reload()
    assert [event.step for event in board.Scalars("held_out/loss")] == [2, 4, 6]


def test_dropout_is_off_and_batches_stay_the_same(tmp_path: Path) -> None:
    config = config_for("tiny_clism", tmp_path, evaluate_every=1)
    still = replace(config, recipe=replace(config.recipe, learning_rate=1e-30), model_every=0)
    pretrain(still)
    values = [row["held_out/loss"] for row in losses(config.output)]
    assert len(values) == 6 and len(set(values)) == 1
    trained_on = [row["loss"] for row in losses(config.output)]
    assert len(set(trained_on)) == 6 and all(math.isfinite(value) for value in values)


def test_parts_and_ranks_evaluate_the_same_examples(tmp_path: Path) -> None:
    config = config_for("tiny_mpmr", tmp_path, model_every=0)
    config = replace(config, recipe=replace(config.recipe, steps=2, learning_rate=1e-30))
    pretrain(config)
    parts = replace(config, micro_batch_tokens=100, output=str(tmp_path / "parts"))
    assert finish(start(parts, ranks=2)) == [0, 0]
    whole, part = (losses(each.output)[1] for each in (config, parts))
    names = [name for name in whole if name.startswith("held_out/")]
    assert names and all(name in part for name in names)
    assert part["held_out/loss"] == pytest.approx(whole["held_out/loss"], rel=1e-5)


def test_a_killed_run_ends_with_the_same_rows_and_models(tmp_path: Path) -> None:
    config, killed = config_for("tiny_clism", tmp_path), config_for("tiny_clism", tmp_path, "killed")
    pretrain(config)
    kill_at(killed, 5)
    assert finish(start(killed)) == [0]
    assert losses(killed.output) == losses(config.output)
    files = ("models/step-00000004/model.safetensors", "models/step-00000004/heads.safetensors")
    assert all((Path(killed.output) / file).read_bytes() == (Path(config.output) / file).read_bytes() for file in files)


def test_kept_models_are_models_of_their_step_and_part_of_the_run(tmp_path: Path) -> None:
    config = config_for("tiny_clism", tmp_path, held_out_examples=4)
    pretrain(config)
    folder = tmp_path / "run" / "models" / "step-00000004"
    assert [path.name for path in folder.parent.iterdir()] == ["step-00000004"]
    assert json.loads((folder / "polyspan.json").read_text())["provenance"]["step"] == 4
    kept = AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    last = AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "model").state_dict()
    assert any(not torch.equal(kept[name], last[name]) for name in kept)
    assert set(load_model(folder).heads) == {"span"}
    other = replace(config.recipe, learning_rate=0.5)
    pretrain(replace(config, recipe=other, overwrite=True, model_every=3))  # the run's files are all ours
    assert [path.name for path in (tmp_path / "run" / "models").iterdir()] == ["step-00000003"]
    assert not outputs.leftovers(tmp_path / "run")


def test_examples_that_are_trained_on_are_refused(tmp_path: Path) -> None:
    config = config_for("tiny_clism", tmp_path)
    with pytest.raises(ConfigError, match=r"--held-out: .* is also in --data"):
        pretrain(replace(config, held_out=config.data))
    MAKERS["tiny_mpmr"].write(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"other: has schema anchor_mrc/1, but recipe tiny_clism reads clism/1"):
        pretrain(replace(config, held_out=(str(tmp_path / "other"),)))


def test_a_resumed_run_trusts_its_shards_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from schemas import shards

    hashed: list[str] = []
    real = shards.sha256_of
    monkeypatch.setattr(shards, "sha256_of", lambda path: (hashed.append(path.name), real(path))[1])
    config = small("tiny_clism", tmp_path / "run", steps=4)
    kill_at(config, 2)
    for options, expected in (({}, False), ({"verify_shards": True}, True)):
        hashed.clear()
        pretrain(replace(config, **options))  # type: ignore[arg-type]
        assert bool(hashed) == expected
