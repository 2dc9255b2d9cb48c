"""Gradients in buckets, summed while the backward pass goes on, on two and three ranks."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.engine.ranks_buckets import on_rank
from tests.training.runs import finish, free_port, server
from training.engine.gradients import split


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(count: int) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("ranks")
        port = free_port()
        processes = [server.Process(target=on_rank, args=(rank, count, port, folder)) for rank in range(count)]
        for process in processes:
            process.start()
        assert finish(processes) == [0] * count
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(count)]

    return run


COUNTS = (2, pytest.param(3, marks=pytest.mark.slow))


@pytest.mark.parametrize("count", COUNTS)
def test_they_are_the_mean_of_all_ranks_and_the_same_bits_on_each(count: int, ranks: Any) -> None:
    first, *others = ranks(count)
    for found, expected in zip(first["found"], first["expected"], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert found["of_none.weight"].abs().max() == 0 and found["of_first.weight"].abs().max() > 0
    for other in others:
        for found, expected in zip(other["found"], first["found"], strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("count", COUNTS)
def test_a_run_that_goes_on_in_new_processes_has_the_same_bits(count: int, ranks: Any) -> None:
    for rank in ranks(count):
        torch.testing.assert_close(rank["after"], rank["found"][2:], rtol=0, atol=0)


@pytest.mark.parametrize("count", COUNTS)
def test_sums_start_before_the_last_gradient_is_ready_in_one_order_on_all_ranks(count: int, ranks: Any) -> None:
    layer = [f"layers.{number}" for number in (3, 2, 1, 0)]
    for rank in ranks(count):
        events = rank["events"][rank["events"].index("sum 40") - 4 :]  # of the last micro-batch
        assert sum(event.startswith("sum") for event in rank["events"]) == 3
        assert [event for event in events if event.startswith("sum")] == ["sum 40", "sum 40", "sum 44"]
        assert {event.rpartition(".")[0] for event in events[:4]} == {f"ready {name}" for name in layer[:2]}
        assert events.index("sum 40") < events.index(f"ready {layer[2]}.weight") < events.index("ready embed.weight")
        assert events[-2:] == ["ready embed.weight", "sum 44"]


def test_buckets_hold_the_parameters_from_the_last_to_the_first() -> None:
    sizes = (50, 4, 4, 4, 7)
    parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
    found = [[parameter.numel() for parameter in bucket] for bucket in split(parameters, most_bytes=4 * 12)]
    assert found == [[7, 4], [4, 4], [50]]
