"""Reads the blocks of a bzip2 file from any byte on, so that several workers can read one file.

A bzip2 block begins with a 48-bit mark, at any bit of a byte, and can be decompressed without the blocks before it. So
marks are searched for at all eight shifts, and the bits between two marks are wrapped in a stream of their own. In a
file of several streams (multistream files, pbzip2) the blocks of all streams are read in the same way.

    bits    …│ block mark │ checksum │ data …   │ block mark │ checksum │ data …   │ end mark │ …
             └─────────── a block ─────────────┘ └─────────── a block ─────────────┘

The same 48 bits may occur inside a block by chance. A mark is therefore accepted only if the bits up to one of the next
marks decompress and match the block's own checksum.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

import numpy as np

# The largest compressed block: bzip2 adds at most 1% and 600 bytes to the 900,000 bytes of its largest block.
MAX_BLOCK_BYTES = 1 << 20
READ_BYTES = 1 << 20

_BLOCK_MARK, _END_MARK = 0x314159265359, 0x177245385090  # the digits of π and of its square root
_MARK_BITS, _CRC_BITS = 48, 32
_STREAM_HEADER = int.from_bytes(b"BZh9", "big")  # 9: room for the blocks of every level


# The five bytes that a shifted mark fills completely → (its shift in bits, the mark).
_SHIFTED_MARKS = {
    (mark << 8 >> shift).to_bytes(7, "big")[1:6]: (shift, mark)
    for mark in (_BLOCK_MARK, _END_MARK)
    for shift in range(8)
}
# Indexed by two bytes, the first as the low byte: True if one of these begins with them. One fast look-up for all 16.
_BEGINS_MARK = np.zeros(1 << 16, dtype=bool)
_BEGINS_MARK[[int.from_bytes(middle[:2], "little") for middle in _SHIFTED_MARKS]] = True


class Block(NamedTuple):
    """One block, decompressed."""

    start: int  # byte of the file in which its mark begins
    data: bytes | None  # None: it cannot be decompressed
    truncated: bool = False  # it cannot be decompressed because the file ends inside it


def read_blocks(file: IO[bytes], start: int) -> Iterator[Block]:
    """Yields the blocks whose marks begin at byte `start` of the file or after it, in order.

    Reading in ranges gives the same blocks as reading from 0: a mark inside a block that begins before `start` is not
    taken for a block. A damaged block has no data. If its mark is damaged, the block before it is lost too.
    """
    window = _Window(file, start)
    after_block = False  # True: a block was read, so no later mark is inside a block that begins before `start`
    while (mark := window.next_block()) is not None:
        block, end = _read_block(window, mark)
        after_block |= block.data is not None
        if after_block or not _is_inside_block(file, mark):
            yield block
        window.forget(end)


def _read_block(window: _Window, mark: int) -> tuple[Block, int]:
    """Returns the block that begins at bit `mark`, and the bit from which to look for the next one."""
    end = None
    for end in window.marks_after(mark):
        data = _decompress(window.bits(mark, end), end - mark)
        if data is not None:
            return Block(mark // 8, data), end
    return Block(mark // 8, None, truncated=end is None and window.at_end), mark + 1


def _decompress(block: int, bits: int) -> bytes | None:
    """Decompresses the last `bits` bits of the number `block`; returns None if they are not exactly one block."""
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
    """Returns whether a block that begins before bit `mark` ends after it."""
    window = _Window(file, max(0, mark // 8 - MAX_BLOCK_BYTES))
    while (earlier := window.next_block()) is not None and earlier < mark:
        block, end = _read_block(window, earlier)
        if block.data is not None and end > mark:
            return True
        window.forget(end)
    return False


class _Window:
    """A moving part of a file, and the marks in it; a mark's position is the bit of the file at which it begins."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self.at_end = False
        self._file = file
        self._start = start  # the file's byte with which `_data` begins
        self._data = bytearray()
        self._marks: list[tuple[int, int]] = []  # (bit, mark), in order
        self._scanned = start  # the marks that begin before this byte have been found

    @property
    def end(self) -> int:
        """The byte of the file up to which it has been read."""
        return self._start + len(self._data)

    def next_block(self) -> int | None:
        """Moves the window to the first block mark and returns its position, or None at the file's end."""
        while True:
            for bit, mark in self._marks:
                if mark == _BLOCK_MARK:
                    self.forget(bit)
                    return bit
            self.forget(8 * self._scanned)
            if not self._read():
                return None

    def marks_after(self, position: int) -> Iterator[int]:
        """Yields the marks of either kind after bit `position`, as far as a block that begins there can reach."""
        limit = position + 8 * MAX_BLOCK_BYTES
        while True:
            for bit, _ in [mark for mark in self._marks if position < mark[0] <= limit]:
                yield bit
                position = bit
            if 8 * self._scanned > limit or not self._read():
                return

    def bits(self, start: int, end: int) -> int:
        """Returns the bits [start, end) as a number."""
        first, last = start // 8, -(-end // 8)
        number = int.from_bytes(self._data[first - self._start : last - self._start], "big")
        return number >> (8 * last - end) & ((1 << (end - start)) - 1)

    def forget(self, position: int) -> None:
        """Drops the bits before bit `position`."""
        self._marks = [mark for mark in self._marks if mark[0] >= position]
        dropped = min(position // 8, self._scanned) - self._start
        del self._data[:dropped]
        self._start += dropped

    def _read(self) -> bool:
        """Reads on and finds the new marks; returns False at the file's end."""
        self._file.seek(self.end)
        read = self._file.read(READ_BYTES)
        self.at_end = not read
        self._data += read
        unseen = bytes(self._data[self._scanned - self._start :])
        for offset in _mark_candidates(unseen):
            shift, mark = _SHIFTED_MARKS.get(unseen[offset : offset + 5], (0, 0))
            bit = 8 * (self._scanned + offset - 1) + shift
            if mark and self.bits(bit, bit + _MARK_BITS) == mark:
                self._marks.append((bit, mark))
        self._scanned = max(self._scanned, self.end - 6)
        return not self.at_end


def _mark_candidates(data: bytes) -> list[int]:
    """Returns, in order, the offsets at which the middle of a mark may begin that is completely in the data."""
    candidates = []
    for offset in (0, 1):
        pairs = np.frombuffer(data[offset : len(data) - (len(data) - offset) % 2], dtype="<u2")
        candidates.append(2 * np.flatnonzero(_BEGINS_MARK[pairs]) + offset)
    offsets = np.sort(np.concatenate(candidates))
    return cast("list[int]", offsets[(offsets >= 1) & (offsets <= len(data) - 6)].tolist())
