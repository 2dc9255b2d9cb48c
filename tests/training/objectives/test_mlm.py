from __future__ import annotations

import math

import torch

from tests.training.objectives.samples import VOCABULARY, ClismModel, clism_batch, clism_examples
from training.objectives.mlm import mlm_loss


def test_is_minus_the_log_probability_of_the_originals_with_its_gradient() -> None:
    torch.manual_seed(0)
    logits_MV = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    labels = [3, 0, 6, 6, 1]
    loss = mlm_loss(logits_MV, torch.tensor(labels))
    slow = -sum(logits_MV[m, v] - logits_MV[m].exp().sum().log() for m, v in enumerate(labels))
    torch.testing.assert_close(loss.total, slow)
    assert loss.count == 5
    found, expected = (torch.autograd.grad(each, logits_MV) for each in (loss.total, slow))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: mlm_loss(x, torch.tensor(labels)).total, logits_MV)


def test_figure_counts_the_originals_that_are_most_likely() -> None:
    logits_MV = torch.eye(4)
    assert mlm_loss(logits_MV, torch.tensor([0, 1, 2, 0])).figures["correct"].tolist() == [3, 4]


def test_bf16_logits_become_probabilities_in_fp32() -> None:
    logits_MV = torch.zeros(3, VOCABULARY, dtype=torch.bfloat16)
    total = mlm_loss(logits_MV, torch.tensor([0, 1, 2])).total
    assert total.dtype == torch.float32
    assert math.isclose(total.item(), 3 * math.log(VOCABULARY), rel_tol=1e-6)


def test_a_batch_without_a_masked_token_has_no_loss_but_a_gradient() -> None:
    logits_MV = torch.empty(0, VOCABULARY, requires_grad=True)
    loss = mlm_loss(logits_MV, torch.empty(0, dtype=torch.int64))
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert logits_MV.grad is not None


def test_learns_four_examples_by_heart() -> None:
    batch = clism_batch(clism_examples(4))
    torch.manual_seed(0)
    model = ClismModel(32)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        loss = mlm_loss(model(batch)[2], batch.labels_M)
        adam.zero_grad()
        (loss.total / loss.count).backward()
        adam.step()
    assert loss.figures["correct"].tolist() == [8, 8]
    assert loss.total / loss.count < 0.05
