"""The compiled aligner against its readable reference, and against itself with threads and in other orders."""

from __future__ import annotations

import gc
import importlib
import io
import pickle
import random
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipelines.aligner
from pipelines.aligner import AlignerConfig, AlignmentModel, _native, reference, train
from pipelines.aligner.reference import fertility, hmm, lexicon

Pairs = list[tuple[list[str], list[str]]]

WORDS = [a + b for a in ("ha", "haus", "buch", "12", "x") for b in ("", "e", "es", "tür")]


def corpus(pairs: int, longest: int, seed: int) -> Pairs:
    """Sentences with a translation that is mostly word for word, in another order now and then."""
    choose = random.Random(seed)
    made = []
    for _ in range(pairs):
        source = choose.choices(WORDS, k=choose.randint(1, longest))
        target = [word[::-1] if choose.random() < 0.8 else choose.choice(WORDS) for word in source]
        if choose.random() < 0.3:
            choose.shuffle(target)
        made.append((source, target[choose.randint(0, 1) :] or ["x"]))
    return made


def saved(model: AlignmentModel) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def test_both_have_one_set_of_constants() -> None:
    assert (_native.ONE, _native.LEAST) == (lexicon.ONE, lexicon.LEAST)
    assert (_native.MAX_JUMP, _native.F) == (hmm.MAX_JUMP, fertility.F)


sentences = st.lists(st.sampled_from([*WORDS, "HAUS", "１２"]), max_size=12)
configs = st.builds(
    AlignerConfig,
    min_score=st.sampled_from([0.0, 0.4]),
    max_words=st.sampled_from([5, 256]),
    initial_passes=st.integers(1, 3),
    hmm_passes=st.integers(1, 3),
    diagonal_tension=st.sampled_from([0.0, 4.0]),
    empty_probability=st.sampled_from([0.0, 0.1]),
    backoff=st.sampled_from([0.5, 10.0]),
    identical=st.sampled_from([0.0, 0.1]),
    jump_smoothing=st.sampled_from([0.5, 3.0]),
    fertility_smoothing=st.sampled_from([0.5, 10.0]),
)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(sentences, sentences), max_size=12), config=configs)
def test_equal_models_and_equal_links(pairs: Pairs, config: AlignerConfig) -> None:
    """To the last byte: integer counts, and real sums in one order (all but those of jumps, which are rounded)."""
    lines: list[str] = []
    model = train(pairs, config, lines.append)
    expected: list[str] = []
    assert saved(model) == saved(reference.train(pairs, config, expected.append))
    assert lines == expected and len(lines) == config.initial_passes + config.hmm_passes
    unknown = [([*source, "neu"], ["neu", "12", *target]) for source, target in pairs]
    assert model.align_batch(pairs + unknown) == reference.align_batch(model, pairs + unknown)
    assert model.directed_links(pairs + unknown) == reference.directed_links(model, pairs + unknown)


@settings(max_examples=60, deadline=None)
@given(
    older=st.lists(st.tuples(sentences, sentences), max_size=6),
    pairs=st.lists(st.tuples(sentences, sentences), max_size=8),
    config=configs,
    weight=st.sampled_from([1e-5, 0.3, 1.0, 7.0]),
)
def test_equal_models_with_an_older_one_as_prior(
    older: Pairs, pairs: Pairs, config: AlignerConfig, weight: float
) -> None:
    prior = train(older, replace(config, jump_smoothing=1.7))
    config = replace(config, prior_weight=weight)
    told: list[list[str]] = [[], []]
    model = train(pairs, config, told[0].append, prior=prior)
    assert saved(model) == saved(reference.train(pairs, config, told[1].append, prior=prior))
    assert told[0] == told[1]
    assert model.align_batch(pairs) == reference.align_batch(model, pairs)


def test_equal_models_and_equal_links_of_long_sentences() -> None:
    """Jumps beyond the farthest that is counted, more words than one block of sums, more pairs than one block."""
    pairs = corpus(150, 8, seed=1) + corpus(8, 120, seed=2)
    config = AlignerConfig(min_score=0.0, hmm_passes=2)
    model = train(pairs, config)
    assert saved(model) == saved(reference.train(pairs, config))
    assert model.align_batch(pairs) == reference.align_batch(model, pairs)
    assert model.directed_links(pairs) == reference.directed_links(model, pairs)


def test_neither_threads_nor_order_change_a_byte_or_what_is_told() -> None:
    pairs = corpus(400, 12, seed=3)
    shuffled = random.Random(4).sample(pairs, len(pairs))
    told: list[list[str]] = [[], [], []]
    model = train(pairs, AlignerConfig(), told[0].append)
    assert saved(model) == saved(train(pairs, AlignerConfig(), told[1].append, threads=4))
    assert saved(model) == saved(train(shuffled, AlignerConfig(), told[2].append))
    assert told[0] == told[1] == told[2]
    more = corpus(300, 12, seed=8)
    shuffled = random.Random(4).sample(more, len(more))
    adapted = saved(train(more, AlignerConfig(), prior=model))
    assert adapted == saved(train(shuffled, AlignerConfig(), prior=model, threads=4)) != saved(model)
    assert model.align_batch(pairs, threads=4) == model.align_batch(pairs)
    assert model.directed_links(pairs, threads=4) == model.directed_links(pairs)


def test_the_corpus_becomes_more_likely_with_every_pass() -> None:
    told: list[str] = []
    train(corpus(400, 12, seed=3), AlignerConfig(), told.append)
    found = [float(re.search(r"log-likelihood (\S+) a word", line)[1]) for line in told]  # type: ignore[index]
    assert found == sorted(found) and found[-1] - found[0] > 0.5


def test_a_side_of_ten_thousand_words_is_refused_by_max_words_or_linked() -> None:
    long = WORDS * 500
    model = train(corpus(50, 6, seed=5), AlignerConfig())
    assert model.align_batch([(long, ["sah"]), (["haus"], ["suah"])]) == [[], model.align(["haus"], ["suah"])]
    patient = replace(model, config=AlignerConfig(max_words=10_000))
    links = patient.align(long, ["suah"])
    assert all(0 <= link.source < len(long) and link.target == 0 for link in links)


def test_a_cell_further_from_the_last_than_sixteen_bits_count_keeps_its_count() -> None:
    far = ["x"] * 300, [f"y{number}" for number in range(300)]  # 90,000 cells that mostly add nothing
    pairs = [(["anna"], ["anna"])] * 3 + [far, (["haus", "anna"], ["haus", "anna"])]
    config = AlignerConfig(max_words=300, initial_passes=3, hmm_passes=1)
    assert saved(train(pairs, config)) == saved(reference.train(pairs, config))


def test_a_model_can_be_pickled_once_it_has_aligned() -> None:
    model = train(corpus(50, 6, seed=6), AlignerConfig())
    links = model.align(["haus"], ["suah"])
    assert pickle.loads(pickle.dumps(model)).align(["haus"], ["suah"]) == links


@pytest.mark.parametrize("is_enabled", [True, False])
def test_making_many_links_does_not_have_python_search_for_garbage(is_enabled: bool) -> None:
    pairs = corpus(3000, 12, seed=5)
    model = train(pairs[:50], AlignerConfig())
    searches: list[str] = []
    try:
        if not is_enabled:
            gc.disable()
        gc.callbacks.append(lambda phase, _: searches.append(phase))
        links = model.align_batch(pairs)
        assert gc.isenabled() == is_enabled
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert sum(map(len, links)) > 10_000 and searches.count("start") < 5


def _corpus_of(**changed: object) -> object:
    words, offsets = np.array([0, 1], np.int32), np.array([0, 2], np.int64)
    given = {"source_words": words, "source_offsets": offsets, "target_words": words, "target_offsets": offsets}
    return _native.Corpus(**{**given, "stem_of_word": np.array([0, 0], np.int32), **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"source_words": np.array([0, 2], np.int32)},
        {"target_words": np.array([-1, 0], np.int32)},
        {"source_offsets": np.array([0, 3], np.int64)},
        {"source_offsets": np.array([], np.int64)},
        {"target_offsets": np.array([0, 1, 2], np.int64)},
        {"source_offsets": np.array([0, 4, 2], np.int64), "target_offsets": np.array([0, 1, 2], np.int64)},
        {"stem_of_word": np.array([0, -1], np.int32)},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changed: dict[str, object]) -> None:
    _corpus_of()
    with pytest.raises(ValueError, match="expected"):
        _corpus_of(**changed)


def test_without_the_compiled_part_the_error_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pipelines.aligner._native", None)
    with pytest.raises(ImportError, match="pip install -e"):
        importlib.reload(pipelines.aligner)
