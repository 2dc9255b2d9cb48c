from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.aligner import AlignerConfig, AlignmentModel, train
from schemas.errors import ConfigError, InputError

GERMAN = [
    ("das Haus", "the house"),
    ("das Buch", "the book"),
    ("ein Buch", "a book"),
    ("ein Haus", "a house"),
    ("das alte Haus", "the old house"),
    ("Haus das", "the house"),
]
CORPUS = [(source.split(), target.split()) for source, target in GERMAN * 10]


@pytest.fixture(scope="module")
def model() -> AlignmentModel:
    return train(CORPUS, AlignerConfig())


def saved(model: AlignmentModel) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def linked(model: AlignmentModel, source: str, target: str) -> list[tuple[int, int]]:
    return [(link.source, link.target) for link in model.align(source.split(), target.split())]


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("das Haus", "the house", [(0, 0), (1, 1)]),
        ("Buch das", "the book", [(0, 1), (1, 0)]),  # an order never seen with this word
        ("das alte Buch", "the old book", [(0, 0), (1, 1), (2, 2)]),
        ("DAS HAUS", "the house", [(0, 0), (1, 1)]),
        ("ein Haus in Hanoi", "a house in Hanoi", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("", "the house", []),
        ("das Haus", "", []),
    ],
)
def test_links(model: AlignmentModel, source: str, target: str, expected: list[tuple[int, int]]) -> None:
    assert linked(model, source, target) == expected


def test_unknown_identical_words_are_linked_across_the_sentence(model: AlignmentModel) -> None:
    assert (0, 3) in linked(model, "Zyx das alte Haus", "the old house Zyx")
    assert (0, 3) in linked(model, "१९८४ das alte Haus", "the old house 1984")


def test_a_model_of_no_pairs_links_by_position() -> None:
    model = train([], AlignerConfig())
    assert linked(model, "Anna Hanoi", "Anna Hanoi") == [(0, 0), (1, 1)]
    assert linked(AlignmentModel.load(io.BytesIO(saved(model))), "Anna Hanoi", "Anna Hanoi") == [(0, 0), (1, 1)]


words = st.lists(st.sampled_from(["das", "haus", "ein", "buch", "alte", "neu", "12", "the", "house"]), max_size=9)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(words, words), max_size=8))
def test_links_are_in_range_sorted_scored_and_the_same_in_any_batch(
    model: AlignmentModel, pairs: list[tuple[list[str], list[str]]]
) -> None:
    model = replace(model, config=replace(model.config, min_score=0.0))  # all scores are compared
    batched = model.align_batch(pairs)
    assert batched == [model.align(source, target) for source, target in pairs]
    for (source, target), links in zip(pairs, batched, strict=True):
        assert links == sorted(links)
        assert len({link[:2] for link in links}) == len(links)
        for link in links:
            assert 0 <= link.source < len(source) and 0 <= link.target < len(target)
            assert 0.0 < link.score <= 1.0 and link.score == round(link.score, 4)


def test_min_score_bounds_the_score(model: AlignmentModel) -> None:
    strict, lax = (replace(model, config=replace(model.config, min_score=score)) for score in (0.999, 0.01))
    pair = ("ein neu Haus".split(), "the house".split())
    assert {*strict.align(*pair)} < {*lax.align(*pair)}
    assert all(link.score > 0.999 for link in strict.align(*pair))


def test_a_side_that_is_too_long_neither_trains_nor_is_linked(model: AlignmentModel) -> None:
    long = ["das"] * 10_000
    assert model.align(long, ["the"]) == model.align(["das"], long) == []
    assert saved(train([*CORPUS, (long, ["the"]), ([], ["the"])], AlignerConfig())) == saved(model)


def test_training_again_in_another_order_gives_the_same_bytes(model: AlignmentModel) -> None:
    assert saved(train(iter(CORPUS[::-1]), AlignerConfig())) == saved(model)


def test_training_in_other_batches_and_parts_gives_the_same_bytes(
    model: AlignmentModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.aligner.reference.batches.BATCH_CELLS", 30)
    monkeypatch.setattr("pipelines.aligner.reference.training.PENDING_COUNTS", 5)
    assert saved(train(CORPUS, AlignerConfig())) == saved(model)


def test_progress_tells_of_every_pass() -> None:
    told: list[str] = []
    train(CORPUS[:6], AlignerConfig(initial_passes=1, hmm_passes=2), told.append)
    assert [line.split(":")[0] for line in told] == ["pass 1 of 3 (Model 2)", "pass 2 of 3 (HMM)", "pass 3 of 3 (HMM)"]


def test_a_saved_model_gives_equal_links_and_bytes(model: AlignmentModel, tmp_path: Path) -> None:
    model.save(str(tmp_path / "de-en.model"))
    loaded = AlignmentModel.load(str(tmp_path / "de-en.model"))
    assert loaded.align_batch(CORPUS) == model.align_batch(CORPUS)
    assert saved(loaded) == saved(model) == (tmp_path / "de-en.model").read_bytes()
    assert loaded.fingerprint() == model.fingerprint()


def test_the_fingerprint_follows_what_decides_links(model: AlignmentModel) -> None:
    stricter = replace(model, config=replace(model.config, min_score=0.5))
    elsewhere = replace(model, config=replace(model.config, model="gs://models/de-en.model"))
    assert model.fingerprint() == elsewhere.fingerprint()
    assert len({model.fingerprint(), stricter.fingerprint(), train(CORPUS[:5], AlignerConfig()).fingerprint()}) == 3


def test_odd_words_survive_the_file() -> None:
    odd: list[tuple[Sequence[str], Sequence[str]]] = [(["a\nb", "\ud800", "\0", ""], ["\u2028", '"', "\\", "é"])]
    model = train(odd, AlignerConfig(min_score=0.0))
    assert AlignmentModel.load(io.BytesIO(saved(model))).align_batch(odd) == model.align_batch(odd)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_model_is_refused(model: AlignmentModel, part: float) -> None:
    data = saved(model)
    with pytest.raises(InputError):
        AlignmentModel.load(io.BytesIO(data[: int(part * len(data))]))


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
def test_a_model_with_one_altered_byte_is_refused(model: AlignmentModel, place: float, flipped: int) -> None:
    data = bytearray(saved(model))
    data[int(place * len(data))] ^= flipped
    with pytest.raises(InputError):
        AlignmentModel.load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "expected a word aligner's model"),
        (b"\x80\x04\x95 a pickle", "expected a word aligner's model"),
        (b'polyspan-aligner/1\n{"arrays": {}}\n', "version 2, found version 1. Train it again"),
        (b"polyspan-aligner/3\n", "version 2, found version 3. Install a newer Polyspan"),
        (b"polyspan-aligner/2\n", "truncated or altered"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "some.model"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        AlignmentModel.load(str(path))
    assert "some.model" in str(caught.value)


def test_a_missing_model_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        AlignmentModel.load(str(tmp_path / "none.model"))


@pytest.mark.parametrize("field, value", [("min_score", 1.5), ("hmm_passes", 0), ("backoff", 0.0), ("identical", -0.1)])
def test_a_configuration_that_cannot_work_is_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"--aligner.{field.replace('_', '-')}"):
        AlignerConfig(**{field: value})  # type: ignore[arg-type]
