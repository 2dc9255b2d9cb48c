from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tests.training.objectives.samples import (
    ClismModel,
    accumulate,
    clism_batch,
    clism_examples,
    direct_losses,
    dropped_alike,
    gradients_of,
    model_for,
)
from training.objectives import normalised
from training.objectives.cacr import cached_gradients, cacr_loss, mean_pool, replayed


def random_representations(number: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(number, 6, dtype=dtype, requires_grad=True) for _ in range(3)]


def slow_contrast(a_ND: Tensor, b_ND: Tensor, temperature: float) -> Tensor:
    """Equation 7, summed over examples."""
    total = a_ND.new_zeros(())
    for i, a in enumerate(a_ND):
        terms = [(cosine_similarity(a, b, dim=0) / temperature).exp() for b in b_ND]
        total = total - (terms[i] / sum(terms)).log()
    return total


@pytest.mark.parametrize("temperature", [0.05, 20.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_is_the_three_pairs_of_equation_8_with_their_gradients(temperature: float, symmetric: bool) -> None:
    source, masked, target = inputs = random_representations(5)
    loss = cacr_loss(*inputs, temperature, symmetric)
    pairs = [(target, masked), (source, masked), (target, source)]
    expected = sum(slow_contrast(a, b, temperature) for a, b in pairs)
    if symmetric:
        expected = (expected + sum(slow_contrast(b, a, temperature) for a, b in pairs)) / 2
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == 5
    found, wanted = torch.autograd.grad(loss.total, inputs), torch.autograd.grad(expected, inputs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *x: cacr_loss(*x, temperature, symmetric).total, inputs)


def test_figures_count_whose_own_is_the_nearest() -> None:
    east, north, west = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 0.0])
    source = torch.stack([east, north, west])
    target = torch.stack([east, west, north])
    figures = cacr_loss(source, source, target, 0.05).figures
    assert {name: each.tolist() for name, each in figures.items()} == {
        "target_masked": [1, 3],
        "source_masked": [3, 3],
        "target_source": [1, 3],
    }


def test_collapsed_representations_are_no_success() -> None:
    assert cacr_loss(*[torch.ones(4, 3)] * 3, 0.05).figures["target_source"].tolist() == [0, 4]


def test_computes_in_fp32_under_autocast_and_from_bf16() -> None:
    inputs = random_representations(5, torch.float32)
    expected = cacr_loss(*inputs, 0.05).total
    with torch.autocast("cpu", torch.bfloat16):
        assert cacr_loss(*inputs, 0.05).total == expected
        pooled = mean_pool(inputs[0], torch.tensor([[0, 5]]))
    assert torch.equal(pooled, mean_pool(inputs[0], torch.tensor([[0, 5]])))
    rounded = [each.detach().bfloat16() for each in inputs]
    torch.testing.assert_close(cacr_loss(*rounded, 0.05).total, cacr_loss(*map(Tensor.float, rounded), 0.05).total)


def test_mean_pool_is_the_mean_of_each_range_with_its_gradient() -> None:
    torch.manual_seed(0)
    hidden_TD = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    ranges = [(1, 3), (4, 5), (6, 9), (7, 7)]
    pooled = mean_pool(hidden_TD, torch.tensor(ranges))
    expected = torch.stack([hidden_TD[i:j].mean(dim=0) for i, j in ranges[:3]])
    torch.testing.assert_close(pooled[:3], expected)
    assert pooled[3].tolist() == [0, 0, 0]
    assert torch.autograd.gradcheck(lambda x: mean_pool(x, torch.tensor(ranges)), hidden_TD)


def test_a_batch_without_an_example_has_no_loss_but_a_gradient() -> None:
    hidden_TD = torch.empty(0, 6, requires_grad=True)
    pooled = mean_pool(hidden_TD, torch.empty(0, 2, dtype=torch.int64))
    loss = cacr_loss(pooled, pooled, pooled, 0.05, symmetric=True)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert hidden_TD.grad is not None


def test_learns_four_examples_by_heart() -> None:
    batch = clism_batch(clism_examples(4))
    torch.manual_seed(0)
    model = ClismModel(32)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        loss = cacr_loss(*model(batch)[3], temperature=0.05)
        adam.zero_grad()
        (loss.total / loss.count).backward()
        adam.step()
    assert [each.tolist() for each in loss.figures.values()] == [[4, 4]] * 3
    assert loss.total / loss.count < 0.05


# --- accumulation -----------------------------------------------------------------------------------------------------


def test_cached_gradients_are_those_of_one_batch() -> None:
    inputs = random_representations(6)
    objective = partial(cacr_loss, temperature=0.05)
    whole = objective(*inputs)
    micro_batches = list(zip(*(each.split([2, 0, 3, 1]) for each in inputs), strict=True))
    loss, gradients = cached_gradients(micro_batches, objective)
    assert not loss.total.requires_grad
    torch.testing.assert_close(loss.total, whole.total.detach())
    assert (loss.count, loss.figures["target_source"][1]) == (6, 6)
    total = sum(replayed(some, some_gradients) for some, some_gradients in zip(micro_batches, gradients, strict=True))
    found, expected = torch.autograd.grad(total, inputs), torch.autograd.grad(whole.total, inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_accumulation_beside_the_other_losses_equals_one_batch_with_the_same_dropout(
    dtype: torch.dtype, tolerance: float
) -> None:
    """The loop's use of it, as in `samples.accumulate`: the encoder runs twice with the same seeds."""
    examples = clism_examples(7)
    shares = [examples[:3], examples[3:4], examples[4:]]

    accumulated = model_for("all of CLISM", dropout=0.3).to(dtype)
    accumulate("all of CLISM", accumulated, shares)

    whole = model_for("all of CLISM", dropout=0.3).to(dtype)
    batches = [clism_batch(each) for each in shares]
    outputs = [dropped_alike(number, whole, batch) for number, batch in enumerate(batches)]  # all graphs in memory
    contrast = cacr_loss(*(torch.cat(each) for each in zip(*(each[3] for each in outputs), strict=True)), 0.5)
    total = contrast.total / contrast.count
    for name in ("clism", "mlm"):
        losses = [direct_losses(*each, {name})[name] for each in zip(outputs, batches, strict=True)]
        total = total + sum(loss.total for loss in losses) / sum(loss.count for loss in losses)
    total.backward()

    torch.testing.assert_close(gradients_of(accumulated), gradients_of(whole), rtol=0, atol=tolerance)


def test_naive_accumulation_would_be_wrong() -> None:
    """What `cached_gradients` is for: each micro-batch's own negatives give another gradient."""
    examples = clism_examples(6)
    whole, naive = model_for("cacr"), model_for("cacr")
    accumulate("cacr", whole, [examples])
    for share in (examples[:3], examples[3:]):
        loss = cacr_loss(*naive(clism_batch(share))[3], temperature=0.5)
        normalised({"cacr": loss}, {"cacr": torch.tensor(6)}).backward()
    right, wrong = (torch.cat([each.flatten() for each in gradients_of(model).values()]) for model in (whole, naive))
    assert (right - wrong).norm() > 0.05 * right.norm()
