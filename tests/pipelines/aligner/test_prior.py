"""Training that starts from an older model."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from pipelines.aligner import AlignerConfig, AlignmentModel, _native, train
from pipelines.aligner.prior import Counts, added_up, prior_of
from pipelines.aligner.words import Vocabulary
from schemas.errors import ConfigError

GERMAN = [
    ("das Haus", "the house"),
    ("das Buch", "the book"),
    ("ein Buch", "a book"),
    ("ein Haus", "a house"),
    ("Haus das", "the house"),
]
OLDER = [(source.split(), target.split()) for source, target in GERMAN * 10]
NEW = [
    (source.split(), target.split())
    for source, target in (
        ("zebra das Krokodil frisst", "the crocodile eats apple"),
        ("das Krokodil schläft", "the crocodile sleeps"),
        ("ein Krokodil", "a crocodile"),
    )
]


@pytest.fixture(scope="module")
def older() -> AlignmentModel:
    return train(OLDER, AlignerConfig())


def saved(model: AlignmentModel) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def counts(model: AlignmentModel) -> dict[tuple[str, str], int]:
    learnt, words = model.parameters, model.parameters.vocabulary.words
    keys = learnt.keys_K.tolist()
    return {(words[k >> 32], words[k & 0xFFFFFFFF]): n for k, n in zip(keys, learnt.counts_K.tolist(), strict=True)}


def test_a_model_that_knows_nothing_changes_no_byte(older: AlignmentModel) -> None:
    assert saved(train(OLDER, AlignerConfig(), prior=train([], AlignerConfig()))) == saved(older)


def test_learning_from_nothing_more_keeps_the_model(older: AlignmentModel) -> None:
    model = train([], AlignerConfig(), prior=older)
    for name in ("source_frequency_W", "target_frequency_W", "keys_K", "counts_K"):
        assert np.array_equal(getattr(model.parameters, name), getattr(older.parameters, name))
    assert model.parameters.jump_weights == pytest.approx(older.parameters.jump_weights, abs=1e-9)
    assert model.parameters.fertilities == pytest.approx(older.parameters.fertilities, abs=1e-5)


def test_what_the_new_corpus_does_not_touch_stays_as_it_was(older: AlignmentModel) -> None:
    model = train([(["neu"], ["new"])] * 3, AlignerConfig(), prior=older)
    assert counts(model).keys() - counts(older).keys() == {("neu", "new")}
    assert counts(older).items() <= counts(model).items()
    number, number_before = (m.parameters.vocabulary.number("das") for m in (model, older))
    assert model.parameters.source_frequency_W[number] == older.parameters.source_frequency_W[number_before] == 30
    fertilities, before = model.parameters.fertilities[0, number], older.parameters.fertilities[0, number_before]
    assert fertilities == pytest.approx(before, abs=0.001)
    assert np.all(model.parameters.jump_weights >= older.parameters.jump_weights)


def test_a_model_adapts_to_the_words_of_the_text_that_it_aligns(older: AlignmentModel) -> None:
    def found(model: AlignmentModel) -> set[tuple[str, str]]:
        lists = model.align_batch(NEW)
        return {(s[i], t[j]) for (s, t), links in zip(NEW, lists, strict=True) for i, j, _ in links}

    unknown = ("Krokodil", "crocodile")
    adapted = train(NEW, AlignerConfig(), prior=older)
    assert unknown in found(adapted) and ("das", "the") in found(adapted)
    # Three pairs by themselves do not say that `das`, which is not first, is `the`, which is.
    first = [link[:2] for link in adapted.align(*NEW[0])]
    assert (1, 0) in first and (1, 0) not in [link[:2] for link in train(NEW, AlignerConfig()).align(*NEW[0])]


def test_twice_the_weight_is_twice_the_counts_of_words_known_and_new(older: AlignmentModel) -> None:
    vocabulary = Vocabulary(["aal", *older.parameters.vocabulary.words, "zebra"])
    once, twice = (prior_of(older, vocabulary, weight) for weight in (1.0, 2.0))
    assert np.array_equal(twice.links.counts_K, 2 * once.links.counts_K)
    assert np.array_equal(twice.source_frequency_W, 2 * once.source_frequency_W)
    assert np.array_equal(twice.fertilities_WF, 2 * once.fertilities_WF)
    assert twice.jumps == pytest.approx(2 * once.jumps, abs=0.02)
    assert once.source_frequency_W[0] == once.source_frequency_W[-1] == 0
    das, the = vocabulary.number("das"), vocabulary.number("the")
    assert once.source_frequency_W[das] == once.fertilities_WF[0, das].sum().round(2) == 30
    assert dict(zip(*once.links, strict=True))[(das << 32) + the] == counts(older)["das", "the"]
    stem_keys = set(once.stem_links.keys_K.tolist())
    stems = vocabulary.stem_of_word_W
    assert stem_keys == {(int(stems[k >> 32]) << 32) + int(stems[k & 0xFFFFFFFF]) for k in once.links.keys_K.tolist()}
    assert once.stem_links.counts_K.sum() == once.links.counts_K.sum()


def test_weighted_counts_that_round_to_nothing_are_left_out(older: AlignmentModel) -> None:
    weight = 0.6 / older.parameters.counts_K.max()
    kept = prior_of(older, older.parameters.vocabulary, weight).links
    assert 0 < len(kept.keys_K) < len(older.parameters.keys_K) and np.all(kept.counts_K == 1)


def test_counts_of_equal_keys_are_added() -> None:
    one = Counts(np.array([3, 5]), np.array([10, 20]))
    two = added_up(np.array([5, 1, 5]), np.array([1, 2, 4]))
    assert [part.tolist() for part in one.plus(two)] == [[1, 3, 5], [2, 10, 25]]
    nothing = added_up(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert [part.tolist() for part in nothing.plus(one)] == [part.tolist() for part in one.plus(nothing)]


def test_the_model_after_a_second_corpus_can_be_the_prior_of_a_third(older: AlignmentModel) -> None:
    second = train(NEW, AlignerConfig(), prior=older)
    third = train(NEW[::-1], AlignerConfig(), prior=AlignmentModel.load(io.BytesIO(saved(second))))
    ahead = third.parameters.counts_K.sum() - second.parameters.counts_K.sum()
    assert 0.5 < ahead / _native.ONE / len([w for s, _ in NEW for w in s]) < 1.0


@pytest.mark.parametrize("weight", [0.0, -1.0, 1e9, float("nan")])
def test_a_weight_that_cannot_be_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"--aligner\.prior-weight"):
        replace(AlignerConfig(), prior_weight=weight)
