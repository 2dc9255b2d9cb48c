from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from training.data.batches import pack
from training.objectives.spans import log_probabilities, own_rows, span_loss, top_spans

INPUTS = pack([[0] * 3, [0] * 5, [0] * 2])  # places 0-2, 3-7 and 8-9
NONE = pack([])
OUT = -math.inf


def test_a_row_holds_the_scores_of_its_own_sequence() -> None:
    scores_T = torch.arange(10.0)
    expected = [[0, 1, 2, OUT, OUT], [3, 4, 5, 6, 7], [8, 9, OUT, OUT, OUT]]
    assert own_rows(scores_T, INPUTS).tolist() == expected
    scores_NT = scores_T + torch.tensor([[0], [10], [20]])
    expected = [[0, 1, 2, OUT, OUT], [13, 14, 15, 16, 17], [28, 29, OUT, OUT, OUT]]
    assert own_rows(scores_NT, INPUTS).tolist() == expected


def test_several_rows_may_be_about_one_sequence() -> None:
    rows_NL = own_rows(torch.arange(10.0) + torch.tensor([[0], [10], [20]]), INPUTS, torch.tensor([1, 1, 2]))
    assert rows_NL.tolist() == [[3, 4, 5, 6, 7], [13, 14, 15, 16, 17], [28, 29, OUT, OUT, OUT]]


@pytest.mark.parametrize("shape", [(10,), (3, 10)])
def test_scores_of_other_sequences_get_no_gradient(shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    rows_NL = own_rows(scores, INPUTS)
    rows_NL[rows_NL > OUT].sum().backward()
    own = torch.ones(10) if len(shape) == 1 else F.one_hot(torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 2, 2])).T
    assert scores.grad.equal(own.double())


def test_the_loss_is_the_sum_over_rows_of_both_ends_log_probabilities() -> None:
    start_T, end_T = scores = [torch.randn(10, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    gold_start_N, gold_end_N = torch.tensor([1, 4, 8]), torch.tensor([2, 4, 8])
    loss = span_loss(own_rows(start_T, INPUTS), own_rows(end_T, INPUTS), gold_start_N, gold_end_N, INPUTS)
    expected = torch.zeros((), dtype=torch.float64)
    for scores_T, places_N in ((start_T, gold_start_N), (end_T, gold_end_N)):
        for first, end, place in zip((0, 3, 8), (3, 8, 10), places_N, strict=True):
            expected = expected - torch.log(scores_T[place].exp() / scores_T[first:end].exp().sum())
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == 3
    found, wanted = torch.autograd.grad(loss.total, scores), torch.autograd.grad(expected, scores)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_figures_count_the_most_likely_places_that_are_right() -> None:
    start_T, end_T = torch.zeros(10), torch.zeros(10)
    start_T[[1, 4, 8]] = end_T[[2, 5, 8]] = 1  # first and last window right, of the second the start alone
    rows = own_rows(start_T, INPUTS), own_rows(end_T, INPUTS)
    figures = span_loss(*rows, torch.tensor([1, 4, 8]), torch.tensor([2, 4, 8]), INPUTS).figures
    assert {name: each.tolist() for name, each in figures.items()} == {"exact": [2, 3], "start": [3, 3], "end": [2, 3]}


def test_bf16_scores_become_probabilities_in_fp32() -> None:
    rows_NL = own_rows(torch.randn(10).bfloat16(), INPUTS)
    assert rows_NL.dtype == torch.float32
    assert log_probabilities(rows_NL.bfloat16(), torch.tensor([[1, 3], [1, 5], [1, 2]])).dtype == torch.float32


@pytest.mark.parametrize("shape", [(0,), (0, 0)])
def test_a_batch_without_a_window_has_no_loss_but_a_gradient_and_no_spans(shape: tuple[int, ...]) -> None:
    scores = torch.empty(shape, requires_grad=True)
    rows_NL, none_N = own_rows(scores, NONE), torch.empty(0, dtype=torch.int64)
    loss = span_loss(rows_NL, rows_NL, none_N, none_N, NONE)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert scores.grad is not None
    assert top_spans(rows_NL, rows_NL, none_N.reshape(0, 2), 20, 30).score_NK.shape == (0, 20)


def test_probabilities_are_over_the_context_and_cls() -> None:
    scores_NL = torch.tensor([[1.0, 9.0, 2.0, 3.0, 9.0]])  # [CLS], a query, a context of two, padding
    p_NL = log_probabilities(scores_NL, torch.tensor([[2, 4]])).exp()
    total = math.exp(1) + math.exp(2) + math.exp(3)
    assert p_NL[0].tolist() == pytest.approx([math.exp(1) / total, 0, math.exp(2) / total, math.exp(3) / total, 0])


def test_the_score_of_a_span_is_the_log_of_its_ends_probabilities() -> None:
    start_NL, end_NL = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 1.0, 2.0]])
    top = top_spans(start_NL, end_NL, torch.tensor([[1, 3]]), k=1, longest=2)
    assert (top.first_NK.tolist(), top.last_NK.tolist()) == ([[2]], [[2]])
    p_start, p_end = start_NL.softmax(dim=1)[0, 2], end_NL.softmax(dim=1)[0, 2]
    torch.testing.assert_close(top.score_NK[0, 0], (p_start * p_end).log())


def try_all(start_L: Tensor, end_L: Tensor, context: tuple[int, int], k: int, longest: int) -> list:
    """First and LAST token and score of the `k` best spans, best first; `start_L` and `end_L` are log P."""
    spans = [
        (-(start_L[first] + end_L[last]).item(), first, last)
        for first, last in itertools.product(range(*context), repeat=2)
        if first <= last < first + longest
    ]
    return [(first, last, -minus) for minus, first, last in sorted(spans)[:k]]


@st.composite
def rows(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[tuple[int, int]]]:
    """Scores of few different values, so that many spans are equal, and where the context is."""
    number, length = draw(st.integers(0, 3)), draw(st.integers(2, 9))
    scores = st.lists(st.integers(-2, 2), min_size=number * length, max_size=number * length)
    start_NL, end_NL = (torch.tensor(draw(scores)).float().reshape(number, length) for _ in range(2))
    edges = st.tuples(st.integers(1, length), st.integers(1, length)).map(lambda edges: (min(edges), max(edges)))
    return start_NL, end_NL, [draw(edges) for _ in range(number)]


@given(rows(), st.integers(1, 50), st.integers(1, 12))
def test_top_spans_are_those_of_trying_all(
    row: tuple[Tensor, Tensor, list[tuple[int, int]]], k: int, longest: int
) -> None:
    start_NL, end_NL, contexts = row
    context_N2 = torch.tensor(contexts, dtype=torch.int64).reshape(-1, 2)
    top = top_spans(start_NL, end_NL, context_N2, k, longest)
    found = [list(zip(*spans, strict=True)) for spans in zip(*(each.tolist() for each in top), strict=True)]
    start_NL, end_NL = (log_probabilities(each, context_N2) for each in (start_NL, end_NL))
    tried = [try_all(*each, k, longest) for each in zip(start_NL, end_NL, contexts, strict=True)]
    assert found == [spans + [(-1, -1, OUT)] * (k - len(spans)) for spans in tried]
