"""Records of benchmarks as ids, places and labels, and batches of them: what fine-tuning and prediction read.

Shapes: N sequences, T tokens of a packed batch, A answers, W words, K candidates. A feature's places count from the
start of its own sequence, a batch's are indices into T; an answer is its first and LAST token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from schemas.errors import InputError
from training.data.batches import Movable, Packed, WaeBatch, numbers, pack, shifted


class MrcWindow(NamedTuple):
    """A query and as much of its context as fits: `<s> query </s></s> piece </s>`. Long contexts give several, which
    overlap."""

    id: str  # for messages: the record's; ":LOC" after it where the query asks for a label, "+1" in later windows
    record: int  # its place among the records
    label: str | None  # what the query asks for (mPMR, table 6)
    ids: np.ndarray  # int32
    query: tuple[int, int]  # [start, end), without special tokens
    context: tuple[int, int]  # [start, end) of the piece, without special tokens
    que: int  # the place of [QUE]; 0 where the query has none
    answers: tuple[tuple[int, int], ...]  # distinct, in the record's order; those that lie in this piece whole
    answerable: bool  # what the [CLS] of mPMR learns; answers make it true, and so may a pair's label
    starts: np.ndarray  # int32, one for each token of the piece: where it begins in the record's context, code points
    ends: np.ndarray  # int32: where it ends; as long as `starts`
    notes: tuple[str, ...] = ()
    candidates: tuple[tuple[int, int], ...] = ()  # Z by rank, with the first answer among them (two-stage training)


class TagWindow(NamedTuple):
    """A sentence, or as much of it as fits: `<s> words </s>`."""

    id: str
    record: int
    ids: np.ndarray  # int32
    words: tuple[int, ...]  # W: which words of the record; those without a token are left out
    places: tuple[int, ...]  # W: the first token of each
    labels: tuple[int, ...]  # W: its tag's number; empty where the record has no tags
    notes: tuple[str, ...] = ()


class PairFeatures(NamedTuple):
    """Two sentences: `<s> first </s></s> second </s>`."""

    id: str
    record: int
    ids: np.ndarray  # int32
    label: int  # its number; -1 where the record has none
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MrcBatch(WaeBatch):
    """Windows. `answer_*_A` are all answers (mPMR); `gold_*_N` the first answer of each window, or its [CLS]."""

    query_N2: Tensor  # [start, end)
    que_N: Tensor  # place of [QUE], or of [CLS] where there is none
    gold_start_N: Tensor
    gold_end_N: Tensor  # LAST token
    candidate_start_NK: Tensor  # -1 beyond a window's own; K is 0 where no method wants them
    candidate_end_NK: Tensor  # LAST token; likewise


@dataclass(frozen=True)
class TagBatch(Movable):
    inputs: Packed
    words_W: Tensor  # place of each word's first token
    labels_W: Tensor  # -1 where the record has no tags
    sequence_W: Tensor  # which sequence it is in
    example_ids: tuple[str, ...]  # N


@dataclass(frozen=True)
class PairBatch(Movable):
    inputs: Packed
    labels_N: Tensor  # -1 where the record has none
    example_ids: tuple[str, ...]  # N


def number_of(name: str, numbers: Mapping[str, int], record: str, what: str) -> int:
    """The number of a record's tag or label. Raises `InputError` if the task has no such."""
    if name not in numbers:
        raise InputError(
            f"{record}: expected a {what} of {', '.join(numbers)}, found {name}. Choose the --task whose labels the "
            "file has"
        )
    return numbers[name]


def mrc_batch(windows: Sequence[MrcWindow]) -> MrcBatch:
    inputs = pack([each.ids for each in windows])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([each.answers for each in windows], starts, 2)
    gold = shifted([each.answers[:1] or [(0, 0)] for each in windows], starts, 2)
    most = max((len(each.candidates) for each in windows), default=0)
    candidates = np.full((len(windows), most, 2), -1, np.int64)
    for row, (window, start) in enumerate(zip(windows, starts, strict=True)):
        if window.candidates:
            candidates[row, : len(window.candidates)] = np.array(window.candidates) + start
    return MrcBatch(
        inputs=inputs,
        context_N2=shifted([[each.context] for each in windows], starts, 2),
        answer_start_A=answers[:, 0],
        answer_end_A=answers[:, 1],
        sequence_A=numbers([each.answers for each in windows]),
        answerable_N=torch.tensor([each.answerable for each in windows], dtype=torch.bool),
        example_ids=tuple(each.id for each in windows),
        query_N2=shifted([[each.query] for each in windows], starts, 2),
        que_N=shifted([[each.que] for each in windows], starts, 1).squeeze(1),
        gold_start_N=gold[:, 0],
        gold_end_N=gold[:, 1],
        candidate_start_NK=torch.from_numpy(candidates[:, :, 0].copy()),
        candidate_end_NK=torch.from_numpy(candidates[:, :, 1].copy()),
    )


def tag_batch(windows: Sequence[TagWindow]) -> TagBatch:
    inputs = pack([each.ids for each in windows])
    starts = inputs.bounds_N1[:-1].tolist()
    labels = [each.labels or (-1,) * len(each.words) for each in windows]
    return TagBatch(
        inputs=inputs,
        words_W=shifted([each.places for each in windows], starts, 1).squeeze(1),
        labels_W=shifted(labels, [0] * len(windows), 1).squeeze(1),
        sequence_W=numbers([each.places for each in windows]),
        example_ids=tuple(each.id for each in windows),
    )


def pair_batch(pairs: Sequence[PairFeatures]) -> PairBatch:
    return PairBatch(
        inputs=pack([each.ids for each in pairs]),
        labels_N=torch.tensor([each.label for each in pairs], dtype=torch.int64),
        example_ids=tuple(each.id for each in pairs),
    )
