"""Entity F1 as CoNLL's scorer counts it, and the span F1 of mPMR's released code.

An entity counts if its words and its type are right. Chunks are read from tags as `training.tasks.tags` has it: as
seqeval's default mode does and, but for entities in BIOES and its kin that touch, as conlleval does. Figures are
micro-averages: counts are added up first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from training.tasks.tags import Entity, entities


class Hits(NamedTuple):
    """Entities of one sentence, or of many."""

    correct: int
    predicted: int
    gold: int


def hits(gold: Sequence[str], predicted: Sequence[str]) -> Hits:
    """Of one sentence's tags, in any scheme and the two not necessarily in the same."""
    if len(gold) != len(predicted):
        raise ValueError(f"expected {len(gold)} tags, one per word; found {len(predicted)}")
    return span_hits(entities(gold), entities(predicted))


def span_hits(gold: Iterable[Entity], predicted: Iterable[Entity]) -> Hits:
    """Of one sentence's spans, which may nest and overlap.

    mPMR reports F1 over every span whose score is above the threshold, before nested ones are resolved (released code,
    `query_span_f1`): on what its decoding finds, its F1 is this one's and CoNLL's is that of the resolved tags.
    """
    golds, guesses = set(gold), set(predicted)
    return Hits(len(golds & guesses), len(guesses), len(golds))


def percent(correct: float, predicted: float, gold: float) -> tuple[float, float, float]:
    """F1, precision and recall in percent; 0 where they are undefined."""
    precision = 100.0 * correct / predicted if predicted else 0.0
    recall = 100.0 * correct / gold if gold else 0.0
    return (2 * precision * recall / (precision + recall) if correct else 0.0), precision, recall
