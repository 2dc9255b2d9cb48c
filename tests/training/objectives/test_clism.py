from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.training.objectives.samples import ClismModel, clism_batch, clism_examples
from training.data.batches import ClismBatch
from training.objectives.clism import clism_loss


def slow_loss(start_QT: Tensor, end_QT: Tensor, batch: ClismBatch, target_only: bool) -> Tensor:
    """Equation 4, question by question."""
    total = start_QT.new_zeros(())
    for q, n in enumerate(batch.sequence_Q.tolist()):
        first, last = (batch.target_N2[n] if target_only else batch.inputs.bounds_N1[n : n + 2]).tolist()
        for scores_T, answer in ((start_QT[q], batch.answer_start_Q[q]), (end_QT[q], batch.answer_end_Q[q])):
            total = total - torch.log(scores_T[answer].exp() / scores_T[first:last].exp().sum())
    return total


def random_scores(batch: ClismBatch) -> list[Tensor]:
    torch.manual_seed(0)
    shape = len(batch.que_Q), batch.inputs.tokens
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2)]


@pytest.mark.parametrize("target_only", [False, True])
def test_is_the_sum_over_questions_of_equation_4_with_its_gradient(target_only: bool) -> None:
    batch = clism_batch(clism_examples(4))
    scores = random_scores(batch)
    loss = clism_loss(*scores, batch, target_only=target_only)
    expected = slow_loss(*scores, batch, target_only)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == len(batch.que_Q) > 4
    found, wanted = torch.autograd.grad(loss.total, scores), torch.autograd.grad(expected, scores)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *s: clism_loss(*s, batch, target_only).total, scores)


def test_figures_count_right_places_within_the_own_sequence() -> None:
    batch = clism_batch(clism_examples(3))
    start_QT, end_QT = random_scores(batch)
    questions = range(len(batch.que_Q))
    with torch.no_grad():
        start_QT[questions, batch.answer_start_Q] = 9
        end_QT[questions, batch.answer_end_Q] = 9
        for q, n in enumerate(batch.sequence_Q.tolist()):  # highest of all, in another sequence
            start_QT[q, batch.inputs.bounds_N1[(n + 1) % 3]] = 99
        end_QT[0, batch.answer_end_Q[0]] = -9
    number = len(questions)
    figures = clism_loss(start_QT, end_QT, batch).figures
    assert {name: each.tolist() for name, each in figures.items()} == {
        "exact": [number - 1, number],
        "start": [number, number],
        "end": [number - 1, number],
    }


def test_a_token_outside_the_target_is_no_candidate_if_only_the_target_is_asked() -> None:
    batch = clism_batch(clism_examples(1))
    start_QT, end_QT = random_scores(batch)
    with torch.no_grad():
        start_QT[range(len(batch.que_Q)), batch.answer_start_Q] = 9
        start_QT[:, 0] = 99
    assert clism_loss(start_QT, end_QT, batch).figures["start"][0] == 0
    assert clism_loss(start_QT, end_QT, batch, target_only=True).figures["start"][0] == len(batch.que_Q)


def test_bf16_scores_become_probabilities_in_fp32() -> None:
    batch = clism_batch(clism_examples(4))
    scores = [each.detach().bfloat16() for each in random_scores(batch)]
    loss = clism_loss(*scores, batch).total
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, slow_loss(*(each.double() for each in scores), batch, False).float())


@pytest.mark.parametrize("target_only", [False, True])
def test_a_batch_without_a_question_has_no_loss_but_a_gradient(target_only: bool) -> None:
    batch = clism_batch([])
    scores = [torch.empty(0, 0, requires_grad=True) for _ in range(2)]
    loss = clism_loss(*scores, batch, target_only)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert scores[0].grad is not None


def test_learns_four_examples_by_heart() -> None:
    batch = clism_batch(clism_examples(4))
    torch.manual_seed(0)
    model = ClismModel(32)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        start_QT, end_QT, *_ = model(batch)
        loss = clism_loss(start_QT, end_QT, batch)
        adam.zero_grad()
        (loss.total / loss.count).backward()
        adam.step()
    assert loss.figures["exact"].tolist() == [len(batch.que_Q)] * 2
    assert loss.total / loss.count < 0.05
