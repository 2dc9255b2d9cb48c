"""Writes a file that appears under its name only when it is complete."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from schemas.errors import OutputError
from schemas.runtime.interrupts import cleaned_up

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Writes a local file that appears under its name only when it is complete. If the body fails, an older file stays.

    The file is first written under a unique name in the same folder. A pipe or device such as /dev/null is written to
    directly. Raises `OutputError` if the file cannot be written.
    """
    path = os.path.realpath(path)  # a symbolic link stays, and points to the new file
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            yield stream
        return
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name[:40]}.{uuid.uuid4().hex}.partial")

    def delete() -> None:
        with suppress(FileNotFoundError):
            os.unlink(partial)

    try:
        with cleaned_up(delete):
            try:
                with open(partial, "xb") as stream:
                    yield stream
                os.replace(partial, path)
            except BaseException:
                delete()
                raise
    except OSError as error:
        if error.errno not in _CANNOT_WRITE and error.filename != partial:
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror}. Nothing is kept of it.") from None
