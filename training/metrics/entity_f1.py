"""Computes entity F1 as CoNLL's scorer does, and the span F1 of mPMR's released code.

An entity counts if its words and its type are correct. `training.metrics.tags` reads entities from tags as seqeval's
default mode does and, except for touching entities in BIOES and similar schemes, as conlleval does. Figures are
micro-averages: counts are added up first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from training.metrics.tags import Entity, entities


class Hits(NamedTuple):
    """Counts the entities of one sentence, or of many."""

    correct: int
    predicted: int
    gold: int


def hits(gold: Sequence[str], predicted: Sequence[str]) -> Hits:
    """Counts one sentence's entities. The two sequences of tags may have different schemes."""
    if len(gold) != len(predicted):
        raise ValueError(f"expected {len(gold)} tags, one per word; found {len(predicted)}")
    return span_hits(entities(gold), entities(predicted))


def span_hits(gold: Iterable[Entity], predicted: Iterable[Entity]) -> Hits:
    """Counts one sentence's spans, which may nest and overlap.

    mPMR reports F1 over all spans whose score is above the threshold, before nested ones are resolved (released code,
    `query_span_f1`). Over these spans, this gives mPMR's F1; CoNLL's F1 is that of the resolved tags.
    """
    golds, guesses = set(gold), set(predicted)
    return Hits(len(golds & guesses), len(guesses), len(golds))


def percent(correct: float, predicted: float, gold: float) -> tuple[float, float, float]:
    """Returns F1, precision and recall in percent; 0 where they are undefined."""
    precision = 100.0 * correct / predicted if predicted else 0.0
    recall = 100.0 * correct / gold if gold else 0.0
    return (2 * precision * recall / (precision + recall) if correct else 0.0), precision, recall
