"""The blocks of a bzip2 file, read from any byte on: what lets several workers read one such file.

A bzip2 block says nothing of where it begins but for a 48-bit mark, at any bit of a byte; it can be decompressed
without the blocks before it. So marks are searched for at all eight shifts, and what stands between two of them is
wrapped in a stream of its own. Streams that follow each other (multistream files, pbzip2) are blocks like any other.

The same 48 bits may stand inside a block by chance. A mark is therefore believed only if what follows decompresses,
and the block's own checksum agrees, up to one of the next marks.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

import numpy as np

# Compressed, and generous: bzip2 adds at most 1% and 600 bytes to the 900,000 bytes of its largest block.
MAX_BLOCK_BYTES = 1 << 20
READ_BYTES = 1 << 20

_BLOCK_MARK, _END_MARK = 0x314159265359, 0x177245385090  # the digits of π and of its square root
_MARK_BITS, _CRC_BITS = 48, 32
_STREAM_HEADER = int.from_bytes(b"BZh9", "big")  # 9: room for the blocks of every level


# The five bytes that a shifted mark fills whole → by how many bits it is shifted, and which mark it is.
_SHIFTED_MARKS = {
    (mark << 8 >> shift).to_bytes(7, "big")[1:6]: (shift, mark)
    for mark in (_BLOCK_MARK, _END_MARK)
    for shift in range(8)
}
# Whether two bytes, the first as the low byte, begin one of these: one look-up finds all sixteen, almost for nothing.
_BEGINS_MARK = np.zeros(1 << 16, dtype=bool)
_BEGINS_MARK[[int.from_bytes(middle[:2], "little") for middle in _SHIFTED_MARKS]] = True


class Block(NamedTuple):
    """What one block holds, decompressed."""

    start: int  # the byte of the file in which its mark begins
    data: bytes | None  # None where it cannot be decompressed
    truncated: bool = False  # whether that is because the file ends inside it


def read_blocks(file: IO[bytes], start: int) -> Iterator[Block]:
    """The blocks whose mark begins at byte `start` of the file or after it, in order, one at a time.

    Reading in ranges gives what reading from 0 gives: a mark inside a block that begins before `start` is not taken
    for a block. A damaged block comes without data; damage to its mark costs the block before it too.
    """
    window = _Window(file, start)
    after_block = False  # a block has been read, so no mark is inside one that begins before `start`
    while (mark := window.next_block()) is not None:
        block, end = _read_block(window, mark)
        after_block |= block.data is not None
        if after_block or not _is_inside_block(file, mark):
            yield block
        window.forget(end)


def _read_block(window: _Window, mark: int) -> tuple[Block, int]:
    """The block that begins at the bit `mark`, and the bit from which to look for the next one."""
    end = None
    for end in window.marks_after(mark):
        data = _decompress(window.bits(mark, end), end - mark)
        if data is not None:
            return Block(mark // 8, data), end
    return Block(mark // 8, None, truncated=end is None and window.at_end), mark + 1


def _decompress(block: int, bits: int) -> bytes | None:
    """The data of a block of so many bits, wrapped in a stream of its own; None if they are not exactly a block."""
    if bits < _MARK_BITS + _CRC_BITS:
        return None
    # The checksum of a stream of one block is that of the block, which follows its mark.
    crc = block >> (bits - _MARK_BITS - _CRC_BITS) & 0xFFFFFFFF
    stream = ((_STREAM_HEADER << bits | block) << _MARK_BITS | _END_MARK) << _CRC_BITS | crc
    stream_bits = 32 + bits + _MARK_BITS + _CRC_BITS
    padding = -stream_bits % 8
    decompressor = bz2.BZ2Decompressor()
    try:
        data = decompressor.decompress((stream << padding).to_bytes((stream_bits + padding) // 8, "big"))
    except OSError:
        return None
    return data if decompressor.eof else None


def _is_inside_block(file: IO[bytes], mark: int) -> bool:
    """Whether a block that begins before the bit `mark` reaches beyond it."""
    window = _Window(file, max(0, mark // 8 - MAX_BLOCK_BYTES))
    while (earlier := window.next_block()) is not None and earlier < mark:
        block, end = _read_block(window, earlier)
        if block.data is not None and end > mark:
            return True
        window.forget(end)
    return False


class _Window:
    """A moving part of a file, and the marks in it, which are told by the bit of the file at which they begin."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self.at_end = False
        self._file = file
        self._start = start  # the file's byte with which `_data` begins
        self._data = bytearray()
        self._marks: list[tuple[int, int]] = []  # (bit, mark), in order
        self._scanned = start  # the marks that begin before this byte have been found

    @property
    def end(self) -> int:
        """The byte up to which the file has been read."""
        return self._start + len(self._data)

    def next_block(self) -> int | None:
        """The first block mark; the window moves up to it."""
        while True:
            for bit, mark in self._marks:
                if mark == _BLOCK_MARK:
                    self.forget(bit)
                    return bit
            self.forget(8 * self._scanned)
            if not self._read():
                return None

    def marks_after(self, position: int) -> Iterator[int]:
        """The marks of either kind beyond the bit `position`, as far as a block that begins there can reach."""
        limit = position + 8 * MAX_BLOCK_BYTES
        while True:
            for bit, _ in [found for found in self._marks if position < found[0] <= limit]:
                yield bit
                position = bit
            if 8 * self._scanned > limit or not self._read():
                return

    def bits(self, start: int, end: int) -> int:
        """The bits [start, end) as a number."""
        first, last = start // 8, -(-end // 8)
        number = int.from_bytes(self._data[first - self._start : last - self._start], "big")
        return number >> (8 * last - end) & ((1 << (end - start)) - 1)

    def forget(self, position: int) -> None:
        """Drops what precedes the bit `position`."""
        self._marks = [found for found in self._marks if found[0] >= position]
        dropped = min(position // 8, self._scanned) - self._start
        del self._data[:dropped]
        self._start += dropped

    def _read(self) -> bool:
        """Reads on, and finds the marks that have come to lie in the window. False at the file's end."""
        self._file.seek(self.end)
        read = self._file.read(READ_BYTES)
        self.at_end = not read
        self._data += read
        unseen = bytes(self._data[self._scanned - self._start :])
        for place in _mark_candidates(unseen):
            shift, mark = _SHIFTED_MARKS.get(unseen[place : place + 5], (0, 0))
            bit = 8 * (self._scanned + place - 1) + shift
            if mark and self.bits(bit, bit + _MARK_BITS) == mark:
                self._marks.append((bit, mark))
        self._scanned = max(self._scanned, self.end - 6)
        return not self.at_end


def _mark_candidates(data: bytes) -> list[int]:
    """Where, in order, two bytes begin the middle of a mark that lies wholly in the data."""
    found = []
    for offset in (0, 1):
        pairs = np.frombuffer(data[offset : len(data) - (len(data) - offset) % 2], dtype="<u2")
        found.append(2 * np.flatnonzero(_BEGINS_MARK[pairs]) + offset)
    places = np.sort(np.concatenate(found))
    return cast("list[int]", places[(places >= 1) & (places <= len(data) - 6)].tolist())
