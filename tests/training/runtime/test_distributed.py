"""Two ranks on one machine, started by torchrun, against one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.objectives.samples import OBJECTIVES, accumulate, gradients_of, model_for
from tests.training.objectives.two_ranks import examples
from training.runtime import distributed

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "tests.training.objectives.two_ranks", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_uneven_ranks_under_ddp_have_the_gradients_of_one_batch(objective: str, ranks: list) -> None:
    model = model_for(objective)
    value = accumulate(objective, model, [examples(objective)])
    expected = gradients_of(model)
    assert any(each.abs().max() > 1e-3 for each in expected.values())
    for rank in ranks:
        found_value, found = rank["steps"][objective]
        torch.testing.assert_close(found_value, value, rtol=1e-6, atol=0)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_ranks_know_themselves_and_their_device(ranks: list) -> None:
    assert [rank["rank"] for rank in ranks] == [(0, 2), (1, 2)]
    assert [rank["device"] for rank in ranks] == [torch.device("cpu")] * 2


def test_gathered_rows_stand_in_the_order_of_ranks_though_ranks_have_unequal_numbers(ranks: list) -> None:
    for rank, first in zip(ranks, (0, 1), strict=True):
        assert rank["gathered"][0].tolist() == [[0, 0], [1, 1], [1, 1]]
        assert rank["gathered"][1] == first


def test_gradient_of_gathered_rows_is_the_sum_of_every_ranks_loss(ranks: list) -> None:
    # row k is weighed by k on rank 0 and by 2 k on rank 1
    assert [rank["gathered"][2].tolist() for rank in ranks] == [[[3, 3]], [[6, 6], [9, 9]]]


def test_all_reduce_sums_and_leaves_its_argument(ranks: list) -> None:
    assert [rank["summed"] for rank in ranks] == [(torch.tensor([3]), torch.tensor([1])), (3, torch.tensor([2]))]


def test_without_a_group_there_is_one_rank_and_everything_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    x = torch.arange(3.0, requires_grad=True)
    with distributed.process_group() as device:
        assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")
        assert (distributed.rank(), distributed.world_size()) == (0, 1)
        distributed.barrier()
        gathered = distributed.all_gather_with_grad(x)
        assert gathered.rows is x and gathered.first == 0
        assert distributed.all_reduce_sum(x).tolist() == [0, 1, 2]
