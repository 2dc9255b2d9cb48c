"""One answer a row, from scores of its start and of its end: the loss over them, and the best spans.

N rows: sequences, or several questions to one. T tokens of the packed batch, L tokens of its longest sequence, K best
spans, B the most tokens of a span. Places in T count from the batch's first token, all others from the sequence's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, share

if TYPE_CHECKING:
    from training.data.batches import Packed


class TopSpans(NamedTuple):
    """The best spans of each row, best first. Beyond those that a row has, places are -1 and scores -inf."""

    first_NK: Tensor  # int64, place within the sequence
    last_NK: Tensor  # the LAST token's
    score_NK: Tensor  # log P(start) + log P(end)


def own_rows(scores: Tensor, inputs: Packed, sequence_N: Tensor | None = None) -> Tensor:
    """scores_NL in fp32: what each row says of the tokens of its own sequence, -inf beyond them.

    `scores` are scores_T, one of each token, or scores_NT, each row's of all tokens; what belongs to other sequences is
    never looked at. `sequence_N` says which sequence a row is about, where that is not the sequence of its number.
    """
    bounds_N1 = inputs.bounds_N1.long()
    first_N, end_N = bounds_N1[:-1], bounds_N1[1:]
    if sequence_N is not None:
        first_N, end_N = first_N[sequence_N], end_N[sequence_N]
    # At least one column, so that a batch without a sequence passes.
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
    """−log P(start) − log P(end), summed over rows (two-stage, equation 3; CLISM, equation 4). Its count is N.

    The scores are `own_rows`, the probabilities softmaxes over each row (two-stage, equation 2); the answers are places
    in T, the end its LAST token. Figures: `exact`, `start`, `end`: how many most likely places are right.
    """
    first_N = inputs.bounds_N1.long()[:-1]
    if sequence_N is not None:
        first_N = first_N[sequence_N]
    label_start_N, label_end_N = gold_start_N - first_N, gold_end_N - first_N
    start_right_N = start_NL.argmax(dim=1) == label_start_N
    end_right_N = end_NL.argmax(dim=1) == label_end_N
    return Loss(
        F.cross_entropy(start_NL, label_start_N, reduction="sum")
        + F.cross_entropy(end_NL, label_end_N, reduction="sum"),
        torch.full_like(first_N.sum(), len(first_N)),
        {"exact": share(start_right_N & end_right_N), "start": share(start_right_N), "end": share(end_right_N)},
    )


def log_probabilities(scores_NL: Tensor, context_N2: Tensor) -> Tensor:
    """log P in fp32: the softmax over each row's context `[start, end)` and [CLS], place 0; -inf at other tokens.

    In prediction, query and separators are left out, where no answer can be; the loss is over all tokens.
    """
    readable_NL = _in_context(scores_NL, context_N2)
    readable_NL[:, 0] = True
    return at_least_fp32(scores_NL).masked_fill(~readable_NL, -torch.inf).log_softmax(dim=1)


def top_spans(start_NL: Tensor, end_NL: Tensor, context_N2: Tensor, k: int, longest: int) -> TopSpans:
    """The `k` most probable spans of at most `longest` tokens within each row's context `[start, end)`.

    P(span) = P(start) · P(end), each as in `log_probabilities` (two-stage, equation 2; decision 24). Of equal spans the
    earlier comes first, then the shorter. Memory grows with N · L and N · k · `longest`.
    """
    outside_NL = ~_in_context(start_NL, context_N2)  # [CLS] among them
    start_NL = log_probabilities(start_NL, context_N2).masked_fill(outside_NL, -torch.inf)
    end_NL = log_probabilities(end_NL, context_N2).masked_fill(outside_NL, -torch.inf)
    rows, length = start_NL.shape
    longest = min(longest, length)
    # end_NLB[:, i, b] is the score of the end of the span of b + 1 tokens from i.
    end_NLB = F.pad(end_NL, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    rows_N1 = torch.arange(rows, device=start_NL.device).unsqueeze(1)
    return k_best(
        start_NL + end_NLB.amax(dim=2),
        lambda starts_NS: start_NL.gather(1, starts_NS).unsqueeze(2) + end_NLB[rows_N1, starts_NS],
        k,
    )


def k_best(best_NL: Tensor, scores_of: Callable[[Tensor], Tensor], k: int) -> TopSpans:
    """The `k` best spans of each row. `best_NL`: of each start the score of its best span; `scores_of(starts_NS)` gives
    score_NSB of the spans of 1 to B tokens from those starts, -inf where there is none."""
    # The k best spans begin at the k starts (S of them) whose own best spans are best: nothing else need be sorted.
    starts_NS = best_NL.sort(dim=1, descending=True, stable=True).indices[:, :k].sort(dim=1).values
    score_NSB = scores_of(starts_NS)
    # Not topk, which may give equal spans in any order.
    score_NK, which_NK = (each[:, :k] for each in score_NSB.flatten(1).sort(dim=1, descending=True, stable=True))
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
