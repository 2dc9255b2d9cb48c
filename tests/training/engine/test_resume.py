"""A run that was killed at any moment, and begun again, is the run that was not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.training.runs import finish, kill_at, losses, small, start, wait_for_row, weights
from training.pretrain import pretrain
from training.recipes.pretraining import PretrainConfig

KILLED_AT = {"tiny_clism": (1, 8), "tiny_mpmr": (5, 7)}  # rows of the log; checkpoints are at 3, 6 and 9


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Runs that nothing disturbs, by recipe and number of ranks, each made once."""

    @cache
    def run(recipe: str, ranks: int) -> Path:
        output = tmp_path_factory.mktemp("whole")
        assert finish(start(config_for(recipe, output), ranks)) == [0] * ranks
        return output

    return run


def config_for(recipe: str, output: Path, workers: int = 0) -> PretrainConfig:
    """CLISM's batches in several parts, so that GradCache's two passes are resumed, too."""
    return small(recipe, output, workers=workers, micro_batch_tokens=150 if recipe == "tiny_clism" else 0)


@pytest.mark.parametrize(
    "recipe, workers, ranks",
    [
        ("tiny_clism", 0, 1),
        ("tiny_mpmr", 2, 1),
        pytest.param("tiny_mpmr", 0, 1, marks=pytest.mark.slow),
        pytest.param("tiny_clism", 2, 1, marks=pytest.mark.slow),
        ("tiny_clism", 0, 2),
        pytest.param("tiny_mpmr", 2, 2, marks=pytest.mark.slow),
        pytest.param("tiny_clism", 0, 3, marks=pytest.mark.slow),
    ],
)
def test_killed_twice_it_ends_with_the_same_losses_and_weights(
    recipe: str, workers: int, ranks: int, whole: Callable[[str, int], Path], tmp_path: Path
) -> None:
    config = config_for(recipe, tmp_path / "run", workers)
    for row in KILLED_AT[recipe]:
        kill_at(config, row, ranks)
    assert finish(start(config, ranks)) == [0] * ranks
    expected = whole(recipe, ranks)
    assert losses(config.output) == losses(expected)
    assert weights(config.output) == weights(expected)


def test_the_runs_cross_epochs_and_learn(whole: Callable[[str, int], Path]) -> None:
    for recipe, examples in (("tiny_clism", 7), ("tiny_mpmr", 17)):
        rows = losses(whole(recipe, 1))
        assert [row["step"] for row in rows] == list(range(1, 11))
        assert sum(row["examples"] for row in rows) > examples
        assert rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.parametrize(
    "number, workers, ranks",
    [
        (signal.SIGTERM, 2, 1),
        pytest.param(signal.SIGINT, 2, 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 0, 2, marks=pytest.mark.slow),
    ],
)
def test_asked_to_stop_it_keeps_the_step_that_it_was_at_and_goes_on_from_there(
    number: int, workers: int, ranks: int, whole: Callable[[str, int], Path], tmp_path: Path
) -> None:
    config = config_for("tiny_clism", tmp_path / "run", workers)
    processes = start(config, ranks)
    wait_for_row(config, 4, processes)
    os.killpg(processes[-1].pid or 0, number)  # its workers, too; and all ranks stop, whichever hears of it
    codes = finish(processes)
    stopped_after = len(losses(config.output))
    assert 4 <= stopped_after < 10
    assert codes[-1] == 128 + number and 0 not in codes
    assert (tmp_path / f"run/checkpoints/step-{stopped_after:08}").is_dir()
    assert finish(start(config, ranks)) == [0] * ranks
    assert losses(config.output) == losses(whole("tiny_clism", ranks))
    assert weights(config.output) == weights(whole("tiny_clism", ranks))


def test_how_a_batch_is_divided_may_change_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_for("tiny_clism", tmp_path / "run")
    kill_at(config, 4)
    pretrain(replace(config, micro_batch_tokens=0))
    warning = "so not the same to the bit: micro_batch_tokens: 150 before, 0 now"
    assert warning in capsys.readouterr().err
    assert [row["step"] for row in losses(config.output)] == list(range(1, 11))
