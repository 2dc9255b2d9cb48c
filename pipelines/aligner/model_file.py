"""The file of a trained aligner: a line that says what it is, a line of JSON, and arrays. Nothing in it is executed.

polyspan-aligner/1
{"arrays": {"counts": ["<i8", [1200]], …}, "checksum": "9f…", "config": {…}}
the arrays' bytes, in that order, little-endian
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.steps.records import InputError

_NAME, _VERSION = "polyspan-aligner", 1

Arrays = Mapping[str, NDArray[Any]]


def write(file: BinaryIO, arrays: Arrays, config: Mapping[str, Any]) -> None:
    header, payload = _encode(arrays, config)
    file.write(header)
    file.write(payload)


def checksum(arrays: Arrays, config: Mapping[str, Any]) -> str:
    """Of everything that the file would hold."""
    return hashlib.blake2b(b"".join(_encode(arrays, config)), digest_size=16).hexdigest()


def _encode(arrays: Arrays, config: Mapping[str, Any]) -> tuple[bytes, bytes]:
    little_endian = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    payload = b"".join(array.tobytes() for array in little_endian.values())
    described = {name: [array.dtype.str, list(array.shape)] for name, array in little_endian.items()}
    header = {"arrays": described, "checksum": _checksum(described, config, payload), "config": dict(config)}
    return f"{_NAME}/{_VERSION}\n{json.dumps(header)}\n".encode(), payload


def _checksum(described: Mapping[str, Any], config: Mapping[str, Any], payload: bytes) -> str:
    digest = hashlib.blake2b(json.dumps([described, config]).encode(), digest_size=16)
    digest.update(payload)
    return digest.hexdigest()


def read(file: BinaryIO, expected_types: Mapping[str, str]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the configuration. `InputError` for another file, another version, a truncated or altered file."""
    where = str(getattr(file, "name", "the aligner's model"))
    data = file.read()
    first, _, rest = data.partition(b"\n")
    name, _, version = first[:64].decode("utf-8", "replace").partition("/")
    if name != _NAME:
        raise InputError(f"{where}: expected a word aligner's model, found a file that starts with {first[:20]!r}.")
    if version != str(_VERSION):
        raise InputError(
            f"{where}: expected a word aligner's model of version {_VERSION}, found version {version}. Train it again."
        )
    header_line, _, payload = rest.partition(b"\n")
    try:
        header = json.loads(header_line)
        described, config = header["arrays"], header["config"]
        types = {name: type_ for name, (type_, _) in described.items()}
        sizes = [np.dtype(type_).itemsize * math.prod(shape) for type_, shape in described.values()]
        intact = sum(sizes) == len(payload) and _checksum(described, config, payload) == header["checksum"]
    except (ValueError, TypeError, KeyError, AttributeError):
        intact = False
    if not intact or types != expected_types:
        raise InputError(f"{where}: the aligner's model is truncated or altered. Copy it afresh, or train it again.")
    arrays, start = {}, 0
    for (name, (type_, shape)), size in zip(described.items(), sizes, strict=True):
        arrays[name] = np.frombuffer(payload[start : start + size], np.dtype(type_)).reshape(shape)
        start += size
    return arrays, config
