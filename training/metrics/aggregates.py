"""From languages to one number: XTREME's averages, and the gap that transfer leaves."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS = {"classification": ("paws_x", "xnli"), "tagging": ("wikiann",), "qa": ("xquad", "mlqa", "tydiqa")}
"""XTREME's (Hu et al. 2020), as far as the tasks are here: it has part-of-speech tagging and retrieval besides."""


def mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def xtreme_qa(exact_match: float, f1: float) -> float:
    """XTREME's one number of a question answering task: the mean of the two averages over languages."""
    return (exact_match + f1) / 2


def xtreme(scores: Mapping[str, float]) -> dict[str, float]:
    """Group → mean of its tasks' numbers, for groups whose tasks are all there; `all`: the mean over every task."""
    found = {
        group: mean({task: scores[task] for task in tasks})
        for group, tasks in GROUPS.items()
        if all(task in scores for task in tasks)
    }
    return found | {"all": mean(scores)}


def transfer_gap(scores: Mapping[str, float], source: str = "en") -> float | None:
    """The source language's score less the mean of the others' (X-Mixup, 1 and table 8); None if either is missing."""
    others = {lang: score for lang, score in scores.items() if lang != source}
    return scores[source] - mean(others) if others and source in scores else None
