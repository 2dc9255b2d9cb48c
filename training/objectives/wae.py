"""mPMR's Wiki Anchor Extraction decides which spans of the context answer the query, if any (mPMR, 2.1).

N sequences, T tokens of the packed batch, A answers, P positives, H size of the factors, R rows of a sequence's score
matrix: its [CLS] and its context. n sequences of one tile. The score matrix S of a sequence with a context of 3 tokens
"a b c", whose answer is "b c" (+ positive, − negative, others not scored):

             [CLS]  a  b  c
    [CLS]      +    −  −  −
    a               −  −  −
    b                  −  +
    c                     −
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, hit_rate

if TYPE_CHECKING:
    from training.data.batches import WaeBatch

TILE = 1 << 20  # scores in memory at a time, unless one sequence has more


def valid_pairs(batch: WaeBatch, with_cls: bool = True) -> Tensor:
    """Counts the pairs i <= j of this batch's loss, as an int64 tensor without dimension."""
    rows_N = batch.context_N2[:, 1] - batch.context_N2[:, 0] + int(with_cls)
    return (rows_N * (rows_N + 1) // 2).sum()


def cls_scores(start_TH: Tensor, end_TH: Tensor, batch: WaeBatch) -> Tensor:
    """Returns S_N, the score of each sequence's [CLS] pair, in at least fp32."""
    cls_N = batch.inputs.bounds_N1[:-1].long()
    return (at_least_fp32(start_TH[cls_N]) * at_least_fp32(end_TH[cls_N])).sum(dim=1)


def cls_loss(start_TH: Tensor, end_TH: Tensor, batch: WaeBatch) -> Loss:
    """Sums the binary cross-entropy of each sequence's [CLS] pair alone, which is positive exactly if the query is
    answered (mPMR, table 6: pairs of sentences). Its count is N. Figure: `answerable`, as in `wae_loss`."""
    score_N = cls_scores(start_TH, end_TH, batch)
    total = F.binary_cross_entropy_with_logits(score_N, batch.answerable_N.to(score_N.dtype), reduction="sum")
    count = torch.full((), len(score_N), dtype=torch.int64, device=score_N.device)
    return Loss(total, count, {"answerable": hit_rate((score_N > 0) == batch.answerable_N)})


def wae_loss(start_TH: Tensor, end_TH: Tensor, batch: WaeBatch, tile: int = TILE, *, with_cls: bool = True) -> Loss:
    """Sums the binary cross-entropy of S_ij, the score of the span from token i to j, over all pairs i <= j whose two
    tokens are [CLS] or context of one sequence (mPMR, 2.1). The pair of [CLS] with itself is positive exactly if the
    query is answered. The loss's count is the number of pairs. Without `with_cls`, all pairs are of the context.

    S_ij = start_i · end_j, in fp32. With labels y in {0, 1}, Σ softplus(S) − y S is Σ softplus(S) over all pairs, less
    Σ S over the few positives, so no labels are built for the batch. Scores are computed in tiles, dropped, and
    computed again for the gradient, so that in addition to the two gradients memory grows with `tile` alone. The
    answers of a sequence must be distinct. Figures: `answerable`, the share of [CLS] pairs whose score has the right
    sign; `exact`, the share of answered queries for which the best span of the context, of any length, is an answer.
    """
    cls_N, (context_N, context_end_N) = batch.inputs.bounds_N1[:-1].long(), batch.context_N2.unbind(dim=1)
    last_N = context_end_N - context_N - int(not with_cls)  # row of the context's last token
    rows = 1 + max(0, batch.longest_context - int(not with_cls))
    # Rows beyond a sequence's context lie in the next sequence; their scores are not counted.
    places_NR = context_N.unsqueeze(1) + torch.arange(rows, device=cls_N.device) - int(with_cls)
    places_NR = places_NR.clamp(max=max(len(start_TH) - 1, 0))
    positives = _Pairs(batch.answer_start_A, batch.answer_end_A, torch.ones_like(batch.answer_start_A))
    if with_cls:
        places_NR[:, 0] = cls_N
        positives = _Pairs(
            torch.cat([cls_N, positives.start_P]),
            torch.cat([cls_N, positives.end_P]),
            torch.cat([batch.answerable_N, positives.weight_P]),
        )
    total, best_N = _TiledLoss.apply(  # type: ignore[no-untyped-call]
        start_TH, end_TH, places_NR, last_N, positives, max(1, tile // rows**2), with_cls
    )
    best_start_N = context_N + best_N.div(rows, rounding_mode="floor") - int(with_cls)
    best_end_N = context_N + best_N % rows - int(with_cls)
    right_A = (best_start_N[batch.sequence_A] == batch.answer_start_A) & (
        best_end_N[batch.sequence_A] == batch.answer_end_A
    )
    figures = {"exact": torch.stack([right_A.sum(), batch.answerable_N.sum()]).double()}
    if with_cls:
        with torch.no_grad():
            figures["answerable"] = hit_rate((cls_scores(start_TH, end_TH, batch) > 0) == batch.answerable_N)
    return Loss(total, valid_pairs(batch, with_cls), figures)


class _Pairs(NamedTuple):
    start_P: Tensor  # positions in T
    end_P: Tensor
    weight_P: Tensor  # 1, or 0 for the [CLS] pair of an unanswered query


class _Tile(NamedTuple):
    places_nR: Tensor
    start_nRH: Tensor
    end_nRH: Tensor
    scores_nRR: Tensor
    valid_nRR: Tensor


def _tiles(start_TH: Tensor, end_TH: Tensor, places_NR: Tensor, last_N: Tensor, per_tile: int) -> Iterator[_Tile]:
    row_R = torch.arange(places_NR.shape[1], device=places_NR.device)
    for places_nR, last_n in zip(torch.split(places_NR, per_tile), torch.split(last_N, per_tile), strict=True):
        start_nRH, end_nRH = at_least_fp32(start_TH[places_nR]), at_least_fp32(end_TH[places_nR])
        # i <= j, and j within the context
        valid_nRR = (row_R.unsqueeze(1) <= row_R) & (row_R <= last_n.view(-1, 1, 1))
        yield _Tile(places_nR, start_nRH, end_nRH, start_nRH @ end_nRH.mT, valid_nRR)


class _TiledLoss(torch.autograd.Function):
    """Returns the summed loss, and the best span of each context as i * R + j.

    It has its own backward pass because autograd would keep every tile or, with activation checkpoints, make a gradient
    of the batch's size for each tile.
    """

    @staticmethod
    def forward(
        ctx: Any,
        start_TH: Tensor,
        end_TH: Tensor,
        places_NR: Tensor,
        last_N: Tensor,
        positives: _Pairs,
        per_tile: int,
        with_cls: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(start_TH, end_TH, places_NR, last_N, *positives)
        ctx.per_tile = per_tile
        with torch.autocast(start_TH.device.type, enabled=False):
            scores_P = (at_least_fp32(start_TH[positives.start_P]) * at_least_fp32(end_TH[positives.end_P])).sum(dim=1)
            total = -(scores_P * positives.weight_P).sum()
            best = []
            for tile in _tiles(start_TH, end_TH, places_NR, last_N, per_tile):
                total += F.softplus(tile.scores_nRR).masked_fill_(~tile.valid_nRR, 0).sum()
                spans_nRR = tile.scores_nRR.masked_fill_(~tile.valid_nRR, -torch.inf)
                if with_cls:
                    spans_nRR[:, 0] = -torch.inf  # [CLS] starts no span
                best.append(spans_nRR.flatten(1).argmax(dim=1))
        best_N = torch.cat(best)
        ctx.mark_non_differentiable(best_N)
        return total, best_N

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        start_TH, end_TH, places_NR, last_N, *rest = ctx.saved_tensors
        positives = _Pairs(*rest)
        # In fp32, because the two parts cancel at a positive pair that is learnt.
        start_gradient, end_gradient = (torch.zeros_like(x_TH, dtype=gradient.dtype) for x_TH in (start_TH, end_TH))
        with torch.autocast(start_TH.device.type, enabled=False):
            for tile in _tiles(start_TH, end_TH, places_NR, last_N, ctx.per_tile):
                slope_nRR = tile.scores_nRR.sigmoid_().masked_fill_(~tile.valid_nRR, 0).mul_(gradient)
                places = tile.places_nR.flatten()
                start_gradient.index_add_(0, places, (slope_nRR @ tile.end_nRH).flatten(0, 1))
                end_gradient.index_add_(0, places, (slope_nRR.mT @ tile.start_nRH).flatten(0, 1))
            slope_P1 = (positives.weight_P * -gradient).unsqueeze(1)
            start_gradient.index_add_(0, positives.start_P, slope_P1 * end_TH[positives.end_P])
            end_gradient.index_add_(0, positives.end_P, slope_P1 * start_TH[positives.start_P])
        return start_gradient.to(start_TH.dtype), end_gradient.to(end_TH.dtype), None, None, None, None, None
