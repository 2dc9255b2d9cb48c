from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.profiler import ProfilerActivity, profile

from tests.training.objectives.samples import WaeModel, wae_batch, wae_examples
from training.data.batches import WaeBatch
from training.objectives.wae import cls_loss, valid_pairs, wae_loss


def slow_loss(start_TH: Tensor, end_TH: Tensor, batch: WaeBatch, with_cls: bool = True) -> tuple[Tensor, int]:
    """As the definition says: dense scores and labels of each sequence, pair by pair."""
    answers = set(zip(batch.answer_start_A.tolist(), batch.answer_end_A.tolist(), strict=True))
    total, count = start_TH.new_zeros(()), 0
    for n, (first, last) in enumerate(batch.context_N2.tolist()):
        cls = int(batch.inputs.bounds_N1[n])
        places = [cls, *range(first, last)] if with_cls else [*range(first, last)]
        for row, i in enumerate(places):
            for j in places[row:]:
                label = float(batch.answerable_N[n] if i == j == cls else (i, j) in answers)
                score = start_TH[i] @ end_TH[j]
                total = total + binary_cross_entropy_with_logits(score, score.new_tensor(label), reduction="sum")
                count += 1
    return total, count


def random_factors(batch: WaeBatch, size: int = 3, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(batch.inputs.tokens, size, dtype=dtype, requires_grad=True) for _ in range(2)]


@given(
    number=st.integers(1, 7),
    seed=st.integers(0, 50),
    tile=st.sampled_from([1, 150, 250, 1 << 22]),
    with_cls=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_equals_the_dense_loss_with_its_gradient_whatever_the_tile(
    number: int, seed: int, tile: int, with_cls: bool
) -> None:
    batch = wae_batch(wae_examples(number, seed))
    factors = random_factors(batch)
    loss = wae_loss(*factors, batch, tile=tile, with_cls=with_cls)
    expected, count = slow_loss(*factors, batch, with_cls)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == valid_pairs(batch, with_cls) == count
    found, wanted = torch.autograd.grad(loss.total, factors), torch.autograd.grad(expected, factors)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_gradient_is_the_numeric_one() -> None:
    batch = wae_batch(wae_examples(3))
    assert torch.autograd.gradcheck(lambda *x: wae_loss(*x, batch, tile=100).total, random_factors(batch))


def test_only_cls_and_context_of_the_own_sequence_are_read() -> None:
    batch = wae_batch(wae_examples(4))
    factors = random_factors(batch)
    wae_loss(*factors, batch).total.backward()
    read = set(batch.inputs.bounds_N1[:-1].tolist()).union(*(range(*each) for each in batch.context_N2.tolist()))
    for each in factors:
        assert {place for place, row in enumerate(each.grad) if row.any()} == read


def test_the_loss_of_cls_alone_is_that_of_its_cell_and_counts_sequences() -> None:
    batch = wae_batch(wae_examples(5))
    factors = random_factors(batch)
    loss = cls_loss(*factors, batch)
    cls = batch.inputs.bounds_N1[:-1].tolist()
    expected = sum(
        binary_cross_entropy_with_logits(factors[0][place] @ factors[1][place], answerable.double())
        for place, answerable in zip(cls, batch.answerable_N, strict=True)
    )
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == 5
    loss.total.backward()
    for each in factors:
        assert {place for place, row in enumerate(each.grad) if row.any()} == {*cls}


def test_without_cls_the_best_span_of_the_context_is_compared() -> None:
    batch = wae_batch(
        [{"ids": [0] * 9, "context": (4, 8), "answers": [(4, 4)]}, {"ids": [0] * 4, "context": (3, 3), "answers": []}]
    )
    start_TH, end_TH = torch.zeros(13, 1), torch.zeros(13, 1)
    start_TH[4], end_TH[4] = 2, 2
    assert {
        name: each.tolist() for name, each in wae_loss(start_TH, end_TH, batch, with_cls=False).figures.items()
    } == {"exact": [1, 1]}


def test_figures_count_right_cls_scores_and_best_spans_that_are_answers() -> None:
    batch = wae_batch(
        [
            {"ids": [0] * 9, "context": (4, 8), "answers": [(4, 5), (7, 7)]},  # best is (7, 7): right
            {"ids": [0] * 9, "context": (4, 8), "answers": [(5, 6)]},  # best is (5, 7): wrong
            {"ids": [0] * 9, "context": (4, 8), "answers": []},
        ]
    )
    start_TH, end_TH = torch.zeros(27, 3), torch.zeros(27, 3)
    for feature, (i, j) in enumerate([(7, 7), (9 + 5, 9 + 7)]):
        start_TH[i, feature] = end_TH[j, feature] = 2
    start_TH[7, 2], end_TH[5, 2] = 9, 9  # 7 to 5 ends before it starts
    for cls, score in ((0, 1.0), (9, -1.0), (18, -1.0)):
        start_TH[cls, 2], end_TH[cls, 2] = score, 1
    end_TH[4, 2] = 90  # [CLS] to 4 is no span of the context
    figures = wae_loss(start_TH, end_TH, batch).figures
    assert {name: each.tolist() for name, each in figures.items()} == {"answerable": [2, 3], "exact": [1, 2]}


def test_scores_are_fp32_under_autocast_and_from_bf16() -> None:
    batch = wae_batch(wae_examples(4))
    factors = random_factors(batch, dtype=torch.float32)
    expected = wae_loss(*factors, batch).total
    with torch.autocast("cpu", torch.bfloat16):
        total = wae_loss(*factors, batch).total
        gradients = torch.autograd.grad(total, factors)
    assert total == expected
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, factors), rtol=0, atol=0)
    rounded = [each.detach().bfloat16() for each in factors]
    torch.testing.assert_close(wae_loss(*rounded, batch).total, wae_loss(*map(Tensor.float, rounded), batch).total)


def test_gradient_of_bf16_factors_is_rounded_once() -> None:
    """At an answer that is learnt, two large parts cancel: summed in bf16, they would leave noise."""
    batch = wae_batch([{"ids": [0] * 8, "context": (4, 6), "answers": [(5, 5)]}])
    start_TH, end_TH = torch.zeros(8, 2), torch.zeros(8, 2)
    start_TH[5, 0], end_TH[5, 0] = 2.5, 2.5
    factors = [each.bfloat16().requires_grad_() for each in (start_TH, end_TH)]
    (found, _) = torch.autograd.grad(wae_loss(*factors, batch).total, factors)
    assert found.dtype == torch.bfloat16
    slope = torch.tensor(6.25).sigmoid() - 1
    torch.testing.assert_close(found[5, 0], (slope * 2.5).bfloat16(), rtol=0.01, atol=0)


def test_large_scores_stay_finite() -> None:
    batch = wae_batch(wae_examples(4))
    factors = [(1e4 * each.detach()).requires_grad_() for each in random_factors(batch, dtype=torch.float32)]
    total = wae_loss(*factors, batch).total
    assert all(torch.isfinite(each).all() for each in (total, *torch.autograd.grad(total, factors)))


def test_a_batch_without_a_sequence_has_no_loss_but_a_gradient() -> None:
    batch = wae_batch([])
    factors = random_factors(batch)
    loss = wae_loss(*factors, batch)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert factors[0].grad is not None


def test_a_context_may_be_empty() -> None:
    batch = wae_batch([{"ids": [0] * 4, "context": (3, 3), "answers": []}])
    factors = random_factors(batch)
    torch.testing.assert_close(wae_loss(*factors, batch).total, slow_loss(*factors, batch)[0])
    assert wae_loss(*factors, batch, with_cls=False).total == 0


def peak_bytes(work: Callable[[], None]) -> int:
    """The most that `work` had allocated at a time, beyond what was there before."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def test_memory_is_the_gradients_and_a_tile_however_many_scores_there_are() -> None:
    query, context, size, number = 6, 200, 16, 64
    example = {"ids": [1] * (query + context), "context": (query, query + context), "answers": [(query, query + 1)]}
    batch = wae_batch([example] * number)
    factors = random_factors(batch, size, torch.float32)
    gradients = 4 * sum(each.numel() for each in factors)  # bytes
    scores = 4 * (context + 1) ** 2  # of one sequence

    def peak(tile: int) -> int:
        return peak_bytes(lambda: wae_loss(*factors, batch, tile=tile).total.backward())

    assert peak(tile=1) < gradients + 6 * scores  # scores, softplus, mask; the sequence's factors and their gradients
    assert peak(tile=1 << 30) > gradients + 2 * number * scores


def test_learns_four_examples_by_heart() -> None:
    batch = wae_batch(wae_examples(4))
    torch.manual_seed(0)
    model = WaeModel(32)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        loss = wae_loss(*model(batch), batch)
        adam.zero_grad()
        (loss.total / loss.count).backward()
        adam.step()
    assert loss.figures["answerable"].tolist() == [4, 4]
    assert loss.figures["exact"].tolist() == [3, 3]
    assert loss.total / loss.count < 0.01
