"""The host never waits for a step before the next one is launched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.engine.waits import counted
from tests.training.people import people_config
from tests.training.runs import losses, small
from training.finetune import finetune
from training.pretrain import pretrain


@pytest.mark.parametrize("recipe, tokens", [("tiny_clism", 0), ("tiny_clism", 150), ("tiny_mpmr", 0)])
def test_pre_training_reads_a_step_when_the_next_one_is_launched(
    recipe: str, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(small(recipe, tmp_path, steps=6, micro_batch_tokens=tokens), checkpoint_every=100)
    with counted(monkeypatch) as waits:
        pretrain(config)
    assert waits.in_launches == []
    order = [event for event in waits.events if event in ("launch", "read")]
    assert order == ["launch", *["launch", "read"] * 5, "read"]
    assert [row["step"] for row in losses(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_a_checkpoint_waits_for_its_own_step_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as waits:
        pretrain(small("tiny_mpmr", tmp_path, steps=5))
    order = [event for event in waits.events if event in ("launch", "read")]
    assert order == ["launch", "launch", "read", "launch", "read", "read", "launch", "launch", "read", "read"]


def test_fine_tuning_reads_a_step_when_the_next_one_is_launched(
    xlmr_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = people_config(xlmr_folder, tmp_path)
    with counted(monkeypatch) as waits:
        finetune(replace(config, dev=(), dev_langs=(), checkpoint_every=100, recipe=replace(config.recipe, steps=4)))
    assert waits.in_launches == []
    order = [event for event in waits.events if event in ("launch", "read")]
    assert order == ["launch", *["launch", "read"] * 3, "read"]
