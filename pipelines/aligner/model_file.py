"""The file of a trained aligner: three lines of text, then arrays as they are used. Nothing in it is executed.

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
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.steps.files import open_raw
from pipelines.steps.paths import is_remote
from pipelines.steps.records import InputError

_NAME, _VERSION = "polyspan-aligner", 2
_START = f"{_NAME}/{_VERSION}\n".encode()
_ALIGNMENT = 64
_DIGEST_BYTES = 16

Arrays = Mapping[str, NDArray[Any]]


class Content(NamedTuple):
    arrays: Arrays
    about: dict[str, Any]  # the rest of the header, as JSON has it


def write(file: BinaryIO, content: Content) -> None:
    file.write(_START + checksum(content).encode() + b"\n")
    for part in _parts(content):
        file.write(part)


def checksum(content: Content) -> str:
    """Of everything that the file would hold, in hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in _parts(content):
        digest.update(part)
    return digest.hexdigest()


def _parts(content: Content) -> Iterator[bytes | memoryview]:
    """What follows the second line."""
    arrays = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in content.arrays.items()
    }
    described = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = json.dumps({**content.about, "arrays": described}).encode() + b"\n"
    yield header
    place = len(_START) + 2 * _DIGEST_BYTES + 1 + len(header)
    for array in arrays.values():
        yield bytes(-place % _ALIGNMENT)
        yield array.reshape(-1).view(np.uint8).data
        place += -place % _ALIGNMENT + array.nbytes


def read(path: str) -> bytes | mmap.mmap:
    """A file's bytes: those of a plain local file are mapped, so that all processes that read it share the memory."""
    try:
        with open_raw(path) if is_remote(path) else open(path, "rb") as file:
            try:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError, AttributeError):  # remote, a pipe, empty
                return file.read()
    except OSError as error:
        raise InputError(f"{path}: the aligner's model cannot be read: {error.strerror or error}.") from None


def decode(data: bytes | mmap.mmap, where: str, expected_types: Mapping[str, str]) -> Content:
    """The content; its arrays are `data` itself. `InputError` for another file, another version, or an altered one."""
    first = data[:64].partition(b"\n")[0]
    name, _, version = first.decode("utf-8", "replace").partition("/")
    if name != _NAME:
        raise InputError(f"{where}: expected a word aligner's model, found a file that starts with {first[:20]!r}.")
    if version != str(_VERSION):
        newer = version.isdecimal() and int(version) > _VERSION
        raise InputError(
            f"{where}: expected a word aligner's model of version {_VERSION}, found version {version}. "
            + ("Install a newer Polyspan, or train it again." if newer else "Train it again.")
        )
    header_start = len(_START) + 2 * _DIGEST_BYTES + 1
    header_end = data.find(b"\n", header_start) + 1
    found = hashlib.blake2b(memoryview(data)[header_start:], digest_size=_DIGEST_BYTES).hexdigest()
    if not header_end or data[len(_START) : header_start] != found.encode() + b"\n":
        raise InputError(f"{where}: the aligner's model is truncated or altered. Copy it afresh, or train it again.")
    try:
        about = json.loads(data[header_start:header_end])
        described = about.pop("arrays")
        if {name: type_ for name, (type_, _) in described.items()} != expected_types:
            raise ValueError
        arrays, place = {}, header_end
        for name, (type_, shape) in described.items():
            place += -place % _ALIGNMENT
            count = math.prod(shape)
            if min(shape) < 0:
                raise ValueError
            arrays[name] = np.frombuffer(data, np.dtype(type_), count, place).reshape(shape)
            place += arrays[name].nbytes
        if place != len(data):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{where}: this aligner's model does not hold what it should. Train it again.") from None
    return Content(arrays, about)
