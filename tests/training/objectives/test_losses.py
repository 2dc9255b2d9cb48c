"""Losses add up to one number a step; tests/training/runtime/test_distributed.py tests ranks and accumulation."""

from __future__ import annotations

import torch

from training.objectives import Loss, hit_rate, normalised, step_counts


def test_counts_of_a_step_are_sums_over_its_micro_batches() -> None:
    counts = step_counts([{"mlm": 3, "clism": torch.tensor(1)}, {"clism": 5, "mlm": 0}])
    assert counts == {"clism": 6, "mlm": 3}


def test_shares_of_micro_batches_add_up_to_the_sum_of_each_objectives_mean() -> None:
    totals = torch.tensor([2.0, 4.0, 10.0], requires_grad=True)
    first = {"clism": Loss(totals[0], torch.tensor(1), {}), "mlm": Loss(totals[2], torch.tensor(5), {})}
    second = {"clism": Loss(totals[1], torch.tensor(3), {}), "mlm": Loss(totals[2] * 0, torch.tensor(0), {})}
    counts = step_counts([{name: loss.count for name, loss in losses.items()} for losses in (first, second)])
    step = normalised(first, counts) + normalised(second, counts)
    assert step == (2 + 4) / 4 + 10 / 5
    step.backward()
    assert totals.grad.tolist() == [1 / 4, 1 / 4, torch.tensor(1 / 5)]


def test_an_objective_without_items_in_a_step_adds_nothing() -> None:
    nothing = {"mlm": Loss(torch.zeros((), requires_grad=True), torch.tensor(0), {})}
    assert normalised(nothing, step_counts([{"mlm": 0}])) == 0


def test_a_figure_is_how_many_of_how_many() -> None:
    assert hit_rate(torch.tensor([True, False, True])).tolist() == [2, 3]
    assert hit_rate(torch.empty(0, dtype=torch.bool)).tolist() == [0, 0]
