"""Finds the spans with the best scores of Wiki Anchor Extraction, for prediction (mPMR, 3).

N windows, T tokens of a packed batch, H size of the extractor's factors; n windows of a tile, R tokens of the longest
context among them, B the most tokens of a span, S starts, K best spans, P spans of all windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import at_least_fp32
from training.objectives.spans import TopSpans, k_best

if TYPE_CHECKING:
    from training.data.task_batches import MrcBatch

TILE = 1 << 23  # scores in memory at a time, unless one window has more


class LikelySpans(NamedTuple):
    """The spans of one window above the threshold. Positions count from the window's first token."""

    first_K: np.ndarray  # int64
    last_K: np.ndarray  # the LAST token's
    score_K: np.ndarray  # float32: S


def best_spans(
    start_TH: Tensor,
    end_TH: Tensor,
    batch: MrcBatch,
    most: int,
    longest: int,
    edges: tuple[Tensor, Tensor] | None = None,
) -> TopSpans:
    """Finds the `most` spans with the best S in each window's context, of at most `longest` tokens; scores are S. Among
    equal spans the earlier comes first, then the shorter. `edges`: begins_T and ends_T, true at the tokens where a span
    may begin or end; without, it may everywhere."""
    cls_N, context_N = batch.inputs.bounds_N1[:-1].long(), batch.context_N2[:, 0]
    shape = len(cls_N), most
    first_NK, last_NK = context_N.new_full(shape, -1), context_N.new_full(shape, -1)
    score_NK = torch.full(shape, -torch.inf, device=context_N.device)
    for chosen_n, scores_nRB in _tiles(start_TH, end_TH, batch, longest, edges):
        top = k_best(scores_nRB.amax(dim=2), partial(_from_starts, scores_nRB), most)
        offset_n1, none_nK = (context_N - cls_N)[chosen_n].unsqueeze(1), top.first_NK < 0
        first_NK[chosen_n] = (top.first_NK + offset_n1).masked_fill(none_nK, -1)
        last_NK[chosen_n] = (top.last_NK + offset_n1).masked_fill(none_nK, -1)
        score_NK[chosen_n] = top.score_NK.float()
    return TopSpans(first_NK, last_NK, score_NK)


def _from_starts(scores_nRB: Tensor, starts_nS: Tensor) -> Tensor:
    return scores_nRB.gather(1, starts_nS.unsqueeze(2).expand(-1, -1, scores_nRB.shape[2]))


def likely_spans(
    start_TH: Tensor, end_TH: Tensor, batch: MrcBatch, threshold: float, longest: int
) -> list[LikelySpans]:
    """Finds all spans in each window's context with σ(S) > `threshold` and at most `longest` tokens, the earlier
    first."""
    offsets_N = (batch.context_N2[:, 0] - batch.inputs.bounds_N1[:-1]).cpu().numpy()
    windows: list[Any] = [None] * len(offsets_N)
    for chosen_n, scores_nRB in _tiles(start_TH, end_TH, batch, longest):
        likely_nRB = scores_nRB.sigmoid() > threshold
        n_P, start_P, more_P = (index_P.cpu().numpy() for index_P in likely_nRB.nonzero(as_tuple=True))
        score_P = scores_nRB[likely_nRB].float().cpu().numpy()
        chosen = chosen_n.tolist()
        edges = np.searchsorted(n_P, np.arange(len(chosen) + 1))
        for row, window in enumerate(chosen):
            own = slice(edges[row], edges[row + 1])
            first = offsets_N[window] + start_P[own]
            windows[window] = LikelySpans(first, first + more_P[own], score_P[own])
    return windows


def _tiles(
    start_TH: Tensor, end_TH: Tensor, batch: MrcBatch, longest: int, edges: tuple[Tensor, Tensor] | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the numbers of windows with contexts of similar length, and scores_nRB of their spans: [:, i, b] is S of
    the span of b + 1 tokens from the context's token i, -inf if it ends beyond the context.

        scores_nRR  S00 S01 S02        scores_nRB, B = 2   S00 S01
                    S10 S11 S12                            S11 S12
                    S20 S21 S22                            S22 −inf
    """
    context_N = batch.context_N2[:, 0]
    lengths_N = batch.context_N2[:, 1] - context_N
    lengths = lengths_N.tolist()  # waits for the device
    left = sorted(range(len(lengths)), key=lengths.__getitem__)
    while left:
        rows = max(lengths[left[-1]], 1)
        count = min(max(1, TILE // rows**2), len(left))
        chosen_n = torch.tensor(left[-count:], device=context_N.device)
        del left[-count:]

        row_R = torch.arange(rows, device=context_N.device)
        places_nR = (context_N[chosen_n].unsqueeze(1) + row_R).clamp(max=len(start_TH) - 1)
        inside_nR = row_R < lengths_N[chosen_n].unsqueeze(1)
        width = min(longest, rows)
        with torch.autocast(start_TH.device.type, enabled=False):
            scores_nRR = at_least_fp32(start_TH[places_nR]) @ at_least_fp32(end_TH[places_nR]).mT
        scores_nRR = scores_nRR.masked_fill(~inside_nR.unsqueeze(1), -torch.inf)
        if edges:
            begins_T, ends_T = edges
            allowed_nRR = begins_T[places_nR].unsqueeze(2) & ends_T[places_nR].unsqueeze(1)
            scores_nRR = scores_nRR.masked_fill(~allowed_nRR, -torch.inf)
        # A view of row i from column i on: each row of the view begins columns + 1 values after the one above.
        padded = F.pad(scores_nRR, (0, width), value=-torch.inf)
        columns = rows + width
        yield chosen_n, padded.as_strided((count, rows, width), (rows * columns, columns + 1, 1))
