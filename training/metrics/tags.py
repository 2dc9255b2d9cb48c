"""Converts tags to entities and back: IOB1, IOB2 (also called BIO), BIOES, BILOU, BMES and ABSA's `T-`.

One rule reads all schemes: `B`, `S` and `U` begin a chunk, and so does any other tag after `O`, after a chunk that has
ended (`E`, `S`, `L`, `U`) or after another type. So no ill-formed tag is lost: `O I-PER` is an entity.

CoNLL's scorer, conlleval, reads IOB1, IOB2, IOE and `T-` tags in the same way. It knows only B, I, E and O. In BIOES,
BILOU and BMES it joins chunks that touch and have the same type, where one of the two tags is S, U, L or M, or where B
follows E: it takes `S-PER S-PER` and `B-PER E-PER B-PER E-PER` for one chunk. Here they are two, as these schemes mean
them and as seqeval reads BIOES. CoNLL's files are IOB and our predictions IOB2, so their figures are conlleval's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

TAG = re.compile(r"O|[BIEMSLUT]-[^\s,]+")  # the type may hold hyphens (I-creative-work); commas list several annotators
_BEGIN, _END = "BSU", "ESLU"


class Entity(NamedTuple):
    """An entity covers the words `[start, end)` of a sentence, 0-based, and has a type."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of one sentence, in the order of its words.

    >>> entities(["B-PER", "I-PER", "O", "B-LOC"])
    [Entity(start=0, end=2, type='PER'), Entity(start=3, end=4, type='LOC')]
    """
    chunks: list[Entity] = []
    open_ = False  # whether the next word may continue the last chunk
    for index, tag in enumerate(tags):
        if tag == "O":
            open_ = False
            continue
        prefix, kind = tag[0], tag[2:]
        if open_ and prefix not in _BEGIN and chunks[-1].type == kind:
            chunks[-1] = chunks[-1]._replace(end=index + 1)
        else:
            chunks.append(Entity(index, index + 1, kind))
        open_ = prefix not in _END
    return chunks


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Rewrites the tags in IOB2."""
    return tags_of(entities(tags), len(tags))


def tags_of(chunks: Sequence[Entity], length: int) -> tuple[str, ...]:
    """Returns the IOB2 tags of a sentence of `length` words. The entities must not overlap.

    >>> tags_of([Entity(0, 2, "PER")], length=3)
    ('B-PER', 'I-PER', 'O')
    """
    tags = ["O"] * length
    for start, end, kind in chunks:
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tuple(tags)
