"""Two directed sets of links into one: worked cases, Moses' published definition as oracle, a trained model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.aligner import AlignerConfig, AlignmentModel, train
from pipelines.aligner.symmetrize import (
    SYMMETRIZATIONS,
    align_symmetrized,
    grow_diag_final_and,
    intersect,
    union,
)

LinkSet = set[tuple[int, int]]


@pytest.mark.parametrize(
    "forward, backward, expected",
    [
        (set(), set(), set()),
        ({(0, 0)}, {(0, 0)}, {(0, 0)}),
        ({(0, 0), (0, 1)}, {(0, 0)}, {(0, 0), (0, 1)}),  # grows to a free target word
        ({(0, 0), (1, 1), (1, 0)}, {(0, 0), (1, 1)}, {(0, 0), (1, 1)}),  # beside two links, but both words have one
        ({(0, 0), (1, 1)}, {(0, 0), (2, 2)}, {(0, 0), (1, 1), (2, 2)}),  # diagonally, and on from what was accepted
        ({(0, 0), (0, 2)}, {(0, 0)}, {(0, 0)}),  # not a neighbour; `final` alone would take it, as target 2 is free
        ({(0, 0), (5, 7)}, {(0, 0)}, {(0, 0), (5, 7)}),  # final-and: both words are free
        ({(3, 0), (3, 1)}, {(0, 1)}, {(3, 0), (0, 1)}),  # no intersection; forward first, by target word
        ({(1, 0), (2, 1)}, {(1, 1), (3, 1)}, {(1, 0), (2, 1)}),  # … so forward takes what backward wants
        # (1, 1) and (0, 1) both touch (0, 0); the neighbour that shares a side comes before the diagonal one.
        ({(0, 0), (1, 1)}, {(0, 0), (0, 1), (1, 0)}, {(0, 0), (0, 1), (1, 0)}),
    ],
)
def test_grow_diag_final_and_by_hand(forward: LinkSet, backward: LinkSet, expected: LinkSet) -> None:
    assert grow_diag_final_and(forward, backward) == expected


def as_published(forward: LinkSet, backward: LinkSet, targets: int, sources: int) -> LinkSet:
    """The Moses manual's pseudo-code, line by line; e are target words, f source words."""
    neighboring = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    e2f, f2e = ({(j, i) for i, j in links} for links in (forward, backward))
    alignment = e2f & f2e

    def free(e: int, f: int) -> tuple[bool, bool]:
        return all(e != other for other, _ in alignment), all(f != other for _, other in alignment)

    added = True
    while added:
        added = False
        for e in range(targets):
            for f in range(sources):
                if (e, f) in alignment:
                    for de, df in neighboring:
                        new = (e + de, f + df)
                        if new not in alignment and any(free(*new)) and new in e2f | f2e:
                            alignment.add(new)
                            added = True
    for directed in (e2f, f2e):
        for e in range(targets):
            for f in range(sources):
                if all(free(e, f)) and (e, f) in directed:
                    alignment.add((e, f))
    return {(f, e) for e, f in alignment}


@st.composite
def directed_pairs(draw: st.DrawFn) -> tuple[LinkSet, LinkSet, int, int]:
    """Any two functional sets of links of a sentence pair; -1: the word has no link."""
    sources, targets = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    of_target = draw(st.lists(st.integers(-1, sources - 1), min_size=targets, max_size=targets))
    of_source = draw(st.lists(st.integers(-1, targets - 1), min_size=sources, max_size=sources))
    forward = {(i, j) for j, i in enumerate(of_target) if i >= 0}
    backward = {(i, j) for i, j in enumerate(of_source) if j >= 0}
    return forward, backward, targets, sources


@given(directed_pairs())
def test_grow_diag_final_and_is_what_moses_publishes(case: tuple[LinkSet, LinkSet, int, int]) -> None:
    forward, backward, _, _ = case
    found = grow_diag_final_and(forward, backward)
    assert found == as_published(*case)
    assert intersect(forward, backward) <= found <= union(forward, backward)


PAIRS = [
    (["a", "b"], ["x", "y"]),
    (["b", "a"], ["y", "x"]),
    (["a", "c"], ["x", "z"]),
    (["c", "b"], ["z", "y"]),
] * 3


@pytest.fixture(scope="module")
def model() -> AlignmentModel:
    return train(PAIRS, AlignerConfig())


def test_directed_links_give_each_word_at_most_one_partner(model: AlignmentModel) -> None:
    forward, backward = model.directed_links([(["a", "b", "c"], ["x", "y"])])[0]
    assert sorted(link.target for link in forward) == [0, 1]
    assert [link.source for link in backward] == sorted({link.source for link in backward})
    assert {link[:2] for link in forward} >= {(0, 0), (1, 1)}


@pytest.mark.parametrize("symmetrization", list(SYMMETRIZATIONS))
def test_every_rule_finds_the_plain_case_with_the_scores_of_align(model: AlignmentModel, symmetrization: str) -> None:
    pairs = [(["b", "c"], ["y", "z"]), ([], ["x"]), (["c", "b"], ["z", "y"])]
    assert align_symmetrized(model, pairs, symmetrization) == model.align_batch(pairs)
    assert [len(links) for links in model.align_batch(pairs)] == [2, 0, 2]
