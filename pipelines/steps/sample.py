"""A sample of bounded size, drawn by hash: the same whatever reads the records, in however many pieces."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

Record = TypeVar("Record")
Kept = TypeVar("Kept")


def sample_by_hash(
    records: Iterable[Record],
    size: int,
    seed: int,
    identity: Callable[[Record], str],
    make: Callable[[Record], Kept | None],
) -> list[Kept]:
    """What `make` makes of the `size` records whose hash of (seed, identity) comes first, in the records' order.

    A record of which it makes None is none to choose from; `size` is 1 or more. `make` is called only where the
    hash comes before those of `size` others, and no more than `size` results are kept at a time.
    """
    kept: list[tuple[int, int, Kept]] = []  # a heap, the last of the sample on top: (-hash, -position, result)
    for position, record in enumerate(records):
        rank = (-_hash(seed, identity(record)), -position)
        if len(kept) == size and rank < kept[0][:2]:
            continue
        result = make(record)
        if result is not None:
            (heapq.heappush if len(kept) < size else heapq.heapreplace)(kept, (*rank, result))
    return [result for _, _, result in sorted(kept, key=lambda item: -item[1])]


def _hash(seed: int, identity: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{identity}".encode(), digest_size=8).digest(), "big")
