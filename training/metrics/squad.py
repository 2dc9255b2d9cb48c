"""Computes exact match and F1 exactly as SQuAD 1.1's official scorer does, for SQuAD, XQuAD and TyDiQA. In every
language, only English articles and ASCII punctuation are deleted (decision 35)."""

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
    """Each list has an entry per question, in the file's order: 0 for a question without a prediction."""

    exact: list[int]
    f1: list[float]
    unanswered: int


def normalize(text: str) -> str:
    """Lower-cases the text, deletes ASCII punctuation, deletes English articles, and reduces blanks. The order matters:
    `A.` is deleted as an article, but `A-1` becomes `a1`."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def scores(
    golds: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str], normalized: Normalize = normalize
) -> QaScores:
    """Scores each (id, gold answers) by the best of the answers. Raises `ValueError` if a question has none."""
    result = QaScores([], [], 0)
    for id_, texts in golds:
        if not texts:
            raise ValueError(f"question {id_} has no gold answer: it cannot be scored")
        prediction = predictions.get(id_)
        if prediction is None:
            result = result._replace(unanswered=result.unanswered + 1)
        guess = None if prediction is None else normalized(prediction)
        references = [normalized(text) for text in texts]
        result.exact.append(int(guess in references))
        result.f1.append(
            0.0 if guess is None else max(f1(guess.split(), reference.split()) for reference in references)
        )
    return result


def f1(guess: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the F1 of two bags of words: 0 if they share no word, also where both are empty and so match exactly."""
    same = sum((Counter(guess) & Counter(reference)).values())
    if not same:
        return 0.0
    precision, recall = same / len(guess), same / len(reference)
    return 2 * precision * recall / (precision + recall)


def percent(values: Iterable[float]) -> float:
    """Returns 100 times the mean. Adds in order as the official loop does: `sum` of Python 3.12 rounds differently."""
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
    return 100.0 * total / count
