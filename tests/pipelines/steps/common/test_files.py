"""Input files: decompression, checksums, lines, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tracemalloc
from unittest import mock

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.common import files
from pipelines.steps.common.files import (
    CHUNK_BYTES,
    MAX_LINE_BYTES,
    BadText,
    FileDigest,
    compression_suffix,
    read_chunks,
    read_lines,
    without_compression,
)
from schemas.errors import InputError
from schemas.rejects import MAX_EXCERPT_CHARS

COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
SUFFIXES = list(COMPRESS)
TEXT = "".join(f"Anna sống ở Hà Nội, số {number}.\n" for number in range(3000))


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_lines_and_digest_of_every_compression(tmp_path, suffix):
    path = tmp_path / f"text.vi{suffix}"
    path.write_bytes(stored := COMPRESS.get(suffix, bytes)(TEXT.encode()))
    digests: list[FileDigest] = []
    assert list(read_lines(str(path), digests)) == TEXT.split("\n")[:-1]
    assert digests == [FileDigest(str(path), len(stored), hashlib.sha256(stored).hexdigest())]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_streams_that_follow_each_other_are_one_text(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    parts = [b"one\ntw", b"", b"o\nthree\n"]
    path.write_bytes(b"".join(map(COMPRESS[suffix], parts)))
    assert list(read_lines(str(path))) == ["one", "two", "three"]


def test_padding_after_a_gzip_or_xz_stream_is_no_text(tmp_path):
    for suffix in (".gz", ".xz"):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](b"one\n") + bytes(8) + COMPRESS[suffix](b"two\n") + bytes(512))
        assert list(read_lines(str(path))) == ["one", "two"]


def test_zstandard_skippable_frames_are_skipped(tmp_path):
    path = tmp_path / "text.zst"
    path.write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0size" + COMPRESS[".zst"](b"one\n"))
    assert list(read_lines(str(path))) == ["one"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kept", [3, 0.5, -1])
def test_file_cut_short_is_refused(tmp_path, suffix, kept):
    path = tmp_path / f"text{suffix}"
    stored = COMPRESS[suffix](TEXT.encode())
    path.write_bytes(stored[: int(len(stored) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=rf"text\{suffix}: .* cut short; readable up to line \d+"):
        list(read_lines(str(path)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_second_stream_cut_short_is_refused(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"one\ntwo\n") + COMPRESS[suffix](b"three\n")[:-3])
    with pytest.raises(InputError, match=r"cut short; readable up to line [34]"):
        list(read_lines(str(path)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_between_streams_is_refused_and_located(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"one\ntwo\n") + b"<html>502 Bad Gateway</html>")
    with pytest.raises(InputError, match=r"damaged .*; readable up to line 3 \(8 bytes of text\)"):
        list(read_lines(str(path)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_inside_a_stream_is_refused(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    compress = zstandard.ZstdCompressor(write_checksum=True).compress if suffix == ".zst" else COMPRESS[suffix]
    stored = bytearray(compress(TEXT.encode()))
    stored[len(stored) // 2] ^= 0xFF
    path.write_bytes(stored)
    with pytest.raises(InputError, match=r"damaged|cut short"):
        list(read_lines(str(path)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_content_under_a_plain_name_is_refused(tmp_path, suffix):
    path = tmp_path / "text.en"
    path.write_bytes(COMPRESS[suffix](TEXT.encode()))
    with pytest.raises(InputError, match=rf"mv .*text\.en .*text\.en\{suffix}"):
        list(read_chunks(str(path)))


def test_sentence_that_begins_like_bzip2_is_a_sentence(tmp_path):
    path = tmp_path / "text.de"
    path.write_bytes("BZh9 heißt ein Kürzel.\n".encode())
    assert list(read_lines(str(path))) == ["BZh9 heißt ein Kürzel."]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_plain_content_under_a_compressed_name_is_refused(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(TEXT.encode())
    with pytest.raises(InputError, match="damaged"):
        list(read_chunks(str(path)))


@pytest.mark.parametrize("name", ["text.en", "text.en.gz"])
def test_file_of_no_bytes_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match="empty"):
        list(read_lines(str(tmp_path / name)))


def test_file_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"gone\.en: cannot be opened: No such file"):
        list(read_lines(str(tmp_path / "gone.en")))


@pytest.mark.parametrize(
    "data, lines",
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\ntwo\r", ["one", "two"]),
        (b"one\r\r\n", ["one\r"]),  # one \r belongs to the line's end
        (b"a\rb\r\nc", ["a\rb", "c"]),
        (b"\n\n", ["", ""]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        (b"\xef\xbb\xbf", []),
        (b"one\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),  # only the file's first is a mark
        ("a\u2028b\u2029c\u0085d\vе\ff\x1cg\n".encode(), ["a\u2028b\u2029c\u0085d\vе\ff\x1cg"]),
        (b"  one \t\n", ["  one \t"]),
        (b"caf\xe9\nok\n", [BadText("invalid_utf8", "caf\ufffd"), "ok"]),
        (b"ok\na\0b\r\n", ["ok", BadText("nul_character", "a\0b")]),
        (b"\xed\xa0\x80\n", [BadText("invalid_utf8", "\ufffd\ufffd\ufffd")]),  # a surrogate
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 4, CHUNK_BYTES])
def test_what_a_line_is(tmp_path, monkeypatch, data, lines, chunk_bytes):
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk_bytes)
    (tmp_path / "text").write_bytes(data)
    assert list(read_lines(str(tmp_path / "text"))) == lines


@given(st.binary(min_size=1), st.integers(1, 9))
def test_lines_are_the_bytes_between_newlines_wherever_a_chunk_ends(data, chunk_bytes):
    def decoded(line: bytes) -> str | BadText:
        line = line[:-1] if line.endswith(b"\r") else line
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return BadText("invalid_utf8", line.decode(errors="replace"))
        return BadText("nul_character", text) if "\0" in text else text

    data = b"x" + data  # no mark of an encoding or of compression
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    with (
        mock.patch.object(files, "open_raw", lambda path: io.BytesIO(data)),
        mock.patch.object(files, "CHUNK_BYTES", chunk_bytes),
    ):
        assert list(read_lines("text")) == [decoded(line) for line in expected]


@pytest.mark.parametrize("encoding, name", [("utf-16", "UTF-16"), ("utf-32", "UTF-32")])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_other_unicode_encoding_is_refused_with_the_command_that_converts(tmp_path, encoding, name, suffix):
    path = tmp_path / f"text.vi{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(TEXT.encode(encoding)))
    command = "gzip -dc" if suffix else "cat"
    with pytest.raises(InputError, match=rf"{command} \S+ \| iconv -f {name} -t UTF-8 > \S+text\.vi\.utf8"):
        list(read_lines(str(path)))


@pytest.mark.parametrize("extra, too_long", [(0, False), (1, True), (3 * CHUNK_BYTES + 7, True)])
@pytest.mark.parametrize("end", [b"\nnext\n", b""])
def test_line_of_more_than_a_mebibyte_is_bad_and_only_that_line(tmp_path, extra, too_long, end):
    line = "ở".encode() * (MAX_LINE_BYTES // 3) + b"x" * (MAX_LINE_BYTES % 3) + b"y" * extra
    (tmp_path / "text").write_bytes(b"before\n" + line + end)
    before, read, *after = read_lines(str(tmp_path / "text"))
    assert before == "before" and after == (["next"] if end else [])
    assert read == (BadText("line_too_long", "ở" * MAX_EXCERPT_CHARS) if too_long else line.decode())


@pytest.mark.parametrize("content", ["lines", "one line"])
@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_memory_does_not_grow_with_the_file(tmp_path, suffix, content):
    lines, line = 50_000, b"x" * 999 + (b"\n" if content == "lines" else b"x")
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(line * lines))
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_lines(str(path)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == (lines if content == "lines" else 1)
    assert peak < 20_000_000  # of 50 MB; the dictionary of xz is 8 MiB


def test_digest_comes_with_the_last_line_and_not_before(tmp_path):
    (tmp_path / "text").write_bytes(b"one\ntwo\n")
    digests: list[FileDigest] = []
    lines = read_lines(str(tmp_path / "text"), digests)
    assert next(lines) == "one"
    lines.close()
    assert digests == []


@pytest.mark.parametrize(
    "path, suffix, plain",
    [
        ("a/news.en.gz", ".gz", "a/news.en"),
        ("news.en.ZST", ".zst", "news.en"),
        ("news.gz.en", "", "news.gz.en"),
        ("dir.gz/news", "", "dir.gz/news"),
    ],
)
def test_compression_is_what_the_suffix_says(path, suffix, plain):
    assert (compression_suffix(path), without_compression(path)) == (suffix, plain)
