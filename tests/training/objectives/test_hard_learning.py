from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.objectives.hard_learning import Hard, RankWeights, candidate_log_probs, hard_loss
from training.objectives.spans import own_rows, span_loss

KINDS: list[Hard] = ["weighted", "mml", "hard_em"]


def window(length: int, *candidates: tuple[int, int], gold: tuple[int, int] | None = None) -> MrcWindow:
    ids = np.arange(length, dtype=np.int32)
    answers = () if gold is None else (gold,)
    return MrcWindow("w", 0, None, ids, (1, 2), (3, length), 0, answers, bool(answers), ids, ids, (), candidates)


def of_batch(batch: MrcBatch, kind: Hard, start_T: Tensor, end_T: Tensor, ranks: RankWeights | None = None) -> Tensor:
    start_NL, end_NL = own_rows(start_T, batch.inputs), own_rows(end_T, batch.inputs)
    loss = hard_loss(candidate_log_probs(start_NL, end_NL, batch), kind, ranks or RankWeights(5))
    assert loss.count == batch.inputs.sequences
    return loss.total


def scores(tokens: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(tokens, requires_grad=True), torch.randn(tokens, requires_grad=True)


@pytest.mark.parametrize(
    "kind, expected",
    [
        # A window of 4 tokens, P(start) = 1/8 1/8 1/2 1/4, P(end) = 1/8 1/8 1/4 1/2, and three candidates:
        #   P(2, 3) = 1/2 · 1/2 = 1/4;  P(2, 2) = 1/2 · 1/4 = 1/8;  P(3, 3) = 1/4 · 1/2 = 1/8.
        # w begins at 0.9, 0.09, 0.009 over their sum 0.999, which is 100/111, 10/111, 1/111:
        # 100/111 · log 4 + 10/111 · log 8 + 1/111 · log 8 = (200 + 30 + 3) / 111 · log 2.
        ("weighted", 233 / 111 * math.log(2)),
        ("mml", math.log(2)),  # −log(1/4 + 1/8 + 1/8)
        ("hard_em", math.log(4)),
    ],
)
def test_an_example_worked_out_by_hand_beside_a_longer_window_without_answer(kind: Hard, expected: float) -> None:
    batch = mrc_batch([window(4, (2, 3), (2, 2), (3, 3), gold=(2, 3)), window(6, (0, 0))])
    start_T = torch.tensor([0.125, 0.125, 0.5, 0.25, *[1 / 6] * 6]).log() + 3
    end_T = torch.tensor([0.125, 0.125, 0.25, 0.5, *[1 / 6] * 6]).log()
    # The second window learns [CLS]: −log(1/6 · 1/6).
    assert of_batch(batch, kind, start_T, end_T).item() == pytest.approx(expected + 2 * math.log(6), rel=1e-6)


@pytest.mark.parametrize(
    "kind, expected",
    [
        # As above; the true answer is the first, P = 1/8.
        ("mml", (math.log(2) + math.log(8)) / 2),
        ("hard_em", (math.log(4) + math.log(8)) / 2),
        ("weighted", (300 + 20 + 3) / 111 * math.log(2)),  # w tells it
    ],
)
def test_the_true_answer_is_named_by_a_mean_with_the_plain_loss(kind: Hard, expected: float) -> None:
    log_NK = torch.tensor([[1 / 8, 1 / 4, 1 / 8], [1 / 36, 0, 0]], dtype=torch.float64).log()
    found = hard_loss(log_NK, kind, RankWeights(5).double(), gold_first=True).total.item()
    assert found == pytest.approx(expected + math.log(36))


@pytest.mark.parametrize("kind", ["mml", "hard_em"])
def test_only_if_it_is_named_is_a_sure_wrong_answer_worse_than_the_true_one(kind: Hard) -> None:
    right, wrong = (torch.tensor([p_K], dtype=torch.float64).log() for p_K in ([0.98, 0.01, 0.01], [0.01, 0.01, 0.98]))
    torch.testing.assert_close(hard_loss(right, kind).total, hard_loss(wrong, kind).total)
    assert hard_loss(right, kind, gold_first=True).total < 0.03 < 2 < hard_loss(wrong, kind, gold_first=True).total


@pytest.mark.parametrize("kind", KINDS)
def test_one_candidate_is_the_plain_loss_with_its_gradient(kind: Hard) -> None:
    batch = mrc_batch([window(7, (4, 5), gold=(4, 5)), window(5, (0, 0)), window(6, (3, 3), gold=(3, 3))])
    start_T, end_T = scores(18)
    rows = own_rows(start_T, batch.inputs), own_rows(end_T, batch.inputs)
    plain = span_loss(*rows, batch.gold_start_N, batch.gold_end_N, batch.inputs).total
    found = of_batch(batch, kind, start_T, end_T)
    torch.testing.assert_close(found, plain)
    wanted = torch.autograd.grad(plain, (start_T, end_T))
    torch.testing.assert_close(torch.autograd.grad(found, (start_T, end_T)), wanted)


def test_mml_is_at_most_hard_em_is_at_most_the_weighted_loss() -> None:
    """−log Σ p ≤ −log max p ≤ any mean of −log p."""
    batch = mrc_batch([window(9, (4, 5), (3, 8), (6, 6), gold=(4, 5)), window(8, (3, 3), (5, 7), gold=(5, 7))])
    mml, hard_em, weighted = (of_batch(batch, kind, *scores(17)).item() for kind in ("mml", "hard_em", "weighted"))
    assert mml < hard_em < weighted


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_where_windows_have_fewer_candidates_and_tokens_than_others(kind: Hard) -> None:
    batch = mrc_batch([window(9, (4, 5), (3, 8), (6, 6), gold=(4, 5)), window(5, (0, 0))])
    start_T, end_T = scores(14)
    ranks = RankWeights(5)
    of_batch(batch, kind, start_T, end_T, ranks).backward()
    assert start_T.grad.isfinite().all() and end_T.grad.isfinite().all()
    assert start_T.grad[9:].count_nonzero() == 5  # the shorter window's tokens learn from its own candidate
    assert (ranks.rank.grad is not None) == (kind == "weighted")


def test_weights_are_a_softmax_over_a_windows_own_ranks_that_moves_to_the_easiest() -> None:
    batch = mrc_batch([window(9, (4, 5), (3, 8), (6, 6), gold=(4, 5))])
    ranks, (start_T, end_T) = RankWeights(5), scores(9)
    own_NK = torch.tensor([[True, True, True], [True, False, False]])
    before_NK = ranks(own_NK).detach()
    torch.testing.assert_close(before_NK, torch.tensor([[100 / 111, 10 / 111, 1 / 111], [1, 0, 0]]))
    of_batch(batch, "weighted", start_T, end_T, ranks).backward()
    with torch.no_grad():
        ranks.rank -= 0.5 * ranks.rank.grad
        rows = own_rows(start_T, batch.inputs), own_rows(end_T, batch.inputs)
        easiest = candidate_log_probs(*rows, batch)[0].argmax()
        change_K = ranks(own_NK)[0] - before_NK[0]
    assert change_K.argmax() == easiest and change_K[easiest] > 0
    assert ranks.rank.grad[3:].tolist() == [0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_computes_in_fp32_from_bf16_under_autocast(kind: Hard) -> None:
    batch = mrc_batch([window(9, (4, 5), (3, 8), gold=(4, 5))])
    start_T, end_T = (each.detach().bfloat16() for each in scores(9))
    with torch.autocast("cpu", torch.bfloat16):
        found = of_batch(batch, kind, start_T, end_T)
    assert found.dtype == torch.float32
    assert torch.equal(found, of_batch(batch, kind, start_T.float(), end_T.float()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_a_window_has_no_loss_but_a_gradient(kind: Hard) -> None:
    start_T, end_T = scores(0)
    total = of_batch(mrc_batch([]), kind, start_T, end_T)
    total.backward()
    assert total == 0 and start_T.grad is not None
