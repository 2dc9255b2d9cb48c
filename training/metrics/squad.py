"""Exact match and F1 as SQuAD 1.1's official scorer computes them, to the bit: for SQuAD, XQuAD and TyDiQA, in every
language (decision 35), English articles and ASCII punctuation and all."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

Normalize = Callable[[str], str]


class QaScores(NamedTuple):
    """One entry per question, in the file's order; 0 for a question without a prediction."""

    exact: list[int]
    f1: list[float]
    unanswered: int


def normalize(text: str) -> str:
    """Lower case, then no ASCII punctuation, then no English articles, then single blanks. The order matters: `A.` is
    an article, but `A-1` has become `a1`."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def scores(
    golds: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str], normalized: Normalize = normalize
) -> QaScores:
    """Scores of each (id, gold answers); the best over its golds. Raises `ValueError` if a question has no gold."""
    found = QaScores([], [], 0)
    for id_, texts in golds:
        if not texts:
            raise ValueError(f"question {id_} has no gold answer: it cannot be scored")
        prediction = predictions.get(id_)
        if prediction is None:
            found = found._replace(unanswered=found.unanswered + 1)
        guess = None if prediction is None else normalized(prediction)
        references = [normalized(text) for text in texts]
        found.exact.append(int(guess in references))
        found.f1.append(0.0 if guess is None else max(f1(guess.split(), each.split()) for each in references))
    return found


def f1(guess: Sequence[str], reference: Sequence[str]) -> float:
    """Of two bags of words. 0 if they share none: so also where both are empty, though these match exactly."""
    same = sum((Counter(guess) & Counter(reference)).values())
    if not same:
        return 0.0
    precision, recall = same / len(guess), same / len(reference)
    return 2 * precision * recall / (precision + recall)


def percent(values: Iterable[float]) -> float:
    """100 times the mean, added up in order, as the official loop does: from Python 3.12 on `sum` rounds otherwise."""
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
    return 100.0 * total / count
