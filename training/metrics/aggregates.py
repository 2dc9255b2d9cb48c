"""Averages over languages and tasks as XTREME does, and the transfer gap."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS = {"classification": ("paws_x", "xnli"), "tagging": ("wikiann",), "qa": ("xquad", "mlqa", "tydiqa")}
"""XTREME's groups of tasks (Hu et al. 2020). Part-of-speech tagging and retrieval are missing here."""


def mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def xtreme_qa(exact_match: float, f1: float) -> float:
    """Returns XTREME's number for a question answering task: the mean of the two averages over languages."""
    return (exact_match + f1) / 2


def xtreme_task(figures: Mapping[str, float]) -> float:
    """Returns XTREME's number of a task from its figures' averages over the languages: of questions the mean of exact
    match and F1, of entities F1, of pairs the accuracy."""
    if "exact_match" in figures:
        return xtreme_qa(figures["exact_match"], figures["f1"])
    return figures["f1"] if "f1" in figures else figures["accuracy"]


def xtreme(scores: Mapping[str, float]) -> dict[str, float]:
    """Returns the mean of each group that is complete, and as `all` the mean over all tasks."""
    groups = {
        group: mean({task: scores[task] for task in tasks})
        for group, tasks in GROUPS.items()
        if all(task in scores for task in tasks)
    }
    return groups | {"all": mean(scores)}


def transfer_gap(scores: Mapping[str, float], source: str = "en") -> float | None:
    """Returns the source language's score minus the mean of the others (X-Mixup, section 1 and table 8); None if either
    is missing."""
    others = {lang: score for lang, score in scores.items() if lang != source}
    return scores[source] - mean(others) if others and source in scores else None
