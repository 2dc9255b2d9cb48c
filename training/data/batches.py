"""Batches: features as tensors, sequences packed one after another so that no step computes padding.

Shapes: N sequences, T tokens of a packed batch, Q questions, A answers, M masked tokens, L the longest sequence.
Every place is an index into T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from training.data.features import ClismFeatures, WaeFeatures
    from training.data.masking import Masked

_B = TypeVar("_B")


@dataclass(frozen=True)
class Movable:
    """Dataclasses of tensors that go to a device, or into pinned memory, as one."""

    def to(self: _B, device: torch.device | str) -> _B:
        """The same on `device`. Asynchronous if it comes from pinned memory."""
        return _each(self, Tensor, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self: _B) -> _B:
        """The same where a GPU can fetch it from while other work goes on."""
        return _each(self, Tensor, Tensor.pin_memory)


@dataclass(frozen=True)
class Packed(Movable):
    """N sequences, one after another, T tokens in all: one pass of the encoder."""

    ids_T: Tensor  # int64
    positions_T: Tensor  # int64: 0, 1, 2 … within each sequence; the encoder adds its own offset
    bounds_N1: Tensor  # int32, N + 1 of them: sequence n is ids_T[bounds_N1[n] : bounds_N1[n + 1]]
    longest: int  # tokens

    @property
    def sequences(self) -> int:
        """N."""
        return self.bounds_N1.numel() - 1

    @property
    def tokens(self) -> int:
        """T."""
        return self.ids_T.numel()

    def padded(self, pad_id: int) -> tuple[Tensor, Tensor]:
        """ids_NL, and mask_NL that is true at tokens: the form that Hugging Face's models expect."""
        mask_NL = torch.arange(self.longest, device=self.ids_T.device) < self.bounds_N1.diff().unsqueeze(1)
        ids_NL = self.ids_T.new_full(mask_NL.shape, pad_id)
        ids_NL[mask_NL] = self.ids_T
        return ids_NL, mask_NL


@dataclass(frozen=True)
class ClismBatch(Movable):
    """What a step of CLISM, CACR and MLM reads (CLISM, 3.1 to 3.3): one pass over `inputs`, one over `sources`."""

    inputs: Packed  # <s> masked source </s></s> target </s>, with the tokens that MLM changed
    sources: Packed  # <s> source </s>, unmasked
    que_Q: Tensor  # place of each [QUE]
    sequence_Q: Tensor  # which sequence it is in
    answer_start_Q: Tensor
    answer_end_Q: Tensor  # the answer's LAST token
    source_N2: Tensor  # [start, end) of the masked source, without special tokens
    target_N2: Tensor  # [start, end) of the target, without special tokens
    source_only_N2: Tensor  # [start, end) of the source in the T of `sources`, without special tokens
    masked_M: Tensor  # places whose original tokens MLM predicts
    labels_M: Tensor  # those tokens
    example_ids: tuple[str, ...]  # N


@dataclass(frozen=True)
class WaeBatch(Movable):
    """What a step of Wiki Anchor Extraction reads (mPMR, 2.1)."""

    inputs: Packed  # <s> query </s></s> context </s>
    context_N2: Tensor  # [start, end) of the context, without special tokens
    answer_start_A: Tensor
    answer_end_A: Tensor  # the answer's LAST token
    sequence_A: Tensor  # which sequence it is in
    answerable_N: Tensor  # bool
    example_ids: tuple[str, ...]  # N


def pack(sequences: Sequence[Sequence[int] | np.ndarray]) -> Packed:
    """Sequences of token ids as one. There may be none: a share of a batch whose rows were all refused."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.concatenate([np.asarray(ids, np.int64) for ids in sequences]) if len(sequences) else np.empty(0, np.int64)
    positions = np.arange(len(ids)) - np.repeat(bounds[:-1], lengths)
    return Packed(
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        torch.from_numpy(bounds.astype(np.int32)),
        int(lengths.max(initial=0)),
    )


def clism_batch(features: Sequence[ClismFeatures], masked: Sequence[Masked]) -> ClismBatch:
    """One micro-batch; `masked` says what MLM does to each example (`training.data.masking.mask_tokens`)."""
    inputs = pack([each.ids for each in masked])
    sources = pack([each.source_only for each in features])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([each.answers for each in features], starts, 2)
    return ClismBatch(
        inputs=inputs,
        sources=sources,
        que_Q=shifted([each.que for each in features], starts, 1).squeeze(1),
        sequence_Q=numbers([each.que for each in features]),
        answer_start_Q=answers[:, 0],
        answer_end_Q=answers[:, 1],
        source_N2=shifted([[each.source] for each in features], starts, 2),
        target_N2=shifted([[each.target] for each in features], starts, 2),
        # <s> and </s> around it
        source_only_N2=torch.stack([sources.bounds_N1[:-1] + 1, sources.bounds_N1[1:] - 1], dim=1).long(),
        masked_M=shifted([each.places for each in masked], starts, 1).squeeze(1),
        labels_M=shifted([each.labels for each in masked], [0] * len(masked), 1).squeeze(1),
        example_ids=tuple(each.id for each in features),
    )


def wae_batch(features: Sequence[WaeFeatures]) -> WaeBatch:
    """One micro-batch."""
    inputs = pack([each.ids for each in features])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([each.answers for each in features], starts, 2)
    return WaeBatch(
        inputs=inputs,
        context_N2=shifted([[each.context] for each in features], starts, 2),
        answer_start_A=answers[:, 0],
        answer_end_A=answers[:, 1],
        sequence_A=numbers([each.answers for each in features]),
        answerable_N=torch.tensor([each.answerable for each in features], dtype=torch.bool),
        example_ids=tuple(each.id for each in features),
    )


def shifted(lists: Sequence[Sequence[Any] | np.ndarray], starts: Sequence[int], width: int) -> Tensor:
    """Places within each sequence as places in T: all lists joined, (places, width)."""
    joined = [np.asarray(each, np.int64).reshape(-1, width) + start for each, start in zip(lists, starts, strict=True)]
    return torch.from_numpy(np.concatenate(joined) if joined else np.empty((0, width), np.int64))


def numbers(lists: Sequence[Sequence[Any]]) -> Tensor:
    """The number of the sequence that each item of the joined lists comes from."""
    return torch.from_numpy(np.repeat(np.arange(len(lists)), [len(each) for each in lists]))


def as_arrays(batch: Any) -> Any:
    """The batch with arrays for tensors: how it leaves a worker process.

    Tensors would travel through a file descriptor and a piece of shared memory each, of which machines have too few.
    """
    return _each(batch, Tensor, Tensor.numpy)


def as_tensors(batch: Any) -> Any:
    """The batch that `as_arrays` was given."""
    return _each(batch, np.ndarray, torch.from_numpy)


def _each(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """`value`, with whatever it holds of `kind` changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, Movable):
        return type(value)(**{each.name: _each(getattr(value, each.name), kind, change) for each in fields(value)})
    return value
