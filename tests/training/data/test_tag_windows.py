from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from schemas.errors import InputError
from training.data.tag_windows import tag_names, tag_windows
from training.data.tokens import TextEncoder
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain
from training.tasks import universal_ner

from .sentences import LONG, cut_every, sentence

TAGGING = InferenceSettings(Plain(), "tagging", ("PER", "LOC"), max_tokens=128, stride=32)


def test_tags_are_numbered_in_the_labels_order() -> None:
    assert tag_names(("PER", "LOC")) == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert tag_names(()) == ("O",)


def test_a_sentence_is_one_window_with_a_place_for_each_word(
    encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    text = "In Hanoi lives Anna."
    record = sentence(text, (0, 2), (3, 8), (9, 14), (15, 19), (19, 20), tags=("O", "B-LOC", "O", "B-PER", "O"))
    bare = replace(record, tags=())
    window, other = tag_windows([record, bare], encoder, TAGGING)
    assert window.ids.tolist() == tokenizer(text).input_ids
    assert window.ids.dtype == np.int32
    assert (window.id, window.record, window.notes) == ("s", 0, ())
    assert window.words == (0, 1, 2, 3, 4)
    assert window.labels == (0, 3, 0, 1, 0)
    assert list(window.places) == sorted({*window.places})
    ends = [*window.places[1:], len(window.ids) - 1]
    texts = [str(tokenizer.decode(window.ids[start:end])) for start, end in zip(window.places, ends, strict=True)]
    assert [each.strip() for each in texts] == ["In", "Hanoi", "lives", "Anna", "."]
    assert (other.record, other.labels, other.words) == (1, (), window.words)


def test_an_unknown_tag_is_refused(encoder: TextEncoder) -> None:
    record = sentence("In Hanoi", (0, 2), (3, 8), tags=("O", "B-GPE"))
    with pytest.raises(InputError, match=r"s: expected a tag of O, B-PER, I-PER, B-LOC, I-LOC, found B-GPE"):
        tag_windows([record], encoder, TAGGING)


def test_words_without_tokens_are_left_out_and_noted(encoder: TextEncoder) -> None:
    record = sentence("Anna \u200b lives", (0, 4), (5, 6), (7, 12), tags=("B-PER", "O", "O"))
    nothing = sentence("\u200b", (0, 1), (1, 1))
    (window,) = tag_windows([record, nothing, sentence("")], encoder, TAGGING)
    assert (window.words, window.labels, window.notes) == ((0, 2), (1, 0), ("word_without_tokens",))


@pytest.mark.parametrize("lang", LONG)
@pytest.mark.parametrize("stride", [0, 5, 9, 100])
def test_each_word_is_in_one_window_where_its_context_is_best(lang: str, stride: int, encoder: TextEncoder) -> None:
    settings = replace(TAGGING, max_tokens=20, stride=stride)
    text = LONG[lang]
    words = cut_every(text, 9)
    tags = tuple(("O", "B-LOC", "I-LOC")[at % 3] for at in range(len(words)))
    record = sentence(text, *words, tags=tags)
    ids, places = encoder.encode_words(text, record.tokens)
    windows = tag_windows([record], encoder, settings)
    assert len(windows) > 1
    assert sorted(word for window in windows for word in window.words) == [
        word for word, (start, end) in enumerate(places) if start < end
    ]
    pieces = []
    for window in windows:
        assert len(window.ids) <= 20
        assert list(window.labels) == [(0, 3, 4)[word % 3] for word in window.words]
        start = places[window.words[0]][0] - window.places[0] + 1
        assert window.ids[1:-1].tolist() == ids[start : start + len(window.ids) - 2]
        pieces.append((start, start + len(window.ids) - 2))
        assert [place - 1 + start for place in window.places] == [places[word][0] for word in window.words]
        edges = {0, *[end for _, end in places]}
        assert {*pieces[-1]} <= edges  # no word is cut
    for number, window in enumerate(windows):
        for word in window.words:
            before = max([end for _, end in places[:word]], default=0)
            contexts = [min(before - start, end - places[word][1]) for start, end in pieces]
            assert contexts.index(max(contexts)) == number
    assert all(right[0] <= left[1] < right[1] for left, right in pairwise(pieces))
    assert all(left[1] - right[0] <= stride for left, right in pairwise(pieces))


@pytest.mark.parametrize("length, notes", [(50, ("truncated_word",)), (8, ())])
def test_a_word_longer_than_a_window_is_cut(length: int, notes: tuple[str, ...], encoder: TextEncoder) -> None:
    settings = replace(TAGGING, max_tokens=10, stride=2)
    long = encoder.ids("x" * length)  # "▁" and a token for each letter
    record = sentence(f"Anna {'x' * length} lives", (0, 4), (5, 5 + length), (6 + length, 11 + length))
    windows = tag_windows([record], encoder, settings)
    assert [window.words for window in windows] == [(0,), (1,), (2,)]
    assert tuple(windows[1].ids) == encoder.single(long[1:9])  # "▁" is the first to go
    assert windows[1].places == (1,)
    assert all(len(window.ids) <= 10 for window in windows)
    assert [window.notes for window in windows] == [notes, (), ()]


@pytest.mark.real_data
def test_words_of_treebanks_keep_their_places(shared_data: Path, encoder: TextEncoder) -> None:
    paths = sorted((shared_data / "ner").rglob("*pud*.iob2"))
    records = [record for path in paths for record in universal_ner.read(path)[0][::20]]
    assert len(records) > 100
    settings = replace(TAGGING, labels=universal_ner.LABELS, max_tokens=40, stride=10)
    windows = tag_windows(records, encoder, settings)
    found: dict[int, list[int]] = {}
    for window in windows:
        found.setdefault(window.record, []).extend(window.words)
    assert [sorted(found[at]) for at in range(len(records))] == [[*range(len(record.tokens))] for record in records]
