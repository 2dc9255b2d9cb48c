"""The file of a trained aligner: mapped and shared, and whatever is done to it, refused or read, never a crash."""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.aligner import AlignerConfig, AlignmentModel, model_file, reference, train
from pipelines.aligner.model import _TABLE_TYPES, _VOCABULARY_TYPES
from pipelines.aligner.text import TrainingText
from pipelines.aligner.words import Vocabulary, stem
from schemas.errors import InputError
from schemas.languages import LanguagePair

WORDS = ["haus", "häuser", "hausboot", "a", "буква", "буквы", "家", "\ud800", "das", "12"]
TYPES = _VOCABULARY_TYPES | _TABLE_TYPES
TEXT = TrainingText(LanguagePair("de", "en"), ({"tokenizer": "spacy:de", "spacy": "3.8"}, {"tokenizer": "white space"}))
UNKNOWN = [(["haus", "neu", "hausmann", ""], ["neu", "a", "house", ""]), ([], ["a"]), ([], [])]


def _pairs() -> list[tuple[list[str], list[str]]]:
    choose = random.Random(1)
    sources = [choose.choices(WORDS, k=choose.randint(1, 6)) for _ in range(40)]
    return [(source, [word[::-1] for word in source]) for source in sources]


PAIRS = _pairs()


@pytest.fixture(scope="module")
def model() -> AlignmentModel:
    return replace(train(PAIRS, AlignerConfig(min_score=0.0)), text=TEXT)


@pytest.fixture(scope="module")
def data(model: AlignmentModel) -> bytes:
    return saved(model)


def saved(model: AlignmentModel) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def load(data: bytes) -> AlignmentModel:
    return AlignmentModel.load(io.BytesIO(data))


def content(data: bytes) -> model_file.Content:
    return model_file.decode(data, "the model", TYPES)


def written(changed: model_file.Content) -> bytes:
    """A file whose checksum holds, as another program might write it, or somebody who wants to do harm."""
    file = io.BytesIO()
    model_file.write(file, changed)
    return file.getvalue()


def usable(data: bytes) -> bool:
    """Whether it is read and gives links that are in range; otherwise it is refused."""
    try:
        model = load(data)
    except InputError:
        return False
    pairs = [*PAIRS, *UNKNOWN]
    for (source, target), links in zip(pairs, model.align_batch(pairs), strict=True):
        assert all(0 <= link.source < len(source) and 0 <= link.target < len(target) for link in links)
    return True


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_local_file_is_mapped_and_its_tables_are_used_where_they_lie(model: AlignmentModel, tmp_path: Path) -> None:
    model.save(str(tmp_path / "m.model"))
    loaded = AlignmentModel.load(str(tmp_path / "m.model"))
    for array in (*loaded.tables.vocabulary.arrays, *loaded.tables.arrays.values()):
        address, base = array.__array_interface__["data"][0], array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)
        assert address % 64 == 0 and not array.flags.writeable
    assert loaded.align_batch(PAIRS + UNKNOWN) == model.align_batch(PAIRS + UNKNOWN)
    assert loaded.directed_links(PAIRS) == model.directed_links(PAIRS)


def test_the_reference_aligns_with_what_was_read(data: bytes) -> None:
    loaded = load(data)
    assert reference.align_batch(loaded, PAIRS) == loaded.align_batch(PAIRS)
    assert saved(replace(loaded.parameters.model(loaded.config), text=loaded.text)) == data


def test_what_is_no_plain_file_is_read(data: bytes, model: AlignmentModel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    assert AlignmentModel.load(str(tmp_path / "pipe")).fingerprint() == model.fingerprint()
    writer.join()


def test_saving_over_a_model_in_use_leaves_it_its_tables(model: AlignmentModel, tmp_path: Path) -> None:
    path = str(tmp_path / "m.model")
    model.save(path)
    loaded = AlignmentModel.load(path)
    train([], AlignerConfig()).save(path)
    assert loaded.align_batch(PAIRS) == model.align_batch(PAIRS)
    loaded.save(path)
    assert AlignmentModel.load(path).align_batch(PAIRS) == model.align_batch(PAIRS)
    assert os.listdir(tmp_path) == ["m.model"]


def test_the_text_that_trained_it_is_kept_and_may_be_unknown(model: AlignmentModel, data: bytes) -> None:
    assert load(data).text == TEXT
    assert load(saved(replace(model, text=None))).text is None
    assert load(saved(replace(model, text=None))).align_batch(PAIRS) == model.align_batch(PAIRS)


def test_the_fingerprint_is_the_second_line_and_survives_pickling(model: AlignmentModel, data: bytes) -> None:
    assert data.splitlines()[1].decode() == model.fingerprint()
    model.align_batch(PAIRS)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.fingerprint() == model.fingerprint() and copy.align_batch(PAIRS) == model.align_batch(PAIRS)


# --- what is refused --------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@example(place=0.0, mask=1)
def test_any_altered_byte_is_noticed(data: bytes, place: float, mask: int) -> None:
    altered = bytearray(data)
    altered[int(place * len(data))] ^= mask
    with pytest.raises(InputError):
        load(bytes(altered))


def test_a_file_cut_anywhere_or_continued_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    for length in [*range(700), *range(700, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"m\.model"):
            AlignmentModel.load(str(path))
    path.write_bytes(data + b"\0")
    with pytest.raises(InputError, match="truncated or altered"):
        AlignmentModel.load(str(path))


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(TYPES)),
    place=st.floats(0, 1, exclude_max=True),
    value=st.one_of(st.sampled_from([0, 1, -1, 2, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]), st.integers(0, 50)),
)
def test_no_number_in_a_table_leads_a_look_up_astray(data: bytes, name: str, place: float, value: int) -> None:
    """One number altered, with a checksum that holds: refused, or read and used within its bounds."""
    arrays, about = content(data)
    array = arrays[name].copy()
    bits = array.reshape(-1).view(f"<i{array.itemsize}")
    bits[int(place * len(bits))] = np.array([value]).astype(bits.dtype)[0]
    usable(written(model_file.Content({**arrays, name: array}, about)))


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(TYPES)), keep=st.floats(0, 1, exclude_max=True))
def test_a_table_of_another_length_is_refused(data: bytes, name: str, keep: float) -> None:
    arrays, about = content(data)
    shorter = arrays[name][: int(keep * len(arrays[name]))]
    for array in (shorter, np.concatenate([arrays[name], arrays[name][-1:]])):
        assert not usable(written(model_file.Content({**arrays, name: array}, about)))


def _set(name: str, value: object) -> Callable[[dict[str, np.ndarray[Any, Any]]], None]:
    return lambda arrays: arrays[name].__setitem__(0, value)


def _fill(arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """No free place is left in the tables of the words: a look-up of another word would never end."""
    free = arrays["word_targets"] == 0xFFFFFFFF
    free[:4] = False
    arrays["word_targets"][free] = 0


@pytest.mark.parametrize(
    "alter, message",
    [
        (_set("word_offsets", 1), "offsets"),
        (_set("words", 255), "words in ascending order"),
        (_set("stem_of_word", 1), "stems"),
        (_set("word_starts", 0), "buckets"),
        (_set("stem_starts", 2), "buckets"),
        (_set("word_targets", 3), "pairs of known words"),
        (_set("stem_counts", 1.0), "counts"),
        (_set("word_counts", np.nan), "counts"),
        (_fill, "empty place"),
        (_set("source_word_links", -1.0), "sums"),
        (_set("target_stem_frequency", np.inf), "sums"),
        (_set("jumps", 0.0), "jump weights"),
        (_set("fertilities", np.nan), "fertilities"),
    ],
)
def test_tables_that_cannot_be_are_refused_with_a_reason(
    data: bytes, alter: Callable[[dict[str, np.ndarray[Any, Any]]], None], message: str
) -> None:
    arrays, about = content(data)
    altered = {name: array.copy() for name, array in arrays.items()}
    alter(altered)
    with pytest.raises(InputError, match=f"contradicts itself: expected .*{message}.* Train it again"):
        load(written(model_file.Content(altered, about)))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.clear(),
        lambda header: header.pop("config"),
        lambda header: header.pop("text"),
        lambda header: header.update(text=[1]),
        lambda header: header.update(text={"source": "en", "target": "vi", "words": [{}]}),
        lambda header: header.update(config=3),
        lambda header: header["config"].update(min_score=7.0),
        lambda header: header["config"].update(min_score="much"),
        lambda header: header["config"].update(unheard_of=1),
        lambda header: header.update(arrays=[]),
        lambda header: header["arrays"].pop("jumps"),
        lambda header: header["arrays"].update(more=["<f8", [1]]),
        lambda header: header["arrays"].update(words=["|u1", [-1]]),
        lambda header: header["arrays"].update(words=["|u1", [1 << 62]]),
        lambda header: header["arrays"].update(words=["|u1", [1.5]]),
        lambda header: header["arrays"].update(words=["|u1", []]),
        lambda header: header["arrays"].update(jumps=["<i8", [2, 101]]),
        lambda header: header["arrays"].update(jumps=["<f8", [202]]),
    ],
)
def test_a_header_that_cannot_be_is_refused(data: bytes, change: Callable[[dict[str, Any]], object]) -> None:
    start, _, line, rest = data.split(b"\n", 3)
    header = json.loads(line)
    change(header)
    changed = json.dumps(header).encode() + b"\n" + rest
    digest = model_file.hashlib.blake2b(changed, digest_size=16).hexdigest().encode()
    with pytest.raises(InputError):
        load(b"\n".join([start, digest, changed]))


def with_header(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with another header, a checksum that holds, and the arrays where they belong."""
    start, _, line, rest = data.split(b"\n", 3)
    header = json.loads(line)
    change(header)
    return signed(start, padded(json.dumps(header).encode(), len(line)), rest)


def padded(header: bytes, length: int) -> bytes:
    """With blanks at its end, so that what stands behind it is aligned as it was."""
    return header + b" " * ((length - len(header)) % 64)


def signed(start: bytes, header: bytes, rest: bytes) -> bytes:
    changed = header + b"\n" + rest
    digest = model_file.hashlib.blake2b(changed, digest_size=16).hexdigest().encode()
    return b"\n".join([start, digest, changed])


def _config(**values: object) -> Callable[[dict[str, Any]], object]:
    return lambda header: header["config"].update(values)


@pytest.mark.parametrize(
    "change, message",
    [
        (_config(max_words=10_001), "config.max_words is 10001: expected a whole number from 1 to 10,000"),
        (_config(max_words=2**70), "config.max_words is 1180591620717411303424: expected a whole"),
        (_config(max_words=10**1000), "config.max_words is a huge number: expected a whole"),
        (_config(max_words=256.0), "config.max_words is 256.0: expected a whole"),
        (_config(max_words=True), "config.max_words is True: expected a whole"),
        (_config(max_words=None), "config.max_words is None: expected a whole"),
        (_config(training_pairs=float("inf")), "config.training_pairs is inf: expected a whole"),
        (_config(min_score=float("nan")), "config.min_score is nan: expected a number from 0 to below 1"),
        (_config(backoff=float("inf")), "config.backoff is inf: expected a number above 0"),
        (_config(backoff="much"), "config.backoff is 'much': expected a number above 0"),
        (_config(diagonal_tension=float("nan")), "config.diagonal_tension is nan"),
        (_config(jump_smoothing=0), "config.jump_smoothing is 0"),
        (_config(prior_weight=[]), r"config.prior_weight is \[\]"),
        (_config(model=3), "config.model is 3: expected a path"),
        (_config(unheard_of=1), "config has an unknown field, 'unheard_of'"),
        (lambda header: header["config"].pop("backoff"), "config has no backoff"),
        (lambda header: header["text"].update(source="\x1b[2J"), "text.source: expected the code of a language"),
        (lambda header: header["text"].update(source="sl"), "text.source is 'sl': expected one of ar bg"),
        (lambda header: header["text"].update(words=[{}, {}]), "text.words: expected a tokenizer"),
        (lambda header: header["text"]["words"][0].update(spacy=3), "text.words: expected a tokenizer"),
        (lambda header: header["arrays"].update(words=["|u1", [1 << 70]]), "arrays.words: expected numbers of type"),
        (lambda header: header["arrays"].update(words=["|u1", [1 << 40]]), "arrays.words does not end where the file"),
        (lambda header: header.update(arrays=None), "expected the arrays words, word_offsets"),
        (lambda header: header.update(more=1), "its header to have arrays, config and text"),
    ],
)
def test_a_header_that_cannot_be_is_refused_by_its_field(
    data: bytes, change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "m.model").write_bytes(with_header(data, change))
    with pytest.raises(InputError, match=rf"m\.model: .*{message}.*\. Train it again\."):
        AlignmentModel.load(str(tmp_path / "m.model"))


@settings(max_examples=300, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
@example(place=0.0, byte=0xFF, cut=False)  # no UTF-8
def test_no_byte_of_a_header_leads_to_another_error(data: bytes, place: float, byte: int, cut: bool) -> None:
    """One byte of the header altered or left out, with a checksum that holds."""
    start, _, header, rest = data.split(b"\n", 3)
    at = int(place * len(header))
    altered = header[:at] + (b"" if cut else bytes([byte])) + header[at + 1 :]
    usable(signed(start, padded(altered, len(header)), rest))


@pytest.mark.parametrize(
    "header", [b"[" * 100_000, b'{"config": ' + b"9" * 5000 + b"}", b"3", b"\xff", b"{}" * 600_000]
)
def test_what_is_no_header_is_refused(data: bytes, header: bytes) -> None:
    start, _, _, rest = data.split(b"\n", 3)
    with pytest.raises(InputError, match=r"does not hold what it should|truncated or altered"):
        load(signed(start, header, rest))


@pytest.mark.parametrize("words, message", [(b"\x80\xff", "in UTF-8"), ("ab".encode("utf-16")[:1] * 2, "in UTF-8")])
def test_words_that_are_no_text_are_refused(data: bytes, words: bytes, message: str) -> None:
    arrays, about = content(data)
    text = arrays["words"].copy()
    text[-2:] = np.frombuffer(words, np.uint8)  # of the last word, so that words ascend still
    with pytest.raises(InputError, match=message):
        load(written(model_file.Content({**arrays, "words": text}, about)))


def test_a_word_that_begins_within_a_character_is_refused() -> None:
    text = np.frombuffer("aé".encode(), np.uint8)
    with pytest.raises(ValueError, match="whole characters"):
        Vocabulary.of_arrays(text, np.array([0, 2, 3]), np.array([0, 1], np.int32))


def test_a_prior_of_impossible_counts_is_refused(data: bytes) -> None:
    arrays, about = content(data)
    for name in ("word_counts", "source_word_frequency", "jumps"):
        altered = arrays[name].copy()
        altered.reshape(-1)[altered.reshape(-1) > 0] = 9e14 if name != "jumps" else 9e17
        prior = load(written(model_file.Content({**arrays, name: altered}, about)))
        with pytest.raises(InputError, match="older model's counts are too large"):
            train(PAIRS, AlignerConfig(prior_weight=1000.0), prior=prior)


# --- a file that is written over while it is used ---------------------------------------------------------------------


def is_mapped(model: AlignmentModel) -> bool:
    base: Any = model.tables.arrays["jumps"]
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "obj", None), mmap.mmap)


@pytest.mark.parametrize("mode, mapped", [(0o644, True), (0o600, True), (0o444, True), (0o664, False), (0o646, False)])
def test_a_file_that_another_user_may_write_is_copied(data: bytes, mode: int, mapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(data)
    path.chmod(mode)
    assert is_mapped(AlignmentModel.load(str(path))) == mapped
    assert is_mapped(AlignmentModel.load(str(path), copy=False))
    assert not is_mapped(AlignmentModel.load(str(path), copy=True))


def test_a_file_of_another_user_is_copied(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.model").write_bytes(data)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_mapped(AlignmentModel.load(str(tmp_path / "m.model")))


def test_a_copied_model_survives_a_file_that_is_written_over_and_cut(
    data: bytes, model: AlignmentModel, tmp_path: Path
) -> None:
    path = tmp_path / "m.model"
    for rest in (b"", b"\xff" * len(data)):
        path.write_bytes(data)
        loaded = AlignmentModel.load(str(path), copy=True)
        with path.open("r+b") as stream:  # as `cp` does, which neither removes nor renames
            stream.truncate(0)
            stream.write(rest)
        assert loaded.align_batch(PAIRS + UNKNOWN) == model.align_batch(PAIRS + UNKNOWN)


def test_what_never_ends_is_no_model() -> None:
    with pytest.raises(InputError, match="/dev/zero: expected a word aligner's model"):
        AlignmentModel.load("/dev/zero")


def test_saving_destroys_no_other_file_and_leaves_none(
    model: AlignmentModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.model.partial").write_text("precious")
    model.save(str(tmp_path / "m.model"))
    monkeypatch.setattr(model_file, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.save(str(tmp_path / "m.model"))
    assert sorted(os.listdir(tmp_path)) == ["m.model", "m.model.partial"]
    assert (tmp_path / "m.model.partial").read_text() == "precious"
    AlignmentModel.load(str(tmp_path / "m.model"))


# --- the vocabulary ---------------------------------------------------------------------------------------------------

some_words = st.lists(st.text("abä家\ud800\U0001f600", max_size=6), max_size=30)


@given(known=some_words, asked=some_words)
def test_words_and_stems_have_the_numbers_of_their_order(known: list[str], asked: list[str]) -> None:
    vocabulary = Vocabulary(known)
    words, stems = sorted(set(known)), sorted({stem(word) for word in known})
    assert list(vocabulary.words) == vocabulary.words[:] == words and len(vocabulary.stems) == len(stems)
    for word in [*known, *asked]:
        assert vocabulary.number(word) == (words.index(word) if word in words else None)
        assert vocabulary.stem_number(stem(word)) == (stems.index(stem(word)) if stem(word) in stems else None)
    assert vocabulary.stem_of_word_W.tolist() == [stems.index(stem(word)) for word in words]


def test_a_line_of_ten_thousand_new_words_is_aligned(data: bytes) -> None:
    patient = replace(load(data), config=AlignerConfig(max_words=10_000, min_score=0.0))
    line = [f"neu{number}" for number in range(9_999)] + ["haus"]
    links = patient.align(line, ["suah"])
    assert max(links, key=lambda link: link.score)[:2] == (9_999, 0)


@pytest.mark.slow
def test_a_vocabulary_of_a_million_words(tmp_path: Path) -> None:
    path, words = str(tmp_path / "m.model"), 500_000
    corpus = (([f"a{i}", f"a{i + 1}"], [f"b{i}", f"b{i + 1}"]) for i in range(0, words, 2))
    model = train(corpus, AlignerConfig(initial_passes=1, hmm_passes=1))
    model.save(path)
    started = time.process_time()
    loaded = AlignmentModel.load(path)
    assert time.process_time() - started < 2.0  # half a second where nothing else runs
    assert len(loaded.tables.vocabulary.words) == 2 * words
    pairs = [([f"a{i}", "new", f"a{i + 1}"], [f"b{i}", f"b{i + 1}", "new"]) for i in range(0, words, 500)]
    started = time.process_time()
    links = loaded.align_batch(pairs)
    assert time.process_time() - started < 2.0
    assert links == model.align_batch(pairs)
    assert sum((1, 2) in {link[:2] for link in found} for found in links) > 0.9 * len(pairs)
