"""From tags to entities and back: IOB1, IOB2 (also called BIO), BIOES, BILOU, BMES and ABSA's `T-`.

Every scheme is read alike: `B`, `S` and `U` begin a chunk, and so does any other tag after `O`, after a chunk that has
ended (`E`, `S`, `L`, `U`) or after another type. So no ill-formed tag is lost: `O I-PER` is an entity.

Of IOB1, IOB2, IOE and `T-` tags this is what CoNLL's scorer, conlleval, reads. It knows B, I, E and O only. Of BIOES,
BILOU and BMES it joins chunks that touch and have the same type, where one of the two tags is S, U, L or M, or where B
comes after E: it takes `S-PER S-PER` and `B-PER E-PER B-PER E-PER` for one chunk. Here they are two, as these schemes
mean them, and as seqeval reads BIOES. CoNLL's files are IOB, and our predictions IOB2: their figures are conlleval's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

TAG = re.compile(r"O|[BIEMSLUT]-[^\s,]+")  # the type may hold hyphens (I-creative-work); commas list several annotators
_BEGIN, _END = "BSU", "ESLU"


class Entity(NamedTuple):
    """Words `[start, end)` of a sentence, 0-based, and their type."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """The chunks of one sentence, in their order."""
    found: list[Entity] = []
    open_ = False  # whether the last one found may go on
    for at, tag in enumerate(tags):
        if tag == "O":
            open_ = False
            continue
        prefix, kind = tag[0], tag[2:]
        if open_ and prefix not in _BEGIN and found[-1].type == kind:
            found[-1] = found[-1]._replace(end=at + 1)
        else:
            found.append(Entity(at, at + 1, kind))
        open_ = prefix not in _END
    return found


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The same entities in IOB2."""
    return tags_of(entities(tags), len(tags))


def tags_of(found: Sequence[Entity], length: int) -> tuple[str, ...]:
    """IOB2 tags of a sentence of `length` words, for entities that do not overlap."""
    tags = ["O"] * length
    for start, end, kind in found:
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tuple(tags)
