"""Reads and writes the file of a trained aligner: three lines of text, then arrays. Nothing in it is executed.

polyspan-aligner/2
9f…                                                     BLAKE2b of all that follows
{"arrays": {"words": ["|u1", [1200]], …}, "config": {…}, …}
the arrays' bytes, in that order, little-endian, each after zeros up to the next multiple of 64
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import InputError

_NAME, _VERSION = "polyspan-aligner", 2
_START = f"{_NAME}/{_VERSION}\n".encode()
_ALIGNMENT = 64
_DIGEST_BYTES = 16
_MAX_HEADER_BYTES = 1 << 20

Arrays = Mapping[str, NDArray[Any]]


class Content(NamedTuple):
    arrays: Arrays
    about: dict[str, Any]  # the rest of the header, as JSON has it


def write(file: BinaryIO, content: Content) -> None:
    file.write(_START + checksum(content).encode() + b"\n")
    for part in _parts(content):
        file.write(part)


def checksum(content: Content) -> str:
    """Returns the checksum of the file's content, in hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in _parts(content):
        digest.update(part)
    return digest.hexdigest()


def _parts(content: Content) -> Iterator[bytes | memoryview]:
    """Yields what follows the second line of the file."""
    arrays = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in content.arrays.items()
    }
    described = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = json.dumps({**content.about, "arrays": described}).encode() + b"\n"
    yield header
    offset = len(_START) + 2 * _DIGEST_BYTES + 1 + len(header)
    for array in arrays.values():
        yield bytes(-offset % _ALIGNMENT)
        yield array.reshape(-1).view(np.uint8).data
        offset += -offset % _ALIGNMENT + array.nbytes


def read(path: str, copy: bool | None = None) -> bytes | mmap.mmap:
    """Reads a file's bytes: mapped, so that all processes that read it share the memory, or copied.

    If a mapped file is truncated, the processes that read it are killed; if it is overwritten, they read wrong data. So
    `copy=None` maps only a regular local file that this user owns and that nobody else may write.
    """
    try:
        with open(path, "rb") as file:
            if not copy and (copy is False or _is_ours(file.fileno())):
                with suppress(OSError, ValueError):  # a pipe, empty
                    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            start = file.read(_ALIGNMENT)
            return start + file.read() if start.startswith(_NAME.encode()) else start  # what may never end is no model
    except (OSError, MemoryError) as error:
        why = "too large for this machine's memory" if isinstance(error, MemoryError) else error.strerror or error
        raise InputError(f"{path}: the aligner's model cannot be read: {why}.") from None


def _is_ours(file: int) -> bool:
    """Returns whether the open file is a regular one, and only this user may write to it."""
    about = os.fstat(file)
    ours = not hasattr(os, "geteuid") or about.st_uid == os.geteuid()
    return ours and stat.S_ISREG(about.st_mode) and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def decode(data: bytes | mmap.mmap, where: str, expected_types: Mapping[str, str]) -> Content:
    """Decodes the content; its arrays are views of `data`. Raises `InputError` for a wrong, newer or altered file."""
    first = data[:_ALIGNMENT].partition(b"\n")[0]
    name, _, version = first.decode("utf-8", "replace").partition("/")
    if name != _NAME:
        raise InputError(f"{where}: expected a word aligner's model, found a file that starts with {first[:20]!r}.")
    if version != str(_VERSION):
        shown = version if version.isdecimal() else repr(version)
        newer = version.isdecimal() and int(version) > _VERSION
        raise InputError(
            f"{where}: expected a word aligner's model of version {_VERSION}, found version {shown}. "
            + ("Install a newer Polyspan, or train it again." if newer else "Train it again.")
        )
    header_start = len(_START) + 2 * _DIGEST_BYTES + 1
    header_end = data.find(b"\n", header_start, header_start + _MAX_HEADER_BYTES) + 1
    found = hashlib.blake2b(memoryview(data)[header_start:], digest_size=_DIGEST_BYTES).hexdigest()
    if not header_end or data[len(_START) : header_start] != found.encode() + b"\n":
        raise InputError(f"{where}: the aligner's model is truncated or altered. Copy it afresh, or train it again.")
    try:
        about = json.loads(data[header_start:header_end])
        if not isinstance(about, dict):
            raise ValueError("its header is no object")
        return Content(_arrays(data, header_end, about.pop("arrays", None), expected_types), about)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a whole number of a million digits …
        why = "its header is nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(
            f"{where}: this aligner's model does not hold what it should: {why}. Train it again."
        ) from None


def _arrays(data: bytes | mmap.mmap, offset: int, described: object, expected_types: Mapping[str, str]) -> Arrays:
    """Returns the arrays that the header describes, from byte `offset` on. Raises `ValueError` if they do not fit."""
    if not isinstance(described, dict) or described.keys() != expected_types.keys():
        raise ValueError(f"expected the arrays {', '.join(expected_types)}")
    arrays: dict[str, NDArray[Any]] = {}
    for name, about in described.items():
        shape = about[1] if isinstance(about, list) and len(about) == 2 and about[0] == expected_types[name] else None
        if not isinstance(shape, list) or not 1 <= len(shape) <= 3 or not all(map(_is_size, shape)):
            raise ValueError(f"arrays.{name}: expected numbers of type {expected_types[name]} and how many")
        offset += -offset % _ALIGNMENT
        dtype, count = np.dtype(expected_types[name]), math.prod(shape)
        if offset + count * dtype.itemsize > len(data):
            raise ValueError(f"arrays.{name} does not end where the file does")
        arrays[name] = np.frombuffer(data, dtype, count, offset).reshape(shape)
        offset += arrays[name].nbytes
    if offset != len(data):
        raise ValueError("it goes on behind its arrays")
    return arrays


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48
