"""A sample of bounded size, drawn by hash: the same whatever reads the records, in however many pieces."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record")


def sample_by_hash(
    records: Iterable[Record],
    size: int,
    seed: int,
    identity: Callable[[Record], str],
    add: Callable[[Record], bool],
    keep: Callable[[NDArray[np.int64]], None],
) -> None:
    """Has the `size` records stored whose hash of (seed, identity) comes first, in the records' order.

    `add` stores a record behind those stored before, or returns False: it is none to choose from. `keep` drops all
    that are stored but the given rows, which ascend. `size` is 1 or more. `add` is called only while the hash may be
    among the first; at no time is more stored than the sample and a quarter.
    """
    hashes = array("Q")  # of what is stored
    bound = 1 << 64  # whatever hashes to this or more is behind `size` others

    def shrink() -> int:
        rows = np.sort(np.argsort(np.frombuffer(hashes, np.uint64), kind="stable")[:size])  # of equal ones the first
        kept = np.frombuffer(hashes, np.uint64)[rows]
        hashes[:] = array("Q", kept.tobytes())
        keep(rows)
        return int(kept.max())

    for record in records:
        hash_ = _hash(seed, identity(record))
        if hash_ < bound and add(record):
            hashes.append(hash_)
            if len(hashes) > size + size // 4:
                bound = shrink()
    if len(hashes) > size:
        shrink()


def _hash(seed: int, identity: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{identity}".encode(), digest_size=8).digest(), "big")
