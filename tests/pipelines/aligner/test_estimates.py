"""The estimates of training, each against its definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.estimates import smoothed_fertilities
from pipelines.aligner.reference import model2
from pipelines.aligner.reference.batches import batch_positions, key, make_batch
from pipelines.aligner.reference.fertility import F, fertility_distribution, reweighted
from pipelines.aligner.reference.hmm import Posteriors
from pipelines.aligner.reference.lexicon import ONE, Lexicon, PairCounts
from pipelines.aligner.words import Vocabulary

CONFIG = AlignerConfig(backoff=8.0, identical=0.25)


def table(counts: dict[tuple[int, int], float]) -> PairCounts:
    pairs = sorted(counts)
    return PairCounts(
        key(np.array([source for source, _ in pairs]), np.array([target for _, target in pairs])),
        np.array([round(counts[pair] * ONE) for pair in pairs]),
    )


def test_leave_one_out_probability_of_every_cell() -> None:
    """p(f | e) = (c - q + κB) / (c_e - q + κ), B of the same form over stems, times p(f | stem of f)."""
    words = ["casa", "casas", "house", "houses", "x"]
    vocabulary = Vocabulary(words)
    casa, casas, house, houses, x = range(5)
    source_frequency, target_frequency = np.array([5, 2, 0, 0, 1]), np.array([0, 0, 4, 1, 3])
    counts = {(casa, house): 3.0, (casa, x): 1.0, (casas, houses): 1.0, (x, x): 0.5}
    lexicon = Lexicon(vocabulary, source_frequency, target_frequency, table(counts))
    (source, target), stem_of_word = vocabulary.encode([["casa", "x", "new"], ["house", "x", "casa"]])
    batch = make_batch([(source, target)], [0])
    own = np.full((3, 3, 2), 0.25)

    forward, _ = lexicon.probabilities(batch, stem_of_word, own, CONFIG)

    def stem(word: str) -> str:
        return word[:4]

    def expected(e: str, f: str) -> Any:
        def linked(match: Any) -> float:
            return sum(count for (s, t), count in counts.items() if match(words[s], words[t]))

        kappa, same, q = CONFIG.backoff, CONFIG.identical, 0.25
        of_stem = sum(n for word, n in zip(words, target_frequency, strict=True) if stem(word) == stem(f))
        of_word = target_frequency[words.index(f)] if f in words else 0
        stems = {stem(word) for word in words}
        frequency = (of_stem + 0.5) / (target_frequency.sum() + 0.5 * (len(stems) + 1))
        prior = (1 - same) * frequency + same * (stem(e) == stem(f))
        by_stem = (linked(lambda s, t: (stem(s), stem(t)) == (stem(e), stem(f))) - q + kappa * prior) / (
            linked(lambda s, _: stem(s) == stem(e)) - q + kappa
        )
        backed_off = (1 - same) * by_stem * (of_word + 0.5) / (of_stem + 1) + same * (e == f)
        return (linked(lambda s, t: (s, t) == (e, f)) - q + kappa * backed_off) / (
            linked(lambda s, _: s == e) - q + kappa
        )

    for (i, e), (j, f) in itertools.product(enumerate(["casa", "x", "new"]), enumerate(["house", "x", "casa"])):
        assert forward[i, j, 0] == pytest.approx(expected(e, f), rel=1e-4), (e, f)
    assert not forward[:, :, 1].any()  # the padding of a batch of one


def test_the_reverse_probability_is_that_of_the_reversed_lexicon() -> None:
    vocabulary = Vocabulary(["das", "haus", "house", "the"])
    frequencies = np.array([3, 2, 0, 0]), np.array([0, 0, 2, 4])
    counts = {(0, 3): 2.5, (1, 2): 1.5, (1, 3): 0.5}
    (source, target), stem_of_word = vocabulary.encode([["das", "haus"], ["the", "house", "new"]])
    lexicon = Lexicon(vocabulary, *frequencies, table(counts))
    reversed_lexicon = Lexicon(vocabulary, *frequencies[::-1], table({(t, s): n for (s, t), n in counts.items()}))
    _, backward = lexicon.probabilities(make_batch([(source, target)], [0]), stem_of_word, 0.125, CONFIG)
    forward, _ = reversed_lexicon.probabilities(make_batch([(target, source)], [0]), stem_of_word, 0.125, CONFIG)
    assert (backward == forward.swapaxes(0, 1)).all()


def test_counts_add_up() -> None:
    total = PairCounts.added_up([table({(0, 1): 1.0, (2, 0): 0.5}), table({(0, 1): 0.25, (1, 1): 2.0})])
    found = total.of(np.array([0, 1, 2, 0, 9]), np.array([1, 1, 0, 0, 9]))
    np.testing.assert_allclose(found, [1.25, 2.0, 0.5, 0.0, 0.0], atol=1 / ONE)


def test_model2_posterior_is_prior_times_emission_over_their_sum() -> None:
    emission, empty = np.array([[0.5, 0.1], [0.25, 0.3]]), np.array([0.2, 0.4])
    found, log_likelihood = model2.posteriors(
        emission[:, :, None], empty[:, None], np.array([2]), np.array([2]), 4.0, 0.1
    )
    near, far = 0.9 / (1 + np.exp(-2.0)), 0.9 * np.exp(-2.0) / (1 + np.exp(-2.0))
    joint = emission * [[near, far], [far, near]]
    np.testing.assert_allclose(found[:, :, 0], joint / (joint.sum(axis=0) + 0.1 * empty), rtol=1e-6)
    np.testing.assert_allclose(np.exp(log_likelihood), [np.prod(joint.sum(axis=0) + 0.1 * empty)], rtol=1e-6)


def test_fertility_distribution_is_that_of_all_subsets_of_words() -> None:
    chances = [0.9, 0.5, 0.2]
    expected = np.zeros(F)
    for taken in itertools.product([0, 1], repeat=3):
        expected[sum(taken)] += np.prod([p if one else 1 - p for p, one in zip(chances, taken, strict=True)])
    found = fertility_distribution(np.array(chances)[None, :, None])
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-12)


def test_the_last_fertility_is_that_many_or_more() -> None:
    assert fertility_distribution(np.ones((1, 2 * F, 1)))[0, 0].tolist() == [0.0] * (F - 1) + [1.0]


def test_a_word_of_one_translation_gives_up_its_weaker_second() -> None:
    counts = np.zeros((2, F))
    counts[0, 1], counts[1, 0] = 1000.0, 1000.0  # word 0 has always one translation, word 1 none
    fertilities = smoothed_fertilities(counts, 1.0)
    assert fertilities.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)
    states = np.array([[0.9, 0.5], [0.05, 0.4]])[:, :, None]
    before = Posteriors(states, 1.0 - states.sum(axis=0), np.zeros(1), np.zeros(1))
    after = reweighted(before, np.array([[0], [0]]), fertilities)
    assert after.states_STB[0, 1, 0] < 0.5 < after.states_STB[1, 1, 0]
    np.testing.assert_allclose(after.states_STB.sum(axis=0) + after.empty_TB, 1.0)


def test_batches_hold_every_usable_pair_once() -> None:
    lengths = [(3, 4), (0, 2), (2, 0), (300, 2), (1, 1), (200, 200), (3, 4)]
    groups = list(batch_positions(lengths, max_words=256))
    assert sorted(position for group in groups for position in group) == [0, 4, 5, 6]
