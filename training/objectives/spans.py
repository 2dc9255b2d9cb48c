"""Computes the loss and the best spans of rows with one answer each, from scores of its start and of its end.

N rows, each a sequence, or a question of a sequence with several. T tokens of the packed batch, L tokens of its longest
sequence, K best spans, B the most tokens of a span. Positions in T count from the batch's first token, all others from
their sequence's first token. `own_rows` of two sequences of 3 and 2 tokens:

    scores_T   a b c d e        scores_NL   a b  c
    bounds_N1  0     3   5                  d e −inf
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, hit_rate

if TYPE_CHECKING:
    from training.data.batches import Packed


class TopSpans(NamedTuple):
    """The best spans of each row, best first. A row with fewer than K spans has positions -1 and scores -inf."""

    first_NK: Tensor  # int64, position within the sequence
    last_NK: Tensor  # the LAST token's
    score_NK: Tensor  # log P(start) + log P(end)


def own_rows(scores: Tensor, inputs: Packed, sequence_N: Tensor | None = None) -> Tensor:
    """Returns scores_NL in fp32: each row's scores of the tokens of its own sequence, then -inf.

    `scores` are scores_T, one of each token, or scores_NT, each row's of all tokens; those of other sequences are not
    read. `sequence_N` is the sequence of each row; without it, row n is about sequence n.
    """
    bounds_N1 = inputs.bounds_N1.long()
    first_N, end_N = bounds_N1[:-1], bounds_N1[1:]
    if sequence_N is not None:
        first_N, end_N = first_N[sequence_N], end_N[sequence_N]
    # At least one column, so that a batch without a sequence is valid.
    places_NL = first_N.unsqueeze(1) + torch.arange(max(inputs.longest, 1), device=first_N.device)
    inside_NL = places_NL < end_N.unsqueeze(1)
    places_NL = places_NL.clamp(max=scores.shape[-1] - 1)
    if scores.dim() == 1:
        scores_NL = scores.gather(0, places_NL.flatten()).view_as(places_NL)
    else:
        scores_NL = scores.gather(1, places_NL)
    return at_least_fp32(scores_NL).masked_fill(~inside_NL, -torch.inf)


def span_loss(
    start_NL: Tensor,
    end_NL: Tensor,
    gold_start_N: Tensor,
    gold_end_N: Tensor,
    inputs: Packed,
    sequence_N: Tensor | None = None,
) -> Loss:
    """Sums −log P(start) − log P(end) over rows (two-stage, equation 3; CLISM, equation 4) whose answer is known. Its
    count is their number.

    The scores are `own_rows`, the probabilities softmaxes over each row (two-stage, equation 2). The answers are
    positions in T, the end its LAST token; -1 is unknown. Figures: the shares of the rows whose most likely start, end,
    or both (`exact`) are right.
    """
    first_N = inputs.bounds_N1.long()[:-1]
    if sequence_N is not None:
        first_N = first_N[sequence_N]
    known_N = gold_start_N >= 0
    label_start_N = torch.where(known_N, gold_start_N - first_N, -1)
    label_end_N = torch.where(known_N, gold_end_N - first_N, -1)
    start_right_N = start_NL.argmax(dim=1) == label_start_N
    end_right_N = end_NL.argmax(dim=1) == label_end_N
    return Loss(
        F.cross_entropy(start_NL, label_start_N, ignore_index=-1, reduction="sum")
        + F.cross_entropy(end_NL, label_end_N, ignore_index=-1, reduction="sum"),
        known_N.sum(),
        {
            "exact": hit_rate(start_right_N & end_right_N, known_N),
            "start": hit_rate(start_right_N, known_N),
            "end": hit_rate(end_right_N, known_N),
        },
    )


def log_probabilities(scores_NL: Tensor, context_N2: Tensor) -> Tensor:
    """Returns log P in fp32, a softmax over each row's context `[start, end)` and [CLS], position 0; -inf elsewhere.

    Prediction leaves out query and separators, which hold no answer; the loss is over all tokens.
    """
    readable_NL = _in_context(scores_NL, context_N2)
    readable_NL[:, 0] = True
    return at_least_fp32(scores_NL).masked_fill(~readable_NL, -torch.inf).log_softmax(dim=1)


def top_spans(start_NL: Tensor, end_NL: Tensor, context_N2: Tensor, k: int, longest: int) -> TopSpans:
    """Finds the `k` most probable spans of at most `longest` tokens within each row's context `[start, end)`.

    P(span) = P(start) · P(end), each as in `log_probabilities` (two-stage, equation 2; decision 24). Of equal spans the
    earlier comes first, then the shorter. Memory grows with N · L and N · k · `longest`.
    """
    outside_NL = ~_in_context(start_NL, context_N2)  # [CLS] among them
    start_NL = log_probabilities(start_NL, context_N2).masked_fill(outside_NL, -torch.inf)
    end_NL = log_probabilities(end_NL, context_N2).masked_fill(outside_NL, -torch.inf)
    rows, length = start_NL.shape
    longest = min(longest, length)
    # end_NLB[:, i, b] is the end's score of the span of b + 1 tokens from i, for longest 3 and scores p q r s:
    #   i = 0: p q r,   1: q r s,   2: r s −inf,   3: s −inf −inf
    end_NLB = F.pad(end_NL, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    rows_N1 = torch.arange(rows, device=start_NL.device).unsqueeze(1)
    return k_best(
        start_NL + end_NLB.amax(dim=2),
        lambda starts_NS: start_NL.gather(1, starts_NS).unsqueeze(2) + end_NLB[rows_N1, starts_NS],
        k,
    )


def k_best(best_NL: Tensor, scores_of: Callable[[Tensor], Tensor], k: int) -> TopSpans:
    """Finds the `k` best spans of each row. `best_NL` is the score of each start's best span; `scores_of(starts_NS)`
    returns score_NSB of the spans of 1 to B tokens from those starts, -inf for spans that do not exist."""
    # The k best spans begin at the k starts (S of them) with the best own spans, so only these are sorted.
    starts_NS = best_NL.sort(dim=1, descending=True, stable=True).indices[:, :k].sort(dim=1).values
    score_NSB = scores_of(starts_NS)
    # Not topk, which may return equal spans in any order.
    score_NK, which_NK = (
        sorted_N[:, :k] for sorted_N in score_NSB.flatten(1).sort(dim=1, descending=True, stable=True)
    )
    first_NK = starts_NS.gather(1, which_NK.div(score_NSB.shape[2], rounding_mode="floor"))
    last_NK = first_NK + which_NK % score_NSB.shape[2]
    none_NK, beyond = score_NK == -torch.inf, (0, k - score_NK.shape[1])
    return TopSpans(
        F.pad(first_NK.masked_fill(none_NK, -1), beyond, value=-1),
        F.pad(last_NK.masked_fill(none_NK, -1), beyond, value=-1),
        F.pad(score_NK, beyond, value=-torch.inf),
    )


def _in_context(scores_NL: Tensor, context_N2: Tensor) -> Tensor:
    places_L = torch.arange(scores_NL.shape[1], device=scores_NL.device)
    return (context_N2[:, :1] <= places_L) & (places_L < context_N2[:, 1:])
