"""The spans that scores speak for, against all pairs one after another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.objectives import wae_spans
from training.objectives.wae import cls_scores
from training.objectives.wae_spans import best_spans, likely_spans


def window(query: int, context: int) -> MrcWindow:
    ids = np.zeros(query + context + 4, np.int32)
    nothing = np.zeros(context, np.int32)
    return MrcWindow(
        "w", 0, None, ids, (1, 1 + query), (query + 3, query + 3 + context), 0, (), False, nothing, nothing
    )


def all_spans(start_TH: Tensor, end_TH: Tensor, windows: Sequence[MrcWindow], longest: int) -> list[list[tuple]]:
    """(−S, first, last) of each window, best first, one pair after another."""
    found, base = [], 0
    for each in windows:
        places = range(*each.context)
        spans = [
            (-float(start_TH[base + i] @ end_TH[base + j]), i, j)
            for i in places
            for j in places
            if 0 <= j - i < longest
        ]
        found.append(sorted(spans))
        base += len(each.ids)
    return found


@st.composite
def factors(draw: st.DrawFn) -> tuple[list[MrcWindow], MrcBatch, Tensor, Tensor]:
    """Whole numbers, so that scores are exact and many are equal."""
    windows = [window(*each) for each in draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), max_size=5))]
    batch = mrc_batch(windows)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9)))
    start_TH, end_TH = (torch.randint(-2, 3, (batch.inputs.tokens, 3), generator=generator).float() for _ in range(2))
    return windows, batch, start_TH, end_TH


@given(factors(), st.integers(1, 12), st.integers(1, 7), st.sampled_from([1, 50, wae_spans.TILE]))
def test_best_and_likely_spans_are_those_of_all_pairs(
    given: tuple[list[MrcWindow], MrcBatch, Tensor, Tensor], most: int, longest: int, tile: int
) -> None:
    windows, batch, start_TH, end_TH = given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wae_spans, "TILE", tile)
        best = best_spans(start_TH, end_TH, batch, most, longest)
        likely = likely_spans(start_TH, end_TH, batch, 0.8, longest)

    expected = all_spans(start_TH, end_TH, windows, longest)
    assert len(best.score_NK) == len(likely) == len(windows)
    for row, spans in enumerate(expected):
        rows = list(zip(*(each[row].tolist() for each in best), strict=True))
        own = [(first, last, score) for first, last, score in rows if first >= 0]
        assert own == [(i, j, -score) for score, i, j in spans[:most]]
        assert rows[len(own) :] == [(-1, -1, -math.inf)] * (most - len(own))
        assert list(zip(*(each.tolist() for each in likely[row]), strict=True)) == [
            (i, j, -score)
            for score, i, j in sorted(spans, key=lambda each: each[1:])
            if 1 / (1 + math.exp(score)) > 0.8
        ]
    firsts = batch.inputs.bounds_N1[:-1].tolist()
    assert cls_scores(start_TH, end_TH, batch).tolist() == [float(start_TH[at] @ end_TH[at]) for at in firsts]
