"""Blocks of bzip2 files: found at any bit, from any byte on, and never mistaken."""

from __future__ import annotations

import bz2
import io
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.wikipedia import bz2_blocks
from pipelines.steps.wikipedia.bz2_blocks import Block, read_blocks

BLOCK_MARK, END_MARK = 0x314159265359, 0x177245385090
RANDOM = random.Random(1)
NOISE = RANDOM.randbytes(450_000)  # five blocks of bzip2 -1, which begin at whatever bit
ONE_STREAM = bz2.compress(NOISE, 1)
MULTISTREAM = b"".join(bz2.compress(NOISE[start : start + 70_000]) for start in range(0, len(NOISE), 70_000))


def alphabet_that_writes(mark: int) -> bytes:
    """Bytes from 0x80 to 0xaf whose table of bytes in use, which bzip2 writes at a block's start, is the mark."""
    return bytes(0x80 + place for place in range(48) if mark >> (47 - place) & 1)


def bits_at_which(mark: int, stored: bytes) -> list[int]:
    digits = "".join(f"{byte:08b}" for byte in stored)
    return [match.start() for match in re.finditer(f"(?={mark:048b})", digits)]


def blocks_of(stored: bytes, start: int = 0) -> list[Block]:
    return list(read_blocks(io.BytesIO(stored), start))


def blocks_in_ranges(stored: bytes, bounds: list[int]) -> list[Block]:
    return [
        block
        for start, end in pairwise([0, *bounds, len(stored)])
        for block in blocks_of(stored, start)
        if block.start < end
    ]


@pytest.mark.parametrize("stored", [ONE_STREAM, MULTISTREAM], ids=["one stream", "multistream"])
def test_blocks_hold_what_the_file_holds(stored):
    blocks = blocks_of(stored)
    assert len(blocks) > 4
    assert b"".join(block.data for block in blocks) == NOISE


@pytest.mark.parametrize("stored", [ONE_STREAM, MULTISTREAM], ids=["one stream", "multistream"])
def test_a_block_belongs_to_the_range_in_which_its_mark_begins(stored):
    blocks = blocks_of(stored)
    for number, block in enumerate(blocks):
        assert blocks_of(stored, block.start) == blocks[number:]
        assert blocks_of(stored, block.start + 1) == blocks[number + 1 :]


@given(st.data())
def test_ranges_give_the_blocks_of_the_whole_file(data):
    rows = data.draw(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
    stored = b"".join(bz2.compress(row) for row in rows)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(stored)), max_size=6)))
    blocks = blocks_in_ranges(stored, bounds)
    assert blocks == blocks_of(stored)
    assert [block.data for block in blocks] == [row for row in rows if row]


@pytest.mark.parametrize("mark", [BLOCK_MARK, END_MARK], ids=["block", "end"])
@pytest.mark.parametrize("level", [1, 9])
def test_mark_inside_a_block_is_not_taken_for_one(mark, level):
    alphabet = alphabet_that_writes(mark)
    text = bytes(RANDOM.choice(alphabet) for _ in range(250_000))
    stored = bz2.compress(text, level)
    blocks = blocks_of(stored)
    assert len(blocks) == (3 if level == 1 else 1)
    true_marks = 1 if mark == END_MARK else len(blocks)
    places = bits_at_which(mark, stored)
    assert len(places) == true_marks + len(blocks)
    assert b"".join(block.data for block in blocks) == text
    for place in places:
        for bound in (place // 8 - 1, place // 8, place // 8 + 1):
            assert blocks_in_ranges(stored, [bound]) == blocks


@pytest.mark.parametrize("stored", [ONE_STREAM, MULTISTREAM], ids=["one stream", "multistream"])
@pytest.mark.parametrize("victim", [0, 2, -1])
def test_damage_costs_one_block(stored, victim):
    blocks = blocks_of(stored)
    victim %= len(blocks)
    damaged = bytearray(stored)
    damaged[blocks[victim].start + 1000] ^= 4
    found = blocks_of(bytes(damaged))
    assert found == [*blocks[:victim], Block(blocks[victim].start, None), *blocks[victim + 1 :]]
    for block in blocks:
        assert blocks_in_ranges(bytes(damaged), [block.start + 1, block.start + 500]) == found


def test_damage_to_a_mark_costs_the_block_before_it_too():
    blocks = blocks_of(ONE_STREAM)
    damaged = bytearray(ONE_STREAM)
    damaged[blocks[2].start + 3] ^= 4
    assert blocks_of(bytes(damaged)) == [blocks[0], Block(blocks[1].start, None), *blocks[3:]]


def test_hole_costs_the_blocks_that_it_touches():
    blocks = blocks_of(ONE_STREAM)
    hole = slice(blocks[1].start + 50_000, blocks[3].start + 10)
    damaged = bytearray(ONE_STREAM)
    damaged[hole] = bytes(hole.stop - hole.start)
    found = blocks_of(bytes(damaged))
    assert found == [blocks[0], Block(blocks[1].start, None), blocks[4], *blocks[5:]]


def test_file_that_ends_inside_a_block_is_truncated():
    blocks = blocks_of(ONE_STREAM)
    cut = ONE_STREAM[: blocks[3].start + 2000]
    assert blocks_of(cut) == [*blocks[:3], Block(blocks[3].start, None, truncated=True)]
    assert blocks_in_ranges(cut, [blocks[3].start, blocks[3].start + 1]) == blocks_of(cut)


def test_what_follows_the_last_stream_is_left_alone():
    assert blocks_of(ONE_STREAM + bytes(100) + b"garbage") == blocks_of(ONE_STREAM)
    assert blocks_of(bz2.compress(b"") + MULTISTREAM + bz2.compress(b""))[0].data == blocks_of(MULTISTREAM)[0].data


@pytest.mark.parametrize("read_bytes", [1, 7, 1000])
def test_readings_may_end_anywhere(monkeypatch, read_bytes):
    stored = b"".join(bz2.compress(NOISE[start : start + 90]) for start in range(0, 900, 90))
    blocks = blocks_of(stored)
    monkeypatch.setattr(bz2_blocks, "READ_BYTES", read_bytes)
    assert len(blocks) == 10
    assert blocks_of(stored) == blocks


def test_no_more_is_read_than_the_blocks_that_are_taken(monkeypatch):
    monkeypatch.setattr(bz2_blocks, "READ_BYTES", 1 << 12)
    first, second, third, *_ = blocks_of(ONE_STREAM)
    file = io.BytesIO(ONE_STREAM)
    assert next(read_blocks(file, first.start + 1)) == second
    assert file.tell() < third.start + (1 << 13)
