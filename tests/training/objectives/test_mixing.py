"""X-Mixup's entropies (equation 5) and consistency losses (equation 7) against slow versions written from the paper."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from training.models.heads import MixingRatio
from training.objectives.consistency import prediction_consistency, representation_consistency, sequence_means
from training.objectives.mixing import alignment_entropy


def slow_entropy(source_JD: Tensor, target_ID: Tensor) -> Tensor:
    """Equation 5 for one pair and both directions, token by token."""
    n = source_JD.shape[1]

    def mean_entropy(queries: Tensor, keys: Tensor) -> Tensor:
        total = queries.new_zeros(())
        for query in queries:
            weights = (keys @ query / math.sqrt(n)).exp()
            shares = weights / weights.sum()
            total = total - (shares * shares.log()).sum()
        return total / len(queries)

    return mean_entropy(target_ID, source_JD) + mean_entropy(source_JD, target_ID)


def packed(lengths: list[tuple[int, int]], width: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, int]:
    """[s1 t1 s2 t2 …] with their [start, end)."""
    torch.manual_seed(seed)
    ends = torch.tensor([length for pair in lengths for length in pair]).cumsum(0)
    ranges_P22 = torch.stack([torch.cat([ends.new_zeros(1), ends[:-1]]), ends], dim=1).reshape(-1, 2, 2)
    hidden_TD = torch.randn(int(ends[-1]), width, dtype=torch.float64, requires_grad=True)
    return hidden_TD, ranges_P22[:, 0], ranges_P22[:, 1], max(map(max, lengths))


def test_entropy_of_two_target_and_three_source_tokens_by_hand() -> None:
    """n is 4, so that scores are halved: h_T = 2 log 2 · (1, 0, …) and 0, h_S = (1, 0, …) and twice 0."""
    source = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    target = torch.tensor([[2 * math.log(2), 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    # A: (1/2, 1/4, 1/4) and (1/3, 1/3, 1/3); the other direction: (2/3, 1/3) and twice (1/2, 1/2)
    forward = (1.5 * math.log(2) + math.log(3)) / 2
    back = (math.log(3) - 2 / 3 * math.log(2) + 2 * math.log(2)) / 3
    ranges = torch.tensor([[0, 3], [3, 5]])
    found = alignment_entropy(torch.cat([source, target]), ranges[:1], ranges[1:], 3)
    assert found.item() == pytest.approx(forward + back, rel=1e-12)


def test_the_mixing_ratio_by_hand() -> None:
    """λ = λ0 σ(H W + b): with W = −1 and b = 2, entropies 2 and 2 − log 3 give 0.5 · 1/2 and 0.5 · 3/4."""
    head = MixingRatio(0.5)
    entropy_N = torch.tensor([2.0, 2.0 - math.log(3)])
    assert head(entropy_N).tolist() == [0.25, 0.25]  # W and b begin with 0
    with torch.no_grad():
        head.weight.fill_(-1.0)
        head.bias.fill_(2.0)
    torch.testing.assert_close(head(entropy_N), torch.tensor([0.25, 0.375]))
    assert set(head.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize("lengths", [[(3, 2)], [(1, 1)], [(4, 2), (1, 5), (3, 3)]])
def test_entropy_and_its_gradient_equal_the_slow_version(lengths: list[tuple[int, int]]) -> None:
    hidden_TD, source_P2, target_P2, longest = packed(lengths)
    found_P = alignment_entropy(hidden_TD, source_P2, target_P2, longest)
    slow_P = torch.stack(
        [
            slow_entropy(hidden_TD[s[0] : s[1]], hidden_TD[t[0] : t[1]])
            for s, t in zip(source_P2.tolist(), target_P2.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(found_P, slow_P, rtol=1e-12, atol=1e-12)
    weights_P = torch.arange(1.0, len(lengths) + 1, dtype=torch.float64)
    found, slow = (torch.autograd.grad((each * weights_P).sum(), hidden_TD)[0] for each in (found_P, slow_P))
    torch.testing.assert_close(found, slow, rtol=1e-10, atol=1e-12)


def test_padding_and_the_other_pairs_of_the_batch_change_no_entropy() -> None:
    hidden_TD, source_P2, target_P2, longest = packed([(4, 2), (1, 5), (3, 3)])
    together_P = alignment_entropy(hidden_TD, source_P2, target_P2, longest)
    for pair in range(3):
        alone = alignment_entropy(hidden_TD, source_P2[pair : pair + 1], target_P2[pair : pair + 1], longest + 7)
        torch.testing.assert_close(alone, together_P[pair : pair + 1], rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(together_P[0], hidden_TD)
    assert gradient[:6].abs().min() > 0 and not gradient[6:].any()


def test_an_empty_side_gives_entropy_0_and_finite_gradients() -> None:
    hidden_TD, _, _, _ = packed([(2, 2)])
    found = alignment_entropy(hidden_TD, torch.tensor([[0, 2]]), torch.tensor([[2, 2]]), 2)
    (gradient,) = torch.autograd.grad(found.sum(), hidden_TD)
    assert found.item() == 0 and not gradient.any()


def test_sequence_means_leave_out_what_does_not_count() -> None:
    hidden_TD = torch.tensor([[9.0, 9], [1, 2], [3, 4], [9, 9], [5, 6], [9, 9]])
    counted_T = torch.tensor([False, True, True, False, True, False])
    means_ND = sequence_means(hidden_TD, torch.tensor([0, 3, 5, 6]), counted_T)
    assert means_ND.tolist() == [[2.0, 3.0], [5.0, 6.0], [0.0, 0.0]]


def test_representation_consistency_is_the_mean_squared_error_of_each_pair() -> None:
    source_PD = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target_PD = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    loss = representation_consistency(source_PD, target_PD)
    slow = sum(((s - t) ** 2 for s, t in zip(source_PD.flatten(), target_PD.flatten(), strict=True))) / 4
    torch.testing.assert_close(loss.total, slow)
    assert int(loss.count) == 3
    for side in (source_PD, target_PD):
        found, expected = (torch.autograd.grad(each, side, retain_graph=True)[0] for each in (loss.total, slow))
        torch.testing.assert_close(found, expected)


def test_prediction_consistency_is_the_divergence_of_the_target_from_the_source() -> None:
    source_PC = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target_PC = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    loss = prediction_consistency(source_PC, target_PC)
    slow = source_PC.new_zeros(())
    for source_C, target_C in zip(source_PC, target_PC, strict=True):
        p, q = source_C.exp() / source_C.exp().sum(), target_C.exp() / target_C.exp().sum()
        slow = slow + sum(p[label] * (p[label] / q[label]).log() for label in range(4))
    torch.testing.assert_close(loss.total, slow, rtol=1e-12, atol=1e-12)
    for side in (source_PC, target_PC):
        found, expected = (torch.autograd.grad(each, side, retain_graph=True)[0] for each in (loss.total, slow))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    (reverse,) = torch.autograd.grad(prediction_consistency(target_PC, source_PC).total, source_PC)
    (forward,) = torch.autograd.grad(loss.total, source_PC)
    assert not torch.allclose(forward, reverse)


def test_prediction_consistency_by_hand() -> None:
    """p_S = (1/2, 1/2), p_T = (3/4, 1/4): 1/2 log(2/3) + 1/2 log 2."""
    loss = prediction_consistency(torch.zeros(1, 2), torch.tensor([[math.log(3), 0.0]]))
    assert loss.total.item() == pytest.approx(0.5 * math.log(2 / 3) + 0.5 * math.log(2))
