from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.metrics.entity_f1 import Hits, hits, percent, span_hits
from training.metrics.tags import Entity, entities, iob2

TAGS = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC", "creative-work"))])
SENTENCES = st.lists(st.lists(TAGS, min_size=1, max_size=8), min_size=1, max_size=5)


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("I-PER I-PER O I-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),  # IOB1
        ("I-PER B-PER", [(0, 1, "PER"), (1, 2, "PER")]),  # IOB1: B only where two touch
        ("O I-PER", [(1, 2, "PER")]),  # ill-formed IOB2
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("B-PER E-PER S-PER", [(0, 2, "PER"), (2, 3, "PER")]),  # BIOES
        ("B-PER L-PER U-LOC I-LOC", [(0, 2, "PER"), (2, 3, "LOC"), (3, 4, "LOC")]),  # BILOU, then an ill-formed tag
        ("T-POS T-POS T-NEG", [(0, 2, "POS"), (2, 3, "NEG")]),  # ABSA
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
        ("O O", []),
    ],
)
def test_reads_the_chunks_of_every_scheme(tags: str, expected: list[tuple[int, int, str]]) -> None:
    assert entities(tags.split()) == expected


def conllevals(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Chunks by conlleval's table of boundaries, which names pairs of B, I, E and O; other tags part by type only."""
    ends = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
    begins = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
    found: list[tuple[int, int, str]] = []
    before, kind, start = "O", "", -1
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, its = tag.partition("-")
        other = kind != its
        if start >= 0 and (before + prefix in ends or (before != "O" and other)):
            found.append((start, at, kind))
            start = -1
        if before + prefix in begins or (prefix != "O" and other):
            start = at
        before, kind = prefix, its
    return found


@pytest.mark.parametrize("prefixes", ["BI", "IE", "T"])
def test_reads_iob_and_ioe_as_conlleval_does(prefixes: str) -> None:
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("PER", "LOC"))]
    for length in range(1, 6):
        for sentence in itertools.product(tags, repeat=length):
            assert entities(sentence) == conllevals(sentence), sentence


@pytest.mark.parametrize(
    "tags, ours",
    [
        ("S-PER S-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("B-PER E-PER S-PER", [(0, 2, "PER"), (2, 3, "PER")]),
        ("B-PER E-PER B-PER E-PER", [(0, 2, "PER"), (2, 4, "PER")]),
        ("U-PER B-PER L-PER", [(0, 1, "PER"), (1, 3, "PER")]),
    ],
)
def test_chunks_of_bioes_that_touch_are_apart_where_conlleval_joins_them(
    tags: str, ours: list[tuple[int, int, str]]
) -> None:
    assert entities(tags.split()) == ours
    assert conllevals(tags.split()) == [(0, len(tags.split()), "PER")]


@given(st.lists(st.lists(TAGS, min_size=1), min_size=1, max_size=4))
def test_chunks_of_bioes_that_do_not_touch_are_conllevals(chunks: list[list[str]]) -> None:
    tags = []
    for kind, length in enumerate(map(len, chunks)):  # neighbours differ in type
        middle = [f"I-{kind}"] * (length - 2)
        tags += [f"S-{kind}"] if length == 1 else [f"B-{kind}", *middle, f"E-{kind}"]
    assert entities(tags) == conllevals(tags) and len(entities(tags)) == len(chunks)


@given(st.lists(TAGS))
def test_iob2_keeps_the_entities(tags: list[str]) -> None:
    assert entities(iob2(tags)) == entities(tags)
    assert iob2(iob2(tags)) == iob2(tags)


def test_an_entity_counts_if_boundaries_and_type_are_right() -> None:
    gold = "B-PER I-PER O B-LOC O B-ORG".split()
    predicted = "B-PER I-PER O B-ORG O O".split()
    assert hits(gold, predicted) == (1, 2, 3)
    assert percent(1, 2, 3) == pytest.approx((40.0, 50.0, 100 / 3))


def test_schemes_may_differ() -> None:
    assert hits("I-PER I-PER O".split(), "B-PER E-PER O".split()) == (1, 1, 1)


def test_nothing_predicted_is_zero_not_an_error() -> None:
    assert percent(0, 0, 3) == percent(0, 3, 0) == percent(0, 0, 0) == (0.0, 0.0, 0.0)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="expected 2 tags, one per word; found 1"):
        hits(["O", "O"], ["O"])


def test_span_f1_counts_nested_spans_that_tags_cannot_hold() -> None:
    gold = [Entity(0, 3, "ORG")]
    assert span_hits(gold, [Entity(0, 3, "ORG"), Entity(2, 3, "LOC"), Entity(2, 3, "LOC")]) == (1, 2, 1)


@given(SENTENCES, SENTENCES)
def test_perfect_predictions_score_100_and_nothing_is_counted_twice(
    left: list[list[str]], right: list[list[str]]
) -> None:
    golds = left
    guesses = [(other * 9)[: len(gold)] for gold, other in zip(left, right * len(left), strict=False)]
    found = Hits(*map(sum, zip(*map(hits, golds, guesses), strict=True)))
    assert found.correct <= min(found.predicted, found.gold)
    if found.gold:
        same = Hits(*map(sum, zip(*map(hits, golds, golds), strict=True)))
        assert percent(*same) == (100.0, 100.0, 100.0)


def test_agrees_with_seqeval() -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    kinds = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    golds = [[kinds[(at * at + row) % 5] for at in range(9)] for row in range(30)]
    guesses = [[kinds[(at * at + row * (1 + at % 2)) % 5] for at in range(9)] for row in range(30)]
    found = Hits(*map(sum, zip(*map(hits, golds, guesses), strict=True)))
    assert percent(*found)[0] == pytest.approx(100 * metrics.f1_score(golds, guesses))
