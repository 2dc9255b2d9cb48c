"""Reads input files once from start to end: opens, checksums and decompresses them, and cuts them into lines.

Memory is bounded by `CHUNK_BYTES` and `MAX_LINE_BYTES`, whatever the file's size or compression ratio. A path with a
scheme (`gs://…`, `s3://…`, `hdfs://…`) is opened by Beam's file systems, any other by the operating system.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import IO, Any, NamedTuple, cast

import zstandard

from pipelines.steps.common.paths import is_remote
from schemas.errors import InputError
from schemas.rejects import MAX_EXCERPT_CHARS

CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 20

# zstandard's decompressor cannot limit its output, and a dozen bytes can become 128 KiB, so its input chunks are small.
_ZSTD_CHUNK_BYTES = 1 << 8

_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
COMPRESSIONS = tuple(_DECOMPRESSORS)
_COMMANDS = {".gz": "gzip -dc", ".bz2": "bzip2 -dc", ".xz": "xz -dc", ".zst": "zstd -dc"}
_MAGIC = {b"\x1f\x8b\x08": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_BZIP2_BLOCK = b"1AY&SY"  # follows `BZh` and a digit; `BZh` alone could begin a sentence

# Longest first: the mark of UTF-32-LE begins with that of UTF-16-LE.
_BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class FileDigest(NamedTuple):
    """The size and checksum of a file as it is stored, compressed or not. The manifest has one for each input."""

    path: str
    size_bytes: int
    sha256: str


class BadText(NamedTuple):
    """A text that cannot be used, with an excerpt of at most `MAX_EXCERPT_CHARS` that shows why."""

    reason: str  # line_too_long, invalid_utf8, nul_character, or another reject reason of the file's reader
    text: str


def compression_suffix(path: str) -> str:
    """Returns `.gz`, `.bz2`, `.xz`, `.zst`, or an empty string."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in _DECOMPRESSORS else ""


def without_compression(path: str) -> str:
    """Returns the path without the suffix of a compression: `news.en` for `news.en.gz`."""
    return path[: len(path) - len(compression_suffix(path))]


def shell_text(path: str) -> str:
    """Returns the shell command that prints the file's text, for error messages: `gzip -dc news.en.gz`."""
    return f"{_COMMANDS.get(compression_suffix(path), 'cat')} {path}"


def read_chunks(path: str, digests: list[FileDigest] | None = None) -> Generator[bytes, None, None]:
    """Yields the file's bytes, decompressed as its suffix says. Consecutive members, streams and frames are joined.

    Appends the file's `FileDigest` to `digests` after the last chunk. Raises `InputError` for a file that cannot be
    opened, is empty, cut short or damaged, or is compressed without the suffix for it.
    """
    suffix = compression_suffix(path)
    with closing(_raw_chunks(path, _ZSTD_CHUNK_BYTES if suffix == ".zst" else CHUNK_BYTES, digests)) as raw:
        first = next(raw, b"")
        if not first:
            raise InputError(f"{path}: the file is empty (0 bytes). Was its download or copy cut short?")
        if suffix:
            yield from _decompress(path, suffix, chain([first], raw))
            return
        for magic, wanted in _MAGIC.items():
            if first.startswith(magic) and (wanted != ".bz2" or first[4:].startswith(_BZIP2_BLOCK)):
                raise InputError(
                    f"{path}: the content is compressed ({_COMMANDS[wanted].split()[0]}) but the name does not say so. "
                    f"Rename it: mv {path} {path}{wanted}"
                )
        yield first
        yield from raw


def read_lines(path: str, digests: list[FileDigest] | None = None) -> Generator[str | BadText, None, None]:
    """Yields the file's lines, decoded from UTF-8, without `\\n` or `\\r\\n`. Nothing else ends a line or is removed.

    U+2028, U+0085 and a lone `\\r` are text. A byte order mark at the start of the file is removed. A line that is
    longer than `MAX_LINE_BYTES`, is not UTF-8 or has a NUL becomes a `BadText`. Raises the errors of `read_chunks`, and
    `InputError` for a file that begins with the byte order mark of UTF-16 or UTF-32.
    """
    with closing(read_chunks(path, digests)) as chunks:
        head = b""
        for chunk in chunks:
            head += chunk
            if len(head) >= 4:
                break
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if head.startswith(mark):
                plain = without_compression(path)
                raise InputError(
                    f"{path}: expected UTF-8, found the byte order mark of {encoding}. "
                    f"Convert it: {shell_text(path)} | iconv -f {encoding} -t UTF-8 > {plain}.utf8"
                )
        begun = b""  # the start of an unfinished line, at most one byte longer than a line may be
        for chunk in chain([head.removeprefix(b"\xef\xbb\xbf")], chunks):
            lines, newline, rest = chunk.rpartition(b"\n")
            if newline:
                yield from _decode_lines(begun + lines)
                begun = rest
            else:
                begun = (begun + rest)[: MAX_LINE_BYTES + 1]
        if begun:
            yield from _decode_lines(begun)


def open_raw(path: str) -> IO[bytes]:
    """Opens the file as it is stored, not decompressed. Raises `InputError` if it cannot be opened."""
    try:
        if not is_remote(path):
            return open(path, "rb")
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        return cast("IO[bytes]", FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from error


def file_digest(path: str) -> FileDigest:
    """Reads a whole file as it is stored. Raises `InputError` if it cannot be opened."""
    digests: list[FileDigest] = []
    for _ in _raw_chunks(path, CHUNK_BYTES, digests):
        pass
    return digests[0]


def _raw_chunks(path: str, chunk_bytes: int, digests: list[FileDigest] | None) -> Generator[bytes, None, None]:
    sha256, size_bytes = hashlib.sha256(), 0
    with open_raw(path) as file:
        while chunk := file.read(chunk_bytes):
            sha256.update(chunk)
            size_bytes += len(chunk)
            yield chunk
    if digests is not None:
        digests.append(FileDigest(path, size_bytes, sha256.hexdigest()))


def _decompress(path: str, suffix: str, raw: Iterator[bytes]) -> Iterator[bytes]:
    # The standard library's file objects silently stop at damage after the first bzip2 or xz stream, and zstandard's
    # where a frame is cut. Here every byte must belong to a complete stream, or the file is refused.
    new = _DECOMPRESSORS[suffix]
    limit = {} if suffix == ".zst" else {"max_length": CHUNK_BYTES}
    decompressor = new()
    text_bytes = newlines = 0

    def refusal(what: str) -> InputError:
        return InputError(
            f"{path}: the {_COMMANDS[suffix].split()[0]} data are {what}; readable up to line {newlines + 1} "
            f"({text_bytes} bytes of text). Fetch the file again; `{_COMMANDS[suffix].split()[0]} -t {path}` tests it."
        )

    for data in raw:
        # bz2 and lzma keep input that exceeded the output limit; zlib returns it as the unconsumed tail.
        while data or not (decompressor.eof or getattr(decompressor, "needs_input", True)):
            if decompressor.eof:
                data = data.lstrip(b"\0")  # padding between and after streams
                if not data:
                    break
                decompressor = new()
            try:
                text = decompressor.decompress(data, **limit)
            except (zlib.error, OSError, lzma.LZMAError, zstandard.ZstdError) as error:
                raise refusal(f"damaged ({error})") from error
            data = decompressor.unused_data if decompressor.eof else getattr(decompressor, "unconsumed_tail", b"")
            text_bytes += len(text)
            newlines += text.count(b"\n")
            for start in range(0, len(text), CHUNK_BYTES):
                yield text[start : start + CHUNK_BYTES]
    if not decompressor.eof:
        raise refusal("cut short")


def _decode_lines(block: bytes) -> list[str | BadText]:
    """Decodes the lines of `block`, which does not end in a newline; all at once if they are valid."""
    if len(block) <= MAX_LINE_BYTES:
        try:
            text = block.decode()
        except UnicodeDecodeError:
            pass
        else:
            if "\0" not in text:
                if "\r" in text:
                    text = text.replace("\r\n", "\n").removesuffix("\r")
                return cast("list[str | BadText]", text.split("\n"))
    return [_decode_line(line) for line in block.split(b"\n")]


def _decode_line(line: bytes) -> str | BadText:
    if len(line) > MAX_LINE_BYTES:
        # Four bytes per code point, and one code point more, so that no character of the excerpt is cut.
        start = line[: 4 * MAX_EXCERPT_CHARS + 4].decode(errors="replace")
        return BadText("line_too_long", start[:MAX_EXCERPT_CHARS])
    line = line.removesuffix(b"\r")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return BadText("invalid_utf8", line.decode(errors="replace")[:MAX_EXCERPT_CHARS])
    return BadText("nul_character", text[:MAX_EXCERPT_CHARS]) if "\0" in text else text
