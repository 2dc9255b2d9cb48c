"""From answers, tags or labels to counts per example, which add up: to a figure, and to what it is in a resample.

N examples, K counts of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from training.metrics import accuracy, entity_f1, squad


class Counted(NamedTuple):
    """Counts of N examples; name → figure in percent, and the function that makes it of the K sums; what to note."""

    counts_NK: np.ndarray
    figures: Mapping[str, tuple[float, Callable[..., float]]]
    notes: Mapping[str, int] = {}


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


def sentences(golds: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Counted:
    """`f1`, `precision` and `recall` of the entities in tagged sentences."""
    counts = np.array([entity_f1.hits(gold, guess) for gold, guess in zip(golds, predicted, strict=True)])
    values = entity_f1.percent(*counts.sum(axis=0).tolist())
    names = ("f1", "precision", "recall")
    return Counted(counts, {name: (values[at], partial(_entity_figure, at)) for at, name in enumerate(names)})


def _entity_figure(at: int, correct: float, predicted: float, gold: float) -> float:
    return entity_f1.percent(correct, predicted, gold)[at]


def pairs(golds: Sequence[str], predicted: Sequence[str]) -> Counted:
    """`accuracy` of labels."""
    correct = accuracy.correct(golds, predicted)
    figure = (100.0 * sum(correct) / len(correct), lambda right, count: 100.0 * right / count)
    return Counted(np.array([correct, np.ones(len(correct))]).T, {"accuracy": figure})
