from __future__ import annotations

import math

import pytest
import torch

from training.objectives.self_teaching import self_teaching_loss, softened

INFINITE = -math.inf


def by_hand(scores: list[list[float]], teacher: list[list[float]], temperature: float) -> float:
    """Σ KL(p ‖ q) from its definition, in Python's double precision."""
    total = 0.0
    for row, p_row in zip(scores, teacher, strict=True):
        softened_p = [p ** (1 / temperature) for p in p_row]
        p_row = [p / sum(softened_p) for p in softened_p]
        exponentials = [math.exp(score / temperature) for score in row]
        q_row = [value / sum(exponentials) for value in exponentials]
        total += sum(p * math.log(p / q) for p, q in zip(p_row, q_row, strict=True) if p > 0)
    return temperature**2 * total


SCORES = [[0.5, -1.0, 2.0], [1.0, 0.0, INFINITE]]
TEACHER = [[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]]


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_loss_is_the_divergence_by_hand(temperature: float) -> None:
    loss = self_teaching_loss([torch.tensor(SCORES)], [torch.tensor(TEACHER)], temperature)
    assert loss.total.item() == pytest.approx(by_hand(SCORES, TEACHER, temperature), rel=1e-5)
    assert loss.count.item() == 2 and loss.figures["same"].tolist() == [2, 2]


def test_start_and_end_are_added_and_counted_once() -> None:
    scores, teacher = torch.tensor(SCORES), torch.tensor(TEACHER)
    both = self_teaching_loss([scores, scores], [teacher, teacher])
    assert both.total.item() == pytest.approx(2 * self_teaching_loss([scores], [teacher]).total.item())
    assert both.count.item() == 2


def test_the_gradient_is_the_students_probability_minus_the_teachers() -> None:
    scores = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor(TEACHER, dtype=torch.float64)
    self_teaching_loss([scores], [teacher]).total.backward()
    expected = scores.detach().softmax(dim=1) - teacher
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, expected)


def test_no_row_gives_no_loss() -> None:
    loss = self_teaching_loss([torch.zeros(0, 3)], [torch.zeros(0, 3)])
    assert loss.total.item() == 0 and loss.count.item() == 0


def test_softening_keeps_impossible_classes_impossible() -> None:
    softer = softened(torch.tensor([[0.9, 0.1, 0.0]]), 2.0)
    assert softer.tolist() == [pytest.approx([0.75, 0.25, 0.0])]
