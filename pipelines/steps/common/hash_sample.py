"""Bottom-k sampling: a sample of bounded size that depends only on the records and the seed."""

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
    """Keeps the `size` records with the smallest hash of (seed, identity), in input order. `size` is 1 or more.

    The caller stores the records. `add` appends a record to the store and returns True, or returns False to exclude the
    record from the sample. `keep` drops all stored records except the given rows, which are ascending. `add` is called
    only for records that may be in the sample; the store never holds more than 1.25 × `size` + 1 records.
    """
    hashes = array("Q")  # of the stored records
    bound = 1 << 64  # at least `size` records have a smaller hash

    def shrink() -> int:
        rows = np.sort(np.argsort(np.frombuffer(hashes, np.uint64), kind="stable")[:size])  # the first of equal hashes
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
