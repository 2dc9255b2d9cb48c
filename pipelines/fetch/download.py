"""Downloads a file whose size and checksum are published; resumes a partial file and keeps only one that matches."""

from __future__ import annotations

import fcntl
import hashlib
import io
import logging
import os
import re
import shlex
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from schemas.errors import ConfigError, InputError

TIMEOUT_S = 60.0  # without a byte
SLOWEST_BYTES_PER_S = 1000.0  # a slower connection is closed after SLOW_S
SLOW_S = 60.0
ATTEMPTS = 6  # in a row without progress
PROGRESS_BYTES = 1000  # fewer are no progress
LONGEST_WAIT_S = 600.0
BLOCK_BYTES = 1 << 20
LISTING_BYTES = 32 << 20  # limit, many times the size of the largest dumpstatus.json

T = TypeVar("T")
logger = logging.getLogger(__name__)


class PublishedFile(NamedTuple):
    """A file of a dump, as the mirror lists it."""

    name: str  # a plain name without a folder, which has been checked
    size: int  # bytes
    algorithm: str  # "sha1" or "md5"
    digest: str  # lower-case hexadecimal


def fetch_file(mirror: Mirror, source: str, file: PublishedFile, target: str, meter: Meter) -> None:
    """Downloads `target` by way of `target.partial`, unless it exists already.

    Raises `InputError` if the file does not match its published size and checksum.
    """
    if os.path.exists(target):
        with open(target, "rb") as stream:
            if problem := mismatch(stream, file, meter):
                raise InputError(f"{target}: {problem}. To fetch it again: rm {shlex.quote(target)}")
        logger.info("%s is here already, and its %s matches", target, file.algorithm)
        return
    partial = f"{target}.partial"
    with open(partial, "a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{partial}: another polyspan-data is fetching this file.") from None
        except OSError:  # a file system without locks
            pass
        download(mirror, source, file, stream, meter)
        if problem := mismatch(stream, file, meter):
            os.remove(partial)  # which of its bytes are wrong is unknown
            raise InputError(
                f"{mirror.url}/{source}: {problem}. Nothing of it is kept: repeat the command, or name another --mirror"
            )
        os.replace(partial, target)
    logger.info("%s: %.1f MB, and its %s matches", target, file.size / 1e6, file.algorithm)


def download(mirror: Mirror, source: str, file: PublishedFile, stream: BinaryIO, meter: Meter) -> None:
    """Appends the missing rest of the file to `stream`, with as many connections as it takes."""
    url = f"{mirror.url}/{source}"

    def attempt() -> None:
        start = stream.seek(0, os.SEEK_END)
        if start > file.size:
            logger.info("%s.partial is longer than the file: starting again", file.name)
            start = stream.truncate(0)
        meter.position = start
        if start == file.size:
            return
        with mirror.open(source, start) as response:
            begin, total = extent(response)
            if total not in (None, file.size):
                raise InputError(
                    f"{url}: expected {file.size:,} bytes, as published, found {total:,}. "
                    "The mirror may be in the middle of an update: name another --date or --mirror"
                )
            if begin not in (0, start):
                stream.truncate(0)
                raise Unavailable(f"{url}: cannot go on from byte {start:,}, starting again")
            if begin < start:
                logger.info("%s: the mirror ignores how much is here already: starting again", file.name)
                meter.position = stream.truncate(0)
            while (left := file.size - meter.position) and (block := received(response, min(left, BLOCK_BYTES))):
                stream.write(block)
                meter.add(len(block))
        if left:
            raise Unavailable(f"{url}: the connection ended at byte {meter.position:,} of {file.size:,}")

    try:
        persist(attempt, mirror.sleep, lambda: meter.position)
    except NotThere as error:
        raise InputError(f"{error}: listed, but not there. Name another --date or --mirror") from None
    stream.flush()


def mismatch(stream: BinaryIO, file: PublishedFile, meter: Meter) -> str | None:
    """Returns how the stream differs from the published size and checksum; None if it does not."""
    size = stream.seek(0, os.SEEK_END)
    if size != file.size:
        return f"expected {file.size:,} bytes, found {size:,}"
    stream.seek(0)
    meter.verify()
    digest = hashlib.new(file.algorithm, usedforsecurity=False)
    while block := stream.read(BLOCK_BYTES):
        digest.update(block)
        meter.position += len(block)
    if digest.hexdigest() != file.digest:
        return f"expected {file.algorithm} {file.digest}, found {digest.hexdigest()}"
    return None


@dataclass
class Meter:
    """The progress of the current file, for the line on stderr."""

    files: int
    number: int = 0
    name: str = ""
    size: int = 0
    position: int = 0  # bytes of the file that are on disk, or verified
    arrived: int = 0  # bytes that this process received
    since: float = 0.0
    verifying: bool = False

    def next(self, file: PublishedFile) -> None:
        self.number, self.name, self.size = self.number + 1, file.name, file.size
        self.position, self.arrived, self.since, self.verifying = 0, 0, time.monotonic(), False

    def verify(self) -> None:
        self.position, self.verifying = 0, True

    def add(self, count: int) -> None:
        self.position, self.arrived = self.position + count, self.arrived + count

    def line(self) -> str:
        """Returns the line.

        >>> Meter(2, 1, "swwiki-….xml.bz2", 60_000_000, 12_000_000, 8_000_000, time.monotonic() - 4).line()
        'swwiki-….xml.bz2 (1 of 2): 12 of 60 MB · 2.0 MB/s · 0:00:24 left'
        """
        which = f" ({self.number} of {self.files})" if self.files > 1 else ""
        line = f"{self.name}{which}: {self.position / 1e6:,.0f} of {self.size / 1e6:,.0f} MB"
        if self.verifying:
            return f"{line} verified"
        speed = self.arrived / max(time.monotonic() - self.since, 1e-9)
        if not speed:
            return line
        seconds = round((self.size - self.position) / speed)
        left = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{line} · {speed / 1e6:.1f} MB/s · {left} left"


# --- HTTP ------------------------------------------------------------------------------------------


class NotThere(Exception):
    """Raised with a URL that is not found."""


class Unavailable(Exception):
    """Retryable failure: reason, and minimum wait in seconds."""

    def __init__(self, reason: str, wait_s: float = 0.0, slow: bool = False) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.slow = slow  # bytes arrived, but too slowly


class TooSlow(OSError):
    """Raised when a connection transfers fewer than `SLOWEST_BYTES_PER_S`."""


class PacedSocket(io.RawIOBase):
    """A connection that raises `TooSlow` if too few bytes arrived in `SLOW_S` of waiting.

    The timeout of a socket is not enough, because it starts anew with every byte. Time between reads does not count.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._waited_s, self._arrived = 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        started = time.monotonic()
        count: int | None = self._raw.readinto(buffer)
        self._waited_s += time.monotonic() - started
        self._arrived += count or 0
        if self._waited_s >= SLOW_S:
            if self._arrived < SLOWEST_BYTES_PER_S * self._waited_s:
                raise TooSlow(f"{self._arrived:,} bytes in {self._waited_s:.0f} s, which is too slow")
            self._waited_s, self._arrived = 0.0, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class PacedResponse(HTTPResponse):
    """A response whose headers and chunk lengths are read through a `PacedSocket` too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fp = io.BufferedReader(PacedSocket(self.fp.detach()))


class PacedConnection(HTTPConnection):
    response_class = PacedResponse


class PacedSecureConnection(HTTPSConnection):
    response_class = PacedResponse


class PacedHandler(HTTPHandler):
    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(PacedConnection, request)


class PacedSecureHandler(HTTPSHandler):
    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(PacedSecureConnection, request)


def paced_opener() -> OpenerDirector:
    """Returns an opener of URLs that uses the environment's proxies and gives up slow connections."""
    return build_opener(PacedHandler, PacedSecureHandler)


@dataclass(frozen=True)
class Mirror:
    """A server that has the dumps."""

    url: str  # without a slash at the end
    user_agent: str
    sleep: Callable[[float], None] = time.sleep
    opener: OpenerDirector = field(default_factory=paced_opener)

    def open(self, path: str, start: int = 0, method: str = "GET") -> Any:
        """Returns a response. A server may ignore `start`, the first byte to send; `extent` says what it sends.

        Raises `NotThere`, `Unavailable` (retry later), or `InputError` (retrying does not help).
        """
        url = f"{self.url}/{path}"
        headers = {"User-Agent": self.user_agent} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            return self.opener.open(Request(url, headers=headers, method=method), timeout=TIMEOUT_S)
        except HTTPError as error:
            if error.code == 416:  # `start` is behind the file's end: `extent` reads the length
                return error
            error.close()
            if error.code in (404, 410):
                raise NotThere(url) from None
            if error.code in (408, 429) or error.code >= 500:
                raise Unavailable(f"{url}: {error.code} {error.reason}", retry_after(error.headers)) from None
            hint = " It may want to know whom to ask: --contact you@example.org, or POLYSPAN_CONTACT."
            raise InputError(f"{url}: {error.code} {error.reason}.{hint if error.code == 403 else ''}") from None
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise InputError(f"{url}: {reason}") from None
            raise Unavailable(f"{url}: {reason or type(reason).__name__}", slow=isinstance(reason, TooSlow)) from None

    def read(self, path: str) -> bytes:
        """Reads a whole listing. Raises `InputError` if it is longer than `LISTING_BYTES`."""

        def attempt() -> bytes:
            with self.open(path) as response:
                blocks, length = [], 0
                while block := received(response, BLOCK_BYTES):
                    blocks.append(block)
                    length += len(block)
                    if length > LISTING_BYTES:
                        raise InputError(f"{self.url}/{path}: expected a list, found over {LISTING_BYTES:,} bytes.")
                total = extent(response)[1]
            if total not in (None, length):
                raise Unavailable(f"{self.url}/{path}: the connection ended at byte {length:,} of {total:,}")
            return b"".join(blocks)

        return persist(attempt, self.sleep)

    def size(self, path: str) -> int | None:
        """Returns the length of a file in bytes, or None if the server does not say."""

        def attempt() -> int | None:
            with self.open(path, method="HEAD") as response:
                return extent(response)[1]

        return persist(attempt, self.sleep)


def persist(attempt: Callable[[], T], sleep: Callable[[float], None], position: Callable[[], int] = lambda: 0) -> T:
    """Calls `attempt` again after each `Unavailable`, and returns its result.

    Waits 2, 4, 8 … seconds, or longer if the server asks for it. Raises `InputError` after `ATTEMPTS` failures without
    progress. A failure counts as the first one again if `position` has grown by `PROGRESS_BYTES`, and not too slowly.
    """
    failures, furthest = 0, position()
    while True:
        try:
            return attempt()
        except Unavailable as error:
            if position() >= furthest + PROGRESS_BYTES and not error.slow:
                failures, furthest = 1, position()
            else:
                failures += 1
            wait_s = max(error.wait_s, min(60.0, 2.0**failures))
            if failures >= ATTEMPTS or wait_s > LONGEST_WAIT_S:
                why = f"{ATTEMPTS} attempts failed" if failures >= ATTEMPTS else f"it asks to wait {wait_s:,.0f} s"
                raise InputError(f"{error}; {why}. Repeat the command to go on, or name another --mirror") from None
            logger.warning("%s; again in %.0f s", error, wait_s)
            sleep(wait_s)


def received(response: Any, count: int) -> bytes:
    """Returns the next bytes as soon as there are any, at most `count`; b"" at the end, also a premature one."""
    try:
        block: bytes = response.read1(count)
    except TooSlow as error:
        raise Unavailable(f"{response.url}: {error}", slow=True) from None
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{response.url}: the connection broke: {error or type(error).__name__}") from None
    return block


def extent(response: Any) -> tuple[int | None, int | None]:
    """Returns the byte of the file at which a response begins, and the file's length; None where it does not say."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    match = re.fullmatch(r"bytes (?:([0-9]+)-[0-9]+|\*)/([0-9]+|\*)", response.headers.get("Content-Range", "").strip())
    begin, total = match.groups() if match else (None, None)
    return int(begin) if begin else None, int(total) if total and total != "*" else None


def retry_after(headers: Message) -> float:
    """Returns the seconds to wait that the header gives as a number or a date; 0 without a valid header."""
    value = headers.get("Retry-After", "").strip()
    try:
        if value.isdecimal():
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
