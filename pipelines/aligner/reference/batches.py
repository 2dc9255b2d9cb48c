"""Batches sentence pairs of similar lengths into arrays, for the vectorised steps.

Shapes, here and in the other modules: B pairs of a batch, I source words, J target words, both padded; N distinct pairs
of words in the batch; W words and S stems of the vocabulary. A *cell* is one source word beside one target word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
EncodedPair = tuple[list[int], list[int]]

BATCH_CELLS = 1 << 17  # of a square table by the longer side: about 1 MiB, which the processor's cache holds
_SHIFT = 32


def key(source: Ints, target: Ints) -> Ints:
    """Combines two numbers into one integer."""
    return (source << _SHIFT) + target


def key_parts(keys: Ints) -> tuple[Ints, Ints]:
    return keys >> _SHIFT, keys & ((1 << _SHIFT) - 1)


class Batch(NamedTuple):
    """A batch: `positions` are the indices of its pairs in the batched list. Padding has the word number 0."""

    positions: list[int]
    source_IB: Ints
    target_JB: Ints
    source_lengths_B: Ints
    target_lengths_B: Ints
    source_N: Ints  # the distinct pairs of words, ascending
    target_N: Ints
    pair_IJB: Ints  # which of them a cell holds
    is_cell_IJB: NDArray[np.bool_]  # False on padding

    def reversed(self) -> Batch:
        """Returns the same pairs with source and target exchanged."""
        return Batch(
            self.positions,
            self.target_JB,
            self.source_IB,
            self.target_lengths_B,
            self.source_lengths_B,
            self.target_N,
            self.source_N,
            self.pair_IJB.swapaxes(0, 1),
            self.is_cell_IJB.swapaxes(0, 1),
        )


def batch_positions(lengths: Sequence[tuple[int, int]], max_words: int) -> Iterator[list[int]]:
    """Groups by length the positions of pairs that have 1 to `max_words` words on both sides."""
    order = sorted(
        (position for position, sides in enumerate(lengths) if min(sides) > 0 and max(sides) <= max_words),
        key=lambda position: (max(lengths[position]), lengths[position]),
    )
    group: list[int] = []
    for position in order:
        if group and max(lengths[position]) ** 2 * (len(group) + 1) > BATCH_CELLS:
            yield group
            group = []
        group.append(position)
    if group:
        yield group


def make_batch(pairs: Sequence[EncodedPair], positions: list[int]) -> Batch:
    # Never one pair alone: NumPy adds up an axis of a batch of one in another order, and so to another last bit.
    B = max(2, len(positions))
    source_IB = np.zeros((max(len(pairs[position][0]) for position in positions), B), np.int64)
    target_JB = np.zeros((max(len(pairs[position][1]) for position in positions), B), np.int64)
    source_lengths_B, target_lengths_B = np.zeros(B, np.int64), np.zeros(B, np.int64)
    for b, position in enumerate(positions):
        source, target = pairs[position]
        source_lengths_B[b], target_lengths_B[b] = len(source), len(target)
        source_IB[: len(source), b] = source
        target_JB[: len(target), b] = target
    keys_IJB = key(source_IB[:, None, :], target_JB[None, :, :])
    keys_N, pair_of_cell = np.unique(keys_IJB, return_inverse=True)
    is_source_IB = np.arange(len(source_IB))[:, None] < source_lengths_B
    is_target_JB = np.arange(len(target_JB))[:, None] < target_lengths_B
    return Batch(
        positions,
        source_IB,
        target_JB,
        source_lengths_B,
        target_lengths_B,
        *key_parts(keys_N),
        pair_of_cell.reshape(keys_IJB.shape),
        is_source_IB[:, None, :] & is_target_JB[None, :, :],
    )
