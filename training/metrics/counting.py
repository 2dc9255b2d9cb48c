"""The scorers of the tasks count per example. Sums of the counts give each figure, also in a resample.

N is the number of examples, K the number of counts per example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from schemas.mrc import RecordCounts
from training.metrics import accuracy, entity_f1, mlqa, squad
from training.metrics.tags import Entity, entities


class Graded(NamedTuple):
    """The gold values of records of one language, and the predictions for them, in the same order.

    For questions a gold value is the answers' texts, and a prediction an answer or None; for sentences both are tags,
    for pairs labels.
    """

    golds: Sequence[Any]
    predicted: Sequence[Any]
    unresolved: Sequence[Iterable[Entity]] | None = None  # likely entities of each sentence, which may overlap


class Counted(NamedTuple):
    """The counts of N examples, and the figures that they give."""

    counts_NK: np.ndarray
    figures: Mapping[str, tuple[float, Callable[..., float]]]  # name → percent, and its function of the K sums
    notes: Mapping[str, int] = {}  # what the report mentions besides
    gold: RecordCounts | None = None  # the records and labels of the gold file, where there is a file


class Options(Protocol):
    """The options of scorers, which `training.recipes.scoring.Reporting` has."""

    @property
    def mlqa_arabic(self) -> mlqa.Arabic: ...


def _nothing_to_name(options: Options) -> dict[str, object]:
    return {}


@dataclass(frozen=True)
class Metric:
    """A scorer counts the records of one language. `count` takes them, the language, and the options."""

    name: str  # in signatures
    count: Callable[[Graded, str, Options], Counted]
    langs: tuple[str, ...] = ()  # the only languages that it knows; empty: it takes any
    named_options: Callable[[Options], Mapping[str, object]] = _nothing_to_name  # in signatures; None is left out


def questions(golds: Sequence[Sequence[str]], predicted: Sequence[str | None], normalized: squad.Normalize) -> Counted:
    """Counts `f1` and `exact_match` of answers, as official scorers add them up."""
    numbered = {str(number): answer for number, answer in enumerate(predicted) if answer is not None}
    scores = squad.scores(((str(number), texts) for number, texts in enumerate(golds)), numbered, normalized)
    figures = {
        "f1": (squad.percent(scores.f1), lambda f1, exact, count: 100.0 * f1 / count),
        "exact_match": (squad.percent(scores.exact), lambda f1, exact, count: 100.0 * exact / count),
    }
    counts_NK = np.array([scores.f1, scores.exact, np.ones(len(scores.f1))]).T
    return Counted(counts_NK, figures, {"unanswered": scores.unanswered})


def sentences(
    golds: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    unresolved: Sequence[Iterable[Entity]] | None = None,
) -> Counted:
    """Counts `f1`, `precision` and `recall` of the entities in tagged sentences, and `span_f1` of `unresolved`
    entities, where these are given."""
    counts_NK = np.array([entity_f1.hits(gold, tags) for gold, tags in zip(golds, predicted, strict=True)])
    names = ("f1", "precision", "recall")
    statistics = {name: partial(_entity_figure, slice(0, 3), index) for index, name in enumerate(names)}
    if unresolved is not None:
        spans = [entity_f1.span_hits(entities(gold), likely) for gold, likely in zip(golds, unresolved, strict=True)]
        counts_NK = np.hstack([counts_NK, np.array(spans)])
        statistics["span_f1"] = partial(_entity_figure, slice(3, 6), 0)
    sums = counts_NK.sum(axis=0).tolist()
    return Counted(counts_NK, {name: (statistic(*sums), statistic) for name, statistic in statistics.items()})


def _entity_figure(columns: slice, index: int, *sums: float) -> float:
    return entity_f1.percent(*sums[columns])[index]


def pairs(golds: Sequence[str], predicted: Sequence[str]) -> Counted:
    """Counts the `accuracy` of labels."""
    correct = accuracy.correct(golds, predicted)
    figure = (100.0 * sum(correct) / len(correct), lambda right, count: 100.0 * right / count)
    return Counted(np.array([correct, np.ones(len(correct))]).T, {"accuracy": figure})


def _count_squad(graded: Graded, lang: str, options: Options) -> Counted:
    return questions(graded.golds, graded.predicted, squad.normalize)


def _count_mlqa(graded: Graded, lang: str, options: Options) -> Counted:
    normalized = partial(mlqa.normalize, lang=lang, arabic=options.mlqa_arabic)
    return questions(graded.golds, graded.predicted, normalized)


def _mlqa_options(options: Options) -> dict[str, object]:
    return {"arabic": options.mlqa_arabic if options.mlqa_arabic != "official" else None}


def _count_entities(graded: Graded, lang: str, options: Options) -> Counted:
    return sentences(graded.golds, graded.predicted, graded.unresolved)


def _count_labels(graded: Graded, lang: str, options: Options) -> Counted:
    return pairs(graded.golds, graded.predicted)


SQUAD = Metric("squad1.1", _count_squad)
MLQA = Metric("mlqa1.0", _count_mlqa, mlqa.LANGS, _mlqa_options)
ENTITY_F1 = Metric("conll", _count_entities)
ACCURACY = Metric("accuracy", _count_labels)
