from __future__ import annotations

import pytest

from training.metrics import bootstrap, counting
from training.metrics.tags import Entity

GOLDS = ["B-ORG I-ORG I-ORG O".split(), "B-PER O".split(), "O B-LOC".split()]
TAGS = ["B-ORG I-ORG I-ORG O".split(), "B-LOC O".split(), "O O".split()]
UNRESOLVED = [
    [Entity(0, 3, "ORG"), Entity(2, 3, "LOC")],  # the gold, and one within it
    [Entity(0, 1, "LOC"), Entity(0, 1, "PER")],  # the gold lost to another label
    [],
]


def test_span_f1_is_of_what_was_found_before_overlaps_were_resolved() -> None:
    found = counting.sentences(GOLDS, TAGS, UNRESOLVED)

    values = {name: value for name, (value, _) in found.figures.items()}
    assert values == {
        "f1": pytest.approx(40.0),  # 1 of 2 found, of 3 that there are
        "precision": 50.0,
        "recall": pytest.approx(100 / 3),
        "span_f1": pytest.approx(100 * 2 * 2 / (4 + 3)),  # 2 of 4 found, of 3
    }
    assert found.counts_NK.tolist() == [[1, 1, 1, 1, 2, 1], [0, 1, 1, 1, 2, 1], [0, 0, 1, 0, 0, 1]]


def test_other_figures_and_their_resamples_do_not_change_with_it() -> None:
    without, with_it = counting.sentences(GOLDS, TAGS), counting.sentences(GOLDS, TAGS, UNRESOLVED)

    assert without.figures.keys() == {"f1", "precision", "recall"}
    for name, (value, statistic) in without.figures.items():
        other_value, other = with_it.figures[name]
        assert value == other_value
        left, right = bootstrap.sums(without.counts_NK, 9, 1), bootstrap.sums(with_it.counts_NK, 9, 1)
        assert bootstrap.figures(left, statistic).tolist() == bootstrap.figures(right, other).tolist()
