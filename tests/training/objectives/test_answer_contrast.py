from __future__ import annotations

import math
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.objectives import Loss
from training.objectives.answer_contrast import Windows, answer_contrast, hard_negatives, represented, windows_of
from training.objectives.cacr import cached_gradients, replayed_loss, shared_out
from training.objectives.spans import own_rows, top_spans

EMPTY = (0, 0)


def window(query: str, context: str, *answers: tuple[int, int]) -> MrcWindow:
    """`<s> query </s></s> context </s>`, where a letter is a token; answers are places in the context, end LAST."""
    offset = len(query) + 3
    ids = np.array([ord(letter) for letter in f"<{query}>>{context}>"], np.int32)
    in_context = (offset, offset + len(context))
    placed = tuple((offset + first, offset + last) for first, last in answers)
    return MrcWindow("w", 0, None, ids, (1, len(query) + 1), in_context, 0, placed, bool(answers), ids, ids)


def in_context(batch: MrcBatch, span_N2: Tensor) -> list[tuple[int, int]]:
    """`[start, end)` in each window's context."""
    return [(start, end) for start, end in (span_N2 - batch.context_N2[:, :1]).tolist()]


def representations(number: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    return tuple(torch.randn(number, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))  # type: ignore


def about(questions: str, hard: str | None = None) -> Windows:
    """A letter for each window's question, `-` for one without answer; where `hard` has one, no hard negative."""
    return Windows(
        torch.tensor([[ord(letter), -1] for letter in questions]).reshape(-1, 2),
        torch.tensor([letter != "-" for letter in questions], dtype=torch.bool),
        torch.tensor([[3, 3 if letter == "-" else 5] for letter in hard or "h" * len(questions)]).reshape(-1, 2),
    )


def slow_contrast(
    question_ND: Tensor, gold_ND: Tensor, hard_ND: Tensor, windows: Windows, temperature: float
) -> Tensor:
    """Equation 8, term by term."""
    total = question_ND.new_zeros(())
    for n, question in enumerate(question_ND):
        if not windows.answered_N[n]:
            continue
        against = [gold_ND[n]]
        for other, gold in enumerate(gold_ND):
            if windows.answered_N[other] and not torch.equal(windows.question_NW[n], windows.question_NW[other]):
                against.append(gold)
        if windows.hard_N2[n, 0] < windows.hard_N2[n, 1]:
            against.append(hard_ND[n])
        terms = [(cosine_similarity(question, each, dim=0) / temperature).exp() for each in against]
        total = total - (terms[0] / sum(terms)).log()
    return total


# --- the hard negative ------------------------------------------------------------------------------------------------


def test_the_hard_negative_is_the_most_similar_of_the_best_spans_that_is_no_answer() -> None:
    """Every span is looked at in turn; among the windows are one whose best spans are right, and one without answer."""
    rng = random.Random(0)
    windows = []
    for _ in range(12):
        context = "".join(rng.choice("abcdefgh") for _ in range(rng.randint(4, 9)))
        spans = [(i, j) for i in range(len(context)) for j in range(i, len(context))]
        windows.append(window("q" * rng.randint(1, 3), context, *rng.sample(spans, rng.randint(0, 3))))
    batch = mrc_batch(windows)
    torch.manual_seed(0)
    hidden_TD = torch.randn(batch.inputs.tokens, 5)
    rows = [own_rows(torch.randn(batch.inputs.tokens), batch.inputs) for _ in range(2)]
    found = hard_negatives(hidden_TD, *rows, batch, most=6, longest=3)

    first_N = batch.inputs.bounds_N1[:-1]
    best = top_spans(*rows, batch.context_N2 - first_N.unsqueeze(1), 6, 3)
    for n, each in enumerate(windows):
        first = int(first_N[n])
        letters = each.ids.tolist()
        right = [letters[start : end + 1] for start, end in each.answers]
        gold_start, gold_end = each.answers[0] if each.answers else (0, 0)
        gold_D = hidden_TD[first + gold_start : first + gold_end + 1].mean(dim=0)
        wrong = [
            (cosine_similarity(gold_D, hidden_TD[first + start : first + end + 1].mean(dim=0), dim=0), start, end)
            for start, end in zip(best.first_NK[n].tolist(), best.last_NK[n].tolist(), strict=True)
            if start >= 0 and letters[start : end + 1] not in right
        ]
        _, start, end = max(wrong)
        assert found[n].tolist() == [first + start, first + end + 1]


@pytest.mark.parametrize(
    "answers, expected",
    [
        ([(1, 1)], (0, 1)),  # "b" stands twice: neither place is a mistake, however similar
        ([(1, 1), (0, 0)], (2, 3)),  # another true answer of the window is none, either
        ([(0, 1)], (0, 1)),  # "a" is not the answer "ab", though no candidate is longer
    ],
)
def test_what_reads_as_an_answer_is_no_hard_negative(answers: list[tuple[int, int]], expected: tuple[int, int]) -> None:
    batch = mrc_batch([window("q", "abcb", *answers)])
    hidden_TD = torch.zeros(len(batch.inputs.ids_T), 2)
    first = int(batch.context_N2[0, 0])
    hidden_TD[first:-1] = torch.tensor([[1, 1], [1, 0], [1, 2], [1, 0.0]])
    flat_NL = own_rows(torch.zeros(batch.inputs.tokens), batch.inputs)
    (found,) = in_context(batch, hard_negatives(hidden_TD, flat_NL, flat_NL, batch, most=4, longest=1))
    assert found == expected


def test_a_window_of_which_every_span_is_right_has_none() -> None:
    batch = mrc_batch([window("q", "aa", (0, 0)), window("q", "ab", (0, 0))])
    flat_NL = own_rows(torch.zeros(batch.inputs.tokens), batch.inputs)
    hard_N2 = hard_negatives(torch.ones(batch.inputs.tokens, 2), flat_NL, flat_NL, batch, most=9, longest=1)
    assert (hard_N2[:, 1] - hard_N2[:, 0]).tolist() == [0, 1]


def test_no_gradient_goes_through_the_choice() -> None:
    batch = mrc_batch([window("q", "ab", (0, 0))])
    hidden_TD = torch.randn(batch.inputs.tokens, 2, requires_grad=True)
    rows = own_rows(hidden_TD[:, 0], batch.inputs)
    hard_N2 = hard_negatives(hidden_TD, rows, rows, batch, most=9, longest=2)
    represented(hidden_TD, batch, hard_N2)[2].sum().backward()
    touched = hidden_TD.grad.abs().sum(dim=1).nonzero().flatten().tolist()
    assert touched == list(range(*hard_N2[0].tolist()))


def test_representations_are_the_means_of_query_gold_and_hard_negative() -> None:
    batch = mrc_batch([window("qr", "abcd", (1, 2))])  # <qr>>abcd>
    hidden_TD = torch.arange(10.0).unsqueeze(1)
    found = represented(hidden_TD, batch, torch.tensor([[5, 9]]))
    assert [each.item() for each in found] == [1.5, 6.5, 6.5]


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_an_example_worked_out_by_hand() -> None:
    """Two questions at 0° and 90°, each at 60° to its gold; τ = 1/2.

    The first: cosines 1/2 with its gold, √3/2 with the other (30°), 1 with the hard negative (0°):
    −log e^1 / (e^1 + e^√3 + e^2) = log(1 + e^(√3 − 1) + e^1).
    The second: 1/2, −√3/2 (150°) and 0 (90°): log(1 + e^(−√3 − 1) + e^−1).
    """
    angles = {"question": [0, 90], "gold": [-60, 30], "hard": [0, 180]}
    vectors = {
        name: torch.tensor([[3 * math.cos(math.radians(each)), 3 * math.sin(math.radians(each))] for each in degrees])
        for name, degrees in angles.items()
    }
    loss = answer_contrast(vectors["question"], vectors["gold"], vectors["hard"], about("ab"), temperature=0.5)
    first = math.log(1 + math.exp(math.sqrt(3) - 1) + math.exp(1))
    second = math.log(1 + math.exp(-math.sqrt(3) - 1) + math.exp(-1))
    assert loss.total.item() == pytest.approx(first + second, rel=1e-6)
    assert loss.count == 2
    assert {name: each.tolist() for name, each in loss.figures.items()} == {"nearest": [1, 2], "hard": [1, 2]}


@pytest.mark.parametrize("temperature", [0.1, 10.0])
@pytest.mark.parametrize("questions, hard", [("abcde", "hhhhh"), ("ab-b-", "h-hh-"), ("aaa", "hhh"), ("--", "hh")])
def test_is_equation_8_with_its_gradients(questions: str, hard: str, temperature: float) -> None:
    """Windows without answer take no part, and windows of the same question are not each other's negatives."""
    inputs, windows = representations(len(questions)), about(questions, hard)
    loss = answer_contrast(*inputs, windows, temperature)
    expected = slow_contrast(*inputs, windows, temperature)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == sum(each != "-" for each in questions) == loss.figures["nearest"][1]
    if expected.requires_grad:
        found, wanted = (
            torch.autograd.grad(loss.total, inputs),
            torch.autograd.grad(expected, inputs, allow_unused=True),
        )
        wanted = tuple(torch.zeros_like(found[0]) if each is None else each for each in wanted)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_questions_are_the_same_where_their_tokens_are() -> None:
    batch = mrc_batch(
        [window("ab", "xyz", (0, 0)), window("ab", "yzx", (1, 1)), window("abc", "x", (0, 0)), window("ab", "x")]
    )
    windows = windows_of(batch, 3, torch.zeros(4, 2))
    a, b, c = map(ord, "abc")
    assert windows.question_NW.tolist() == [[a, b, -1], [a, b, -1], [a, b, c], [a, b, -1]]
    assert windows.answered_N.tolist() == [True, True, True, False]


def test_collapsed_representations_are_no_success() -> None:
    loss = answer_contrast(*[torch.ones(4, 3)] * 3, about("abcd"), 0.1)
    assert [each.tolist() for each in loss.figures.values()] == [[0, 4], [0, 4]]


def test_computes_in_fp32_under_autocast_and_from_bf16() -> None:
    inputs = [each.detach().bfloat16() for each in representations(4)]
    with torch.autocast("cpu", torch.bfloat16):
        found = answer_contrast(*inputs, about("abcd"), 0.1).total
    assert found.dtype == torch.float32
    assert found == answer_contrast(*map(Tensor.float, inputs), about("abcd"), 0.1).total


def test_a_batch_without_a_window_has_no_loss_but_a_gradient() -> None:
    batch = mrc_batch([])
    hidden_TD = torch.empty(0, 6, requires_grad=True)
    rows = own_rows(torch.empty(0), batch.inputs)
    hard_N2 = hard_negatives(hidden_TD, rows, rows, batch, most=9, longest=2)
    loss = answer_contrast(*represented(hidden_TD, batch, hard_N2), windows_of(batch, 3, hard_N2), 0.1)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0, 0)
    assert hidden_TD.grad is not None


def test_cached_gradients_of_micro_batches_are_those_of_one_batch() -> None:
    inputs, windows = representations(6), about("abc-bd", "hh-hhh")
    objective = partial(answer_contrast, windows=windows, temperature=0.1)
    whole = objective(*inputs)
    micro_batches = list(zip(*(each.split([2, 0, 3, 1]) for each in inputs), strict=True))
    known = shared_out(*cached_gradients(micro_batches, objective))
    parts: list[Loss] = [replayed_loss(some, *share) for some, share in zip(micro_batches, known, strict=True)]
    total = sum(part.total for part in parts)
    torch.testing.assert_close(total, whole.total)
    assert sum(part.count for part in parts) == whole.count == 5
    torch.testing.assert_close(sum(part.figures["hard"] for part in parts), whole.figures["hard"])
    found, expected = torch.autograd.grad(total, inputs), torch.autograd.grad(whole.total, inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
