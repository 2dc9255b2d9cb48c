"""Packs features as tensors, one sequence after another, so that no step computes padding.

Shapes: N sequences, T tokens of a packed batch, Q questions, A answers, M masked tokens, L tokens of the longest
sequence. Every position is an index into T. Three sequences of 3, 2 and 4 tokens:

    T               0    1    2  │ 3    4  │ 5    6    7    8
    ids_T           <s>  a   </s>│<s> </s> │<s>   b    c   </s>
    positions_T     0    1    2  │ 0    1  │ 0    1    2    3
    bounds_N1       0              3         5                   9

The feature's position 2 of the third sequence ("c") becomes 5 + 2 = 7 in T (`shifted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    """A dataclass of tensors that move together to a device or into pinned memory."""

    def to(self: _B, device: torch.device | str) -> _B:
        """Copies it to `device`, asynchronously if it is in pinned memory."""
        return _each(self, Tensor, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self: _B) -> _B:
        """Copies it into pinned memory, from which a GPU can copy while other work goes on."""
        return _each(self, Tensor, Tensor.pin_memory)


@dataclass(frozen=True)
class Packed(Movable):
    """N sequences of T tokens in all, one after another, for one pass of the encoder."""

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
        """Returns ids_NL, and mask_NL that is true at tokens, the form that Hugging Face's models expect."""
        mask_NL = torch.arange(self.longest, device=self.ids_T.device) < self.bounds_N1.diff().unsqueeze(1)
        ids_NL = self.ids_T.new_full(mask_NL.shape, pad_id)
        ids_NL[mask_NL] = self.ids_T
        return ids_NL, mask_NL


@dataclass(frozen=True)
class ClismBatch(Movable):
    """A micro-batch for CLISM, CACR and MLM (CLISM, 3.1 to 3.3): one pass over `inputs`, one over `sources`."""

    inputs: Packed  # <s> masked source </s></s> target </s>, with the tokens that MLM changed
    sources: Packed  # <s> source </s>, unmasked
    que_Q: Tensor  # position of each [QUE]
    sequence_Q: Tensor  # index of its sequence in N
    answer_start_Q: Tensor
    answer_end_Q: Tensor  # the answer's LAST token
    source_N2: Tensor  # [start, end) of the masked source, without special tokens
    target_N2: Tensor  # [start, end) of the target, without special tokens
    source_only_N2: Tensor  # [start, end) of the source in the T of `sources`, without special tokens
    masked_M: Tensor  # positions whose original tokens MLM predicts
    labels_M: Tensor  # ids of those tokens
    example_ids: tuple[str, ...]  # N


@dataclass(frozen=True)
class WaeBatch(Movable):
    """A micro-batch for Wiki Anchor Extraction (mPMR, 2.1)."""

    inputs: Packed  # <s> query </s></s> context </s>
    context_N2: Tensor  # [start, end) of the context, without special tokens
    longest_context: int  # tokens
    answer_start_A: Tensor
    answer_end_A: Tensor  # the answer's LAST token
    sequence_A: Tensor  # index of its sequence in N
    answerable_N: Tensor  # bool
    example_ids: tuple[str, ...]  # N


def pack(sequences: Sequence[Sequence[int] | np.ndarray]) -> Packed:
    """Packs sequences of token ids. There may be none, if all rows of a share were refused."""
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
    """Makes a micro-batch; `masked` has each example after MLM's masking (`training.data.masking.mask_tokens`)."""
    inputs = pack([example.ids for example in masked])
    sources = pack([example.source_only for example in features])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([example.answers for example in features], starts, 2)
    return ClismBatch(
        inputs=inputs,
        sources=sources,
        que_Q=shifted([example.que for example in features], starts, 1).squeeze(1),
        sequence_Q=numbers([example.que for example in features]),
        answer_start_Q=answers[:, 0],
        answer_end_Q=answers[:, 1],
        source_N2=shifted([[example.source] for example in features], starts, 2),
        target_N2=shifted([[example.target] for example in features], starts, 2),
        # without the <s> and </s> around the source
        source_only_N2=torch.stack([sources.bounds_N1[:-1] + 1, sources.bounds_N1[1:] - 1], dim=1).long(),
        masked_M=shifted([example.places for example in masked], starts, 1).squeeze(1),
        labels_M=shifted([example.labels for example in masked], [0] * len(masked), 1).squeeze(1),
        example_ids=tuple(example.id for example in features),
    )


def wae_batch(features: Sequence[WaeFeatures]) -> WaeBatch:
    """Makes a micro-batch."""
    inputs = pack([example.ids for example in features])
    starts = inputs.bounds_N1[:-1].tolist()
    answers = shifted([example.answers for example in features], starts, 2)
    return WaeBatch(
        inputs=inputs,
        context_N2=shifted([[example.context] for example in features], starts, 2),
        longest_context=longest_of([example.context for example in features]),
        answer_start_A=answers[:, 0],
        answer_end_A=answers[:, 1],
        sequence_A=numbers([example.answers for example in features]),
        answerable_N=torch.tensor([example.answerable for example in features], dtype=torch.bool),
        example_ids=tuple(example.id for example in features),
    )


def shifted(lists: Sequence[Sequence[Any] | np.ndarray], starts: Sequence[int], width: int) -> Tensor:
    """Turns positions within each sequence into positions in T. Returns all lists joined, as (positions, width).

    lists [[1], [0, 2]], starts [0, 3], width 1  →  [[1], [3], [5]]
    """
    in_T = [np.asarray(own, np.int64).reshape(-1, width) + start for own, start in zip(lists, starts, strict=True)]
    return torch.from_numpy(np.concatenate(in_T) if in_T else np.empty((0, width), np.int64))


def longest_of(spans: Iterable[tuple[int, int]]) -> int:
    """Returns the most tokens of a span [start, end); 0 if there is none."""
    return max((end - start for start, end in spans), default=0)


def numbers(lists: Sequence[Sequence[Any]]) -> Tensor:
    """Returns for each item of the joined lists the index of its list: [[1], [0, 2]] → [0, 1, 1]."""
    return torch.from_numpy(np.repeat(np.arange(len(lists)), list(map(len, lists))))


def as_arrays(batch: Any) -> Any:
    """Returns the batch with arrays instead of tensors, for the way out of a worker process.

    Each tensor would need a file descriptor and a piece of shared memory, which are scarce.
    """
    return _each(batch, Tensor, Tensor.numpy)


def as_tensors(batch: Any) -> Any:
    """Undoes `as_arrays`."""
    return _each(batch, np.ndarray, torch.from_numpy)


def _each(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to all values of `kind` in `value`, also in nested dataclasses and tuples."""
    if isinstance(value, kind):
        return change(value)
    if type(value) is tuple:
        return tuple(_each(item, kind, change) for item in value)
    if isinstance(value, Movable):
        return type(value)(**{field.name: _each(getattr(value, field.name), kind, change) for field in fields(value)})
    return value
