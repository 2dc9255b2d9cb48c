"""From answers, tags or labels to counts per example, which add up: to a figure, and to what it is in a resample.

N examples, K counts of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from schemas.mrc import RecordCounts
from training.metrics import accuracy, entity_f1, squad
from training.tasks.tags import Entity, entities


class Counted(NamedTuple):
    """Counts of N examples; name → figure in percent, and the function that makes it of the K sums; what to note; what
    became of the gold file's records and labels, where there is a file."""

    counts_NK: np.ndarray
    figures: Mapping[str, tuple[float, Callable[..., float]]]
    notes: Mapping[str, int] = {}
    gold: RecordCounts | None = None


def questions(
    golds: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str], normalized: squad.Normalize
) -> Counted:
    """`f1` and `exact_match` of (id, gold answers), as official scorers add them up."""
    found = squad.scores(golds, predictions, normalized)
    figures = {
        "f1": (squad.percent(found.f1), lambda f1, exact, count: 100.0 * f1 / count),
        "exact_match": (squad.percent(found.exact), lambda f1, exact, count: 100.0 * exact / count),
    }
    counts = np.array([found.f1, found.exact, np.ones(len(found.f1))]).T
    return Counted(counts, figures, {"unanswered": found.unanswered})


def sentences(
    golds: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    unresolved: Sequence[Iterable[Entity]] | None = None,
) -> Counted:
    """`f1`, `precision` and `recall` of the entities in tagged sentences; with the entities that a model found before
    those that overlap were resolved, `span_f1` of these."""
    counts = np.array([entity_f1.hits(gold, guess) for gold, guess in zip(golds, predicted, strict=True)])
    names = ("f1", "precision", "recall")
    statistics = {name: partial(_entity_figure, slice(0, 3), at) for at, name in enumerate(names)}
    if unresolved is not None:
        spans = [entity_f1.span_hits(entities(gold), found) for gold, found in zip(golds, unresolved, strict=True)]
        counts = np.hstack([counts, np.array(spans)])
        statistics["span_f1"] = partial(_entity_figure, slice(3, 6), 0)
    sums = counts.sum(axis=0).tolist()
    return Counted(counts, {name: (statistic(*sums), statistic) for name, statistic in statistics.items()})


def _entity_figure(columns: slice, at: int, *sums: float) -> float:
    return entity_f1.percent(*sums[columns])[at]


def pairs(golds: Sequence[str], predicted: Sequence[str]) -> Counted:
    """`accuracy` of labels."""
    correct = accuracy.correct(golds, predicted)
    figure = (100.0 * sum(correct) / len(correct), lambda right, count: 100.0 * right / count)
    return Counted(np.array([correct, np.ones(len(correct))]).T, {"accuracy": figure})
