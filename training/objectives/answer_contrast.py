"""Answer-aware contrastive learning brings a question near its answer, and away from the most similar wrong span
(two-stage, Answer-Aware Contrastive Learning; decision 25).

N windows of this rank, B of all ranks, K candidates of each, A answers, T tokens of a packed batch, L tokens of its
longest window, W tokens that are compared, D hidden size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.data.task_batches import MrcBatch
from training.objectives import Loss, at_least_fp32
from training.objectives.cacr import mean_pool
from training.objectives.spans import top_spans
from training.runtime.distributed import all_gather_with_grad


class Windows(NamedTuple):
    """What the loss needs of windows in addition to representations. The hard negatives are chosen once in a step."""

    question_NW: Tensor  # the query's tokens, then -1
    answered_N: Tensor  # bool: the others have no loss
    hard_N2: Tensor  # the hard negative, [start, end) in T; empty if a window has none


def answered(batch: MrcBatch) -> Tensor:
    """Returns which windows hold an answer, (N,). The gold of the others is their first token."""
    return batch.gold_start_N > batch.inputs.bounds_N1[:-1]


def windows_of(batch: MrcBatch, most_query_tokens: int, hard_N2: Tensor) -> Windows:
    """Collects the windows of a batch. `most_query_tokens` is W, the most tokens of a query, the same in every
    micro-batch and on every rank."""
    return Windows(_tokens(batch, batch.query_N2, most_query_tokens), answered(batch), hard_N2)


@torch.no_grad()
def hard_negatives(
    hidden_TD: Tensor, start_NL: Tensor, end_NL: Tensor, batch: MrcBatch, most: int, longest: int
) -> Tensor:
    """Chooses among the model's `most` best spans the one most like the gold, by the cosine of means of tokens
    (equations 6 and 7). Returns hard_N2, [start, end) in T, empty if all spans are right.

    A span is right if it has the same tokens as an answer of the window, there or elsewhere. `start_NL` and `end_NL`
    are the scores of spans of at most `longest` tokens. No gradient goes through the choice.
    """
    first_N11 = batch.inputs.bounds_N1[:-1].long().view(-1, 1, 1)
    best = top_spans(start_NL, end_NL, batch.context_N2 - first_N11.squeeze(2), most, longest)
    span_NK2 = torch.stack([best.first_NK, best.last_NK + 1], dim=2) + first_N11
    answer_A2 = torch.stack([batch.answer_start_A, batch.answer_end_A + 1], dim=1)
    # One token more than any candidate has, so that no longer answer equals one.
    token_NKW, answer_AW = _tokens(batch, span_NK2, longest + 1), _tokens(batch, answer_A2, longest + 1)
    right_AK = (token_NKW[batch.sequence_A] == answer_AW.unsqueeze(1)).all(dim=2)
    right_NK = torch.zeros_like(best.first_NK).index_add(0, batch.sequence_A, right_AK.long()) > 0

    # Differences of running sums give the sums of all spans at once; in fp64, because the sums run through the batch.
    sums_TD = F.pad(hidden_TD.double().cumsum(dim=0), (0, 0, 1, 0))
    gold_N12 = torch.stack([batch.gold_start_N, batch.gold_end_N + 1], dim=1).unsqueeze(1)
    mean_NKD, gold_N1D = (
        sums_TD[range_NK2[..., 1].clamp(min=0)] - sums_TD[range_NK2[..., 0].clamp(min=0)]  # a sum suffices for a cosine
        for range_NK2 in (span_NK2, gold_N12)
    )
    wrong_NK = (best.first_NK >= 0) & ~right_NK
    cosine_NK = F.cosine_similarity(mean_NKD, gold_N1D, dim=2).masked_fill(~wrong_NK, -torch.inf)
    # The last candidate is an empty span, for windows without another.
    chosen_N = F.pad(cosine_NK, (0, 1), value=-2.0).argmax(dim=1)
    return F.pad(span_NK2, (0, 0, 0, 1))[torch.arange(len(chosen_N), device=chosen_N.device), chosen_N]


def represented(hidden_TD: Tensor, batch: MrcBatch, hard_N2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns question_ND, gold_ND and hard_ND, means of tokens in at least fp32 (equation 6)."""
    gold_N2 = torch.stack([batch.gold_start_N, batch.gold_end_N + 1], dim=1)
    return mean_pool(hidden_TD, batch.query_N2), mean_pool(hidden_TD, gold_N2), mean_pool(hidden_TD, hard_N2)


def answer_contrast(
    question_ND: Tensor, gold_ND: Tensor, hard_ND: Tensor, windows: Windows, temperature: float
) -> Loss:
    """−log exp(cos(q, a) / τ) / Σ exp(cos(q, a_n) / τ) (equation 8), summed over windows with an answer: its count.

    The sum runs over the golds of all such windows of all ranks and the question's own hard negative; gradients reach
    every rank's encoder. Other windows with the same question, of this record or another, are left out: their gold may
    be the same answer. `temperature` is τ. Figures: the share of questions whose own gold is nearer than all others
    (`nearest`), and nearer than the hard negative (`hard`).
    """
    with torch.autocast(question_ND.device.type, enabled=False):
        question_ND, gold_ND, hard_ND = (
            F.normalize(at_least_fp32(means_ND), dim=1) for means_ND in (question_ND, gold_ND, hard_ND)
        )
        gold_BD, first = all_gather_with_grad(gold_ND)
        own_N1 = torch.arange(len(gold_ND), device=gold_ND.device).unsqueeze(1) + first
        about_NW = torch.cat([windows.question_NW, windows.answered_N.unsqueeze(1).long()], dim=1)
        about_BW = all_gather_with_grad(about_NW).rows
        same_NB = (windows.question_NW.unsqueeze(1) == about_BW[:, :-1]).all(dim=2)
        kept_NB = ((about_BW[:, -1] > 0) & ~same_NB).scatter(1, own_N1, True)
        has_hard_N1 = windows.hard_N2[:, :1] < windows.hard_N2[:, 1:]

        golds_NB = (question_ND @ gold_BD.T).masked_fill(~kept_NB, -torch.inf)
        hard_N1 = (question_ND * hard_ND).sum(dim=1, keepdim=True).masked_fill(~has_hard_N1, -torch.inf)
        cosines = torch.cat([golds_NB, hard_N1], dim=1)  # N, B + 1
        loss_N = F.cross_entropy(cosines / temperature, own_N1.squeeze(1), reduction="none")
        answered_N, gold_N1 = windows.answered_N, golds_NB.gather(1, own_N1)
        # A tie is no hit: if all representations are equal, the model has distinguished nothing.
        nearest_N = (cosines >= gold_N1).sum(dim=1) == 1
        past_hard_N = (hard_N1 < gold_N1).squeeze(1)
        return Loss(
            loss_N.where(answered_N, 0).sum(),
            answered_N.sum(),
            {
                name: torch.stack([(hits_N & answered_N).sum(), answered_N.sum()]).double()
                for name, hits_N in (("nearest", nearest_N), ("hard", past_hard_N))
            },
        )


def _tokens(batch: MrcBatch, ranges: Tensor, width: int) -> Tensor:
    """Returns the first `width` tokens of each range `[start, end)`, then -1: ranges (…, 2) → tokens (…, width)."""
    start, end = ranges[..., :1], ranges[..., 1:]
    places = start + torch.arange(width, device=ranges.device)
    tokens = batch.inputs.ids_T[places.clamp(0, max(batch.inputs.tokens - 1, 0))]
    return tokens.where(places < end, -1)
