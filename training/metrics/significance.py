"""Tests whether two methods differ on a task: a paired bootstrap over examples, and a permutation test over runs.

N examples, K columns whose sums over the examples give a figure, C clusters, R resamples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from training.metrics import bootstrap

_MOST_RUNS = 16  # of both methods together, in a permutation test: 12,870 divisions


class LangScores(NamedTuple):
    """The counts of one run on one language. Examples with equal `clusters` are one question in several languages;
    without clusters, no example has translations."""

    counts_NK: np.ndarray
    statistic: Callable[..., float]  # of the K sums, in percent
    clusters: Sequence[Hashable] | None = None  # one for each example


class Comparison(NamedTuple):
    difference: float  # of the second method's mean from the first one's, in percentage points
    interval: tuple[float, float]
    p: float


def cluster_numbers(langs: Sequence[LangScores]) -> dict[Hashable, int]:
    """Returns cluster → its number. Clusters are numbered in the order in which the languages first have them."""
    numbers: dict[Hashable, int] = {}
    for lang in langs:
        for cluster in lang.clusters or ():
            numbers.setdefault(cluster, len(numbers))
    return numbers


def resampled_means(
    langs: Sequence[LangScores], numbers: Mapping[Hashable, int], resamples: int, seed: int
) -> np.ndarray:
    """Returns the figure's mean over the languages in each resample of the C clusters, (R,), in percent. A language
    without clusters is resampled by itself."""
    means_R = np.zeros(resamples)
    for place, lang in enumerate(langs):
        if lang.clusters is None:
            sums_RK = bootstrap.sums(lang.counts_NK, resamples, seed + place)
        else:
            by_cluster_CK = np.zeros((len(numbers), lang.counts_NK.shape[1]))
            np.add.at(by_cluster_CK, [numbers[cluster] for cluster in lang.clusters], lang.counts_NK)
            sums_RK = bootstrap.sums(by_cluster_CK, resamples, seed)
        means_R += bootstrap.figures(sums_RK, _zero_if_empty(lang.statistic)) / len(langs)
    return means_R


def paired_bootstrap(
    first: Sequence[Sequence[LangScores]],
    second: Sequence[Sequence[LangScores]],
    resamples: int,
    seed: int = 1,
    confidence: float = 0.95,
) -> Comparison:
    """Compares two methods on the same examples: each has one or more runs, each run its languages in the same order.

    A method's figure is the mean over its languages and runs. Each resample draws clusters with replacement, the same
    for both methods and all languages: the translations of one question are no independent examples. p is two-sided:
    the share of resamples, with one added to both counts, whose difference is at least as far from the observed one as
    that is from 0 (Efron and Tibshirani 1993, chapter 16, with the resamples moved to a mean of 0). Seeds are not
    resampled: the test says whether these runs differ on other examples of the kind.
    """
    numbers = cluster_numbers(first[0])
    observed = _mean_of_runs(second) - _mean_of_runs(first)
    difference_R = np.mean([resampled_means(run, numbers, resamples, seed) for run in second], axis=0) - np.mean(
        [resampled_means(run, numbers, resamples, seed) for run in first], axis=0
    )
    far = np.abs(difference_R - observed) >= abs(observed) - 1e-9
    return Comparison(observed, bootstrap.interval(difference_R, confidence), (1 + int(far.sum())) / (1 + resamples))


def permutation_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns the exact two-sided p of a permutation test over runs: the share of all divisions of the runs into two
    groups of these sizes whose means differ at least as much.

    None for fewer than three runs of a method, where p cannot be below 0.1, and for more than 16 runs together.
    """
    runs = [*first, *second]
    if min(len(first), len(second)) < 3 or len(runs) > _MOST_RUNS:
        return None
    total, size = math.fsum(runs), len(first)

    def difference(sum_of_first: float) -> float:
        return abs(sum_of_first / size - (total - sum_of_first) / len(second))

    observed = difference(math.fsum(first))
    found = [difference(math.fsum(group)) >= observed - 1e-9 for group in itertools.combinations(runs, size)]
    return sum(found) / len(found)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p values corrected for their number (Holm 1979), in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def mean_of(langs: Sequence[LangScores]) -> float:
    """Returns the figure's mean over the languages, in percent."""
    return math.fsum(lang.statistic(*lang.counts_NK.sum(axis=0).tolist()) for lang in langs) / len(langs)


def _mean_of_runs(runs: Sequence[Sequence[LangScores]]) -> float:
    return math.fsum(map(mean_of, runs)) / len(runs)


def _zero_if_empty(statistic: Callable[..., float]) -> Callable[..., float]:
    """Returns the statistic, and 0 for a resample that has no example of the language."""

    def of(*sums: float) -> float:
        return statistic(*sums) if any(sums) else 0.0

    return of
