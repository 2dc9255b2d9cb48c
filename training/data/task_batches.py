"""The features of fine-tuning and prediction (token ids, positions and labels of one sequence), and batches of them.

Shapes: N sequences, T tokens of a packed batch, A answers, W words, K candidates. Positions in a feature count from the
start of its sequence; positions in a batch are indices into T. An answer is its first and LAST token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from schemas.errors import InputError
from training.data.batches import Movable, Packed, WaeBatch, longest_of, numbers, pack, shifted


class MrcWindow(NamedTuple):
    """A query and a piece of its context: `<s> query </s></s> piece </s>`."""

    id: str  # for messages: the record's; ":LOC" after it where the query asks for a label, "+1" in later windows
    record: int  # index of the record
    label: str | None  # the label that the query asks for (mPMR, table 6)
    ids: np.ndarray  # int32
    query: tuple[int, int]  # [start, end), without special tokens
    context: tuple[int, int]  # [start, end) of the piece, without special tokens
    que: int  # position of [QUE]; 0 if the query has none
    answers: tuple[tuple[int, int], ...]  # the distinct answers that this piece holds whole, in the record's order
    answerable: bool  # label of mPMR's [CLS]: true if there are answers, or if the pair has the query's label
    starts: np.ndarray  # int32, start of each token of the piece in the record's context, in code points
    ends: np.ndarray  # int32, end of each token
    notes: tuple[str, ...] = ()
    candidates: tuple[tuple[int, int], ...] = ()  # Z by rank, with the first answer among them (two-stage training)
    labelled: bool = True  # False: whether and where the piece answers the query is unknown

    def without_labels(self) -> MrcWindow:
        return self._replace(answers=(), answerable=False, labelled=False)


class TagWindow(NamedTuple):
    """A sentence or a piece of it: `<s> words </s>`."""

    id: str
    record: int
    ids: np.ndarray  # int32
    words: tuple[int, ...]  # W: indices of the record's words; those without a token are left out
    places: tuple[int, ...]  # W: position of each word's first token
    labels: tuple[int, ...]  # W: number of each word's tag; empty if the record has no tags
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        return bool(self.labels)

    def without_labels(self) -> TagWindow:
        return self._replace(labels=())


class PairFeatures(NamedTuple):
    """Two sentences: `<s> first </s></s> second </s>`."""

    id: str
    record: int
    ids: np.ndarray  # int32
    label: int  # number of the label; -1 if the record has none
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        return self.label >= 0

    def without_labels(self) -> PairFeatures:
        return self._replace(label=-1)


@dataclass(frozen=True)
class MrcBatch(WaeBatch):
    """A batch of windows. `answer_*_A` are all answers (mPMR); `gold_*_N` is each window's first answer or [CLS], and
    -1 where the answer is unknown."""

    query_N2: Tensor  # [start, end)
    que_N: Tensor  # position of [QUE], or of [CLS] if there is none
    gold_start_N: Tensor
    gold_end_N: Tensor  # LAST token
    candidate_start_NK: Tensor  # -1 beyond a window's own candidates; K is 0 except in two-stage training
    candidate_end_NK: Tensor  # LAST token; likewise


@dataclass(frozen=True)
class TagBatch(Movable):
    inputs: Packed
    words_W: Tensor  # position of each word's first token
    labels_W: Tensor  # -1 if the record has no tags
    sequence_W: Tensor  # each word's sequence
    example_ids: tuple[str, ...]  # N


@dataclass(frozen=True)
class PairBatch(Movable):
    inputs: Packed
    labels_N: Tensor  # -1 if the record has none
    example_ids: tuple[str, ...]  # N


def number_of(name: str, numbers: Mapping[str, int], record: str, what: str) -> int:
    """Returns the number of a record's tag or label. Raises `InputError` if the task does not have it."""
    if name not in numbers:
        raise InputError(
            f"{record}: expected a {what} of {', '.join(numbers)}, found {name}. Choose the --task whose labels the "
            "file has"
        )
    return numbers[name]


def mrc_batch(windows: Sequence[MrcWindow]) -> MrcBatch:
    inputs = pack([window.ids for window in windows])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([window.answers for window in windows], starts, 2)
    gold = shifted([window.answers[:1] or [(0, 0)] for window in windows], starts, 2)
    gold[torch.tensor([not window.labelled for window in windows], dtype=torch.bool)] = -1
    most = max((len(window.candidates) for window in windows), default=0)
    candidates = np.full((len(windows), most, 2), -1, np.int64)
    for row, (window, start) in enumerate(zip(windows, starts, strict=True)):
        if window.candidates:
            candidates[row, : len(window.candidates)] = np.array(window.candidates) + start
    return MrcBatch(
        inputs=inputs,
        context_N2=shifted([[window.context] for window in windows], starts, 2),
        longest_context=longest_of([window.context for window in windows]),
        answer_start_A=answers[:, 0],
        answer_end_A=answers[:, 1],
        sequence_A=numbers([window.answers for window in windows]),
        answerable_N=torch.tensor([window.answerable for window in windows], dtype=torch.bool),
        example_ids=tuple(window.id for window in windows),
        query_N2=shifted([[window.query] for window in windows], starts, 2),
        que_N=shifted([[window.que] for window in windows], starts, 1).squeeze(1),
        gold_start_N=gold[:, 0],
        gold_end_N=gold[:, 1],
        candidate_start_NK=torch.from_numpy(candidates[:, :, 0].copy()),
        candidate_end_NK=torch.from_numpy(candidates[:, :, 1].copy()),
    )


def tag_batch(windows: Sequence[TagWindow]) -> TagBatch:
    inputs = pack([window.ids for window in windows])
    starts = inputs.bounds_N1[:-1].tolist()
    labels = [window.labels or (-1,) * len(window.words) for window in windows]
    return TagBatch(
        inputs=inputs,
        words_W=shifted([window.places for window in windows], starts, 1).squeeze(1),
        labels_W=shifted(labels, [0] * len(windows), 1).squeeze(1),
        sequence_W=numbers([window.places for window in windows]),
        example_ids=tuple(window.id for window in windows),
    )


def pair_batch(pairs: Sequence[PairFeatures]) -> PairBatch:
    return PairBatch(
        inputs=pack([pair.ids for pair in pairs]),
        labels_N=torch.tensor([pair.label for pair in pairs], dtype=torch.int64),
        example_ids=tuple(pair.id for pair in pairs),
    )
