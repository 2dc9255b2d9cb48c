from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from schemas.mrc import MrcExample, PairExample, TaggingExample, problems
from schemas.spans import CharSpan
from training.data.task_batches import MrcWindow, TagWindow
from training.data.tokens import Encoded, TextEncoder
from training.data.windows import (
    pair_features,
    question_windows,
    tag_names,
    tag_windows,
    with_candidates,
    word_windows,
)
from training.errors import ConfigError, InputError
from training.finetune_recipes import Plain, Reading
from training.tasks import universal_ner, xquad

from .conftest import TEXTS

QA = Reading(Plain(), "qa", max_tokens=384, max_query_tokens=64, stride=128)
SMALL = replace(QA, max_tokens=32, max_query_tokens=10, stride=6)
TAGGING = Reading(Plain(), "tagging", ("PER", "LOC"), max_tokens=128, stride=32)
PAIRS = Reading(Plain(), "pairs", ("no", "yes"), max_tokens=24)

LONG = {lang: " ".join([text] * 4) for lang, text in TEXTS.items()} | {
    "marks": "e\u0301t\u00e9 o\u0302\u0301 \u0301x " * 8,
    "emoji": "👩‍👩‍👧 👍🏽👍 🇻🇳 ❤️, Anna 👋 " * 4,
    "blanks": "  Anna\u00a0lives　in\tHanoi \n" * 5,
}
CONTEXTS = st.sampled_from(sorted(LONG))


def question(context: str, *answers: tuple[int, int], query: str = "Who?", **changes: Any) -> MrcExample:
    spans = tuple(CharSpan(*answer) for answer in answers)
    texts = tuple(span.of(context) for span in spans)
    return replace(MrcExample("q", "en", query, context, spans, texts, bool(texts), "squad", None), **changes)


def answer(context: str, text: str) -> MrcExample:
    start = context.index(text)
    return question(context, (start, start + len(text)))


def sentence(text: str, *words: tuple[int, int], tags: tuple[str, ...] = ()) -> TaggingExample:
    record = TaggingExample("s", "en", text, tuple(CharSpan(*word) for word in words), tags, "wikiann")
    assert problems(record) == []
    return record


def between_blanks(text: str) -> list[tuple[int, int]]:
    words, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        words.append((start, end))
    return words


def cut_every(text: str, length: int) -> list[tuple[int, int]]:
    """Words of at most `length` code points, many of which follow each other without a blank."""
    return [(at, min(at + length, end)) for start, end in between_blanks(text) for at in range(start, end, length)]


def read(window: MrcWindow, context: str, span: tuple[int, int]) -> str:
    first, last = (place - window.context[0] for place in span)
    assert 0 <= first <= last < len(window.starts)
    return context[window.starts[first] : window.ends[last]]


def check(window: MrcWindow, encoder: TextEncoder, reading: Reading) -> None:
    """What holds for every window."""
    start, end = window.context
    assert window.ids.dtype == window.starts.dtype == window.ends.dtype == np.int32
    assert len(window.ids) <= reading.max_tokens
    assert end - start == len(window.starts) == len(window.ends) > 0
    assert window.query[0] <= window.query[1] < start
    ids = window.ids.tolist()
    query = ids[slice(*window.query)] + ([encoder.que_id] if window.que else [])
    assert tuple(ids) == encoder.pair(query, ids[start:end])[0]
    assert window.answerable == bool(window.answers)
    assert all(start <= first <= last < end for first, last in window.answers)
    assert len({*window.answers}) == len(window.answers)


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens, stride", [(16, 0), (20, 5), (32, 12), (50, 1), (64, 128), (384, 128)])
def test_windows_are_those_of_hugging_faces_tokenizer(
    max_tokens: int, stride: int, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    reading = replace(QA, max_tokens=max_tokens, max_query_tokens=10, stride=stride)
    for context in LONG.values():
        record = question(context, query="Who lives in Hanoi?")
        windows = question_windows([record], encoder, reading)
        room = max_tokens - len(encoder.ids(record.query)) - tokenizer.num_special_tokens_to_add(pair=True)
        theirs = tokenizer(
            record.query,
            context,
            truncation="only_second",
            max_length=max_tokens,
            stride=min(stride, room // 2),
            return_overflowing_tokens=True,
            split_special_tokens=True,
        )
        assert [window.ids.tolist() for window in windows] == theirs.input_ids
        for window in windows:
            check(window, encoder, reading)


def test_a_window_says_where_everything_stands(encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
    context = "Anna lives in Hanoi, in New York, in Hanoi."
    hanoi = [(14, 19), (37, 42)]
    (window,) = question_windows([question(context, *hanoi, hanoi[0], query="Where is she?")], encoder, QA)
    check(window, encoder, QA)
    assert window.ids.tolist() == tokenizer("Where is she?", context).input_ids
    assert tokenizer.decode(window.ids[slice(*window.query)]) == "Where is she?"
    assert tokenizer.decode(window.ids[slice(*window.context)]) == context
    assert [read(window, context, span) for span in window.answers] == ["Hanoi", "Hanoi"]  # the third was the first
    assert [window.starts[first - window.context[0]] for first, _ in window.answers] == [14, 37]
    assert (window.id, window.record, window.label, window.que, window.notes) == ("q", 0, None, 0, ())


def test_que_ends_the_query_whatever_is_cut_of_it(encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
    """`<s> question [QUE] </s></s> passage </s>` (CLISM, 3.4, equation 10)."""
    short, long = question("Anna.", (0, 4), query="Who?"), question("Anna.", (0, 4), query="who " * 50)
    for record, cut in ((short, False), (long, True)):
        (plain,) = question_windows([record], encoder, SMALL)
        (window,) = question_windows([record], encoder, SMALL, with_que=True)
        check(window, encoder, SMALL)
        tokens = tokenizer.convert_ids_to_tokens(window.ids.tolist())
        assert tokens[window.que : window.que + 3] == ["[QUE]", "</s>", "</s>"]
        assert tokens.count("[QUE]") == 1
        assert window.query == plain.query == (1, window.que)
        assert np.delete(window.ids, window.que).tolist() == plain.ids.tolist()
        assert window.notes == (("truncated_query",) if cut else ())
        assert not cut or window.query[1] - window.query[0] == SMALL.max_query_tokens
        assert read(window, record.context, window.answers[0]) == "Anna"


@pytest.mark.parametrize("lang", LONG)
def test_every_answer_reads_back(lang: str, encoder: TextEncoder) -> None:
    """Words and pairs of words, whole ones in a wide window, pieces of them in small ones. Where an answer's edge is
    inside a token, and only there, the window says so."""
    context = LONG[lang]
    for reading, words in ((QA, between_blanks(context)), (SMALL, cut_every(context, 5))):
        answers = [*words, *[(left[0], right[1]) for left, right in pairwise(words)]]
        records = [question(context, span) for span in answers]
        windows = question_windows(records, encoder, reading)
        assert {window.record for window in windows if window.answers} == set(range(len(records)))  # none is lost
        noted = {window.record for window in windows if window.notes}
        assert reading is SMALL or not noted or lang == "marks"  # of the last of two marks no token is made
        for window in windows:
            check(window, encoder, reading)
            for span in window.answers:
                exact = read(window, context, span) == records[window.record].answer_texts[0]
                assert exact == (window.record not in noted)


@given(CONTEXTS, st.data())
def test_an_answer_is_in_every_window_that_holds_it_whole(encoder: TextEncoder, name: str, data: st.DataObject) -> None:
    context = LONG[name]
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    record = question(context, (start, end))
    (whole,) = question_windows([record], encoder, replace(QA, max_tokens=10_000))
    windows = question_windows([record], encoder, SMALL)
    for window in windows:
        check(window, encoder, SMALL)
    if not whole.answers:
        assert whole.notes == windows[0].notes == ("answer_without_tokens",)
        return
    ((first, last),) = whole.answers
    covered = range(whole.starts[first - whole.context[0]], whole.ends[last - whole.context[0]])
    assert ("not_on_token_boundary" in whole.notes) == ((covered.start, covered.stop) != (start, end))
    room = SMALL.max_tokens - (len(whole.ids) - len(whole.starts))
    fits = last - first < room
    assert any(window.answers for window in windows) == fits
    assert ("answer_longer_than_window" in windows[0].notes) == (not fits)
    tokens = whole.ids[first : last + 1].tolist()
    for window in windows:
        for span in window.answers:
            assert window.ids[span[0] : span[1] + 1].tolist() == tokens
            assert read(window, context, span) == context[covered.start : covered.stop]
    for window in windows:
        if window.starts[0] < covered.start and covered.stop < window.ends[-1]:
            assert window.answers


def test_an_answer_that_straddles_every_window_gets_one_of_its_own(encoder: TextEncoder) -> None:
    context = "Anna lives in Hanoi. " * 8
    (whole,) = question_windows([question(context)], encoder, QA)
    plain = question_windows([question(context)], encoder, SMALL)
    room = len(plain[0].starts)
    # One token more than what two windows share, one token to the left of it.
    first, last = room - SMALL.stride - 1, room
    span = int(whole.starts[first]), int(whole.ends[last])
    inside = int(whole.starts[first]), int(whole.ends[first])
    *others, extra = question_windows([question(context, inside, span, span)], encoder, SMALL)
    assert [window.ids.tolist() for window in others] == [window.ids.tolist() for window in plain]
    check(extra, encoder, SMALL)
    assert len(extra.ids) == SMALL.max_tokens
    assert extra.id == f"q+{len(plain)}"
    assert [read(extra, context, answer) for answer in extra.answers] == [
        context[slice(*inside)],
        context[slice(*span)],
    ]
    (_, (left, right)) = extra.answers
    assert abs((left - extra.context[0]) - (extra.context[1] - 1 - right)) <= 1  # in its middle
    assert all(window.notes == () for window in (*others, extra))


def test_an_answer_beyond_any_window_is_noted_once(encoder: TextEncoder) -> None:
    context = "Anna lives in Hanoi. " * 8
    windows = question_windows([question(context, (0, len(context) - 1), (5, len(context) - 1))], encoder, SMALL)
    assert len(windows) > 2
    assert not any(window.answers or window.answerable for window in windows)
    assert [window.notes for window in windows] == [("answer_longer_than_window",)] + [()] * (len(windows) - 1)


@pytest.mark.parametrize(
    "record, notes, answers",
    [
        (question("Anna"), (), 0),
        (question("Anna", answerable=True, answer_texts=("Bob",)), ("answer_elsewhere",), 0),
        (question("Anna  lives", (4, 6)), ("answer_without_tokens",), 0),
        (question("Anna  lives", (4, 6), (0, 4)), ("answer_without_tokens",), 1),
        (question("Anna  lives", (0, 5)), ("not_on_token_boundary",), 1),
        (question("Anna  lives", (4, 5), (0, 5), (5, 6)), ("answer_without_tokens", "not_on_token_boundary"), 1),
        (question("Anna", (0, 4), query=""), (), 1),
    ],
)
def test_what_is_lost_is_noted(record: MrcExample, notes: tuple[str, ...], answers: int, encoder: TextEncoder) -> None:
    (window,) = question_windows([record], encoder, QA)
    check(window, encoder, QA)
    assert window.notes == notes
    assert (len(window.answers), window.answerable) == (answers, answers > 0)


def test_a_context_without_tokens_gives_no_window(encoder: TextEncoder) -> None:
    windows = question_windows([question(""), question("Anna", (0, 4)), question(" \u200b ")], encoder, QA)
    assert [window.record for window in windows] == [1]


def test_windows_are_named_after_record_label_and_place(encoder: TextEncoder) -> None:
    long = TEXTS["en"] * 2
    records = [question("Anna"), question(long, label="LOC", id="x"), question("Anna", label="PER")]
    windows = question_windows(records, encoder, SMALL)
    assert windows[0].id == "q" and windows[-1].id == "q:PER"
    assert [window.id for window in windows[1:4]] == ["x:LOC", "x:LOC+1", "x:LOC+2"]
    assert [(window.record, window.label) for window in windows[::2]][:2] == [(0, None), (1, "LOC")]


def test_a_context_is_encoded_once(encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    encode = TextEncoder.encode

    def note(self: TextEncoder, text: str) -> Encoded:
        seen.append(text)
        return encode(self, text)

    monkeypatch.setattr(TextEncoder, "encode", note)
    question_windows([question("Anna"), question("Hanoi"), question("Anna", query="Where?")], encoder, QA)
    assert seen == ["Anna", "Hanoi"]


def test_settings_that_leave_no_room_are_refused(encoder: TextEncoder) -> None:
    tight = replace(QA, max_tokens=69, max_query_tokens=64)
    (window, *_) = question_windows([question("Anna lives", query="who " * 99)], encoder, tight)
    assert len(window.starts) == 1
    with pytest.raises(
        ConfigError, match=r"69: expected room for text beside 5 special tokens and 64 of a query\. Lower"
    ):
        question_windows([question("Anna")], encoder, tight, with_que=True)
    with pytest.raises(ConfigError, match=r"2: expected room for text beside 2 special tokens\. Raise --max-tokens"):
        tag_windows([sentence("Anna", (0, 4))], encoder, replace(TAGGING, max_tokens=2))
    with pytest.raises(ConfigError, match="max_tokens 4: expected room for text beside 4"):
        pair_features([PairExample("p", "en", "a", "b", None, "xnli")], encoder, replace(PAIRS, max_tokens=4))


# --- contexts made of words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", LONG)
def test_any_span_of_tokens_reads_as_whole_words(lang: str, encoder: TextEncoder) -> None:
    """Words as a treebank has them, cut without a blank between: two code points each."""
    context = LONG[lang]
    words = [CharSpan(*word) for word in cut_every(context, 2)]
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    records = [question(context, *words[at : at + 1], (left.start, right.end)) for at, (left, right) in
               enumerate(zip(words, words[2:], strict=False))][::3]  # fmt: skip
    windows = word_windows(records, [words] * len(records), encoder, SMALL)
    left_out = 0
    for window in windows:
        check(window, encoder, SMALL)
        record = records[window.record]
        texts = [read(window, context, span) for span in window.answers]
        if "not_on_token_boundary" not in window.notes:
            assert {*texts} <= {*record.answer_texts}
        left_out += len({"not_on_token_boundary", "answer_without_tokens"} & {*window.notes})
        nonempty = window.starts < window.ends
        assert {*window.starts.tolist()} <= starts
        assert {*window.ends[nonempty].tolist()} <= ends
    assert {window.record for window in windows if window.answers} == set(range(len(records)))
    assert left_out == 0 or lang in ("emoji", "te", "marks")  # halves of what no token stands for


@pytest.mark.parametrize("lang", LONG)
def test_no_window_of_words_ends_within_a_word(lang: str, encoder: TextEncoder) -> None:
    """But where the word is too long for any window."""
    context = LONG[lang]
    words = [CharSpan(*word) for word in cut_every(context, 5)]
    (whole,) = word_windows([question(context)], [words], encoder, replace(QA, max_tokens=4_000))
    tokens_of = Counter(whole.starts.tolist())  # where a word starts → how many tokens it has
    assert max(tokens_of.values()) > 2
    for size in (18, 22, 29):
        reading = replace(SMALL, max_tokens=size, stride=4)
        windows = word_windows([question(context)], [words], encoder, reading)
        assert len(windows) > 2 and max(len(each.ids) for each in windows) <= size
        room = size - (len(windows[0].ids) - len(windows[0].starts))
        seen = Counter[int]()
        for window in windows:
            tokens_here = Counter(window.starts.tolist())
            seen |= tokens_here
            for start, count in tokens_here.items():
                assert count == tokens_of[start] or tokens_of[start] > room
        assert seen.keys() == tokens_of.keys()
        for left, right in pairwise(windows):
            assert sum((Counter(left.starts.tolist()) & Counter(right.starts.tolist())).values()) <= max(4, room // 2)


def test_words_are_exact_where_running_text_is_not(encoder: TextEncoder) -> None:
    context = "東京都に住む"
    record = answer(context, "東京")
    (running,) = question_windows([record], encoder, QA)
    (window,) = word_windows([record], [[CharSpan(0, 2), CharSpan(2, 3), CharSpan(3, 6)]], encoder, QA)
    assert running.notes == ("not_on_token_boundary",)  # the token is 東京都
    assert window.notes == ()
    assert [read(window, context, span) for span in window.answers] == ["東京"]
    assert window.starts[0] == window.ends[0] == 0  # "▁"
    assert window.answers[0][0] == window.context[0] + 1


# --- candidates -------------------------------------------------------------------------------------------------------


def test_candidates_hold_the_answer(encoder: TextEncoder) -> None:
    context = "Anna lives in Hanoi."
    spans = {text: CharSpan(context.index(text), context.index(text) + len(text)) for text in context[:-1].split()}
    record = answer(context, "Hanoi")

    def texts(words: str, size: int) -> list[str]:
        (window,) = question_windows([record], encoder, QA)
        (window,) = with_candidates([window], [record], [[spans[word] for word in words.split()]], size)
        return [read(window, context, span) for span in window.candidates]

    assert texts("lives Hanoi in", 3) == ["lives", "Hanoi", "in"]
    assert texts("lives in Hanoi", 2) == ["lives", "Hanoi"]  # the last one gives way (footnote 1)
    assert texts("lives in", 3) == ["lives", "in", "Hanoi"]
    assert texts("lives", 1) == texts("", 1) == ["Hanoi"]
    assert texts("in in lives", 3) == ["in", "lives", "Hanoi"]


def test_windows_without_an_answer_have_cls_for_a_candidate(encoder: TextEncoder) -> None:
    records = [question("Anna", (0, 4)), question("Anna")]
    windows = question_windows(records, encoder, QA)
    with_z = with_candidates(windows, records, [[], [CharSpan(0, 4)]], 5)
    assert [window.candidates for window in with_z] == [windows[0].answers, ((0, 0),)]


@given(CONTEXTS, st.data())
def test_z_is_of_the_window_and_always_holds_its_gold(encoder: TextEncoder, name: str, data: st.DataObject) -> None:
    context = LONG[name]
    spans = st.lists(st.integers(0, len(context)), min_size=2, max_size=2, unique=True).map(
        lambda two: (min(two), max(two))
    )
    record = question(context, *data.draw(st.lists(spans, max_size=3)))
    words = between_blanks(context)
    ranked = data.draw(st.lists(st.sampled_from(words) | spans, max_size=12))
    size = data.draw(st.integers(1, 5))
    windows = question_windows([record], encoder, SMALL)
    for window, bare in zip(
        with_candidates(windows, [record], [[CharSpan(*span) for span in ranked]], size), windows, strict=True
    ):
        assert window.ids is bare.ids
        if not window.answers:
            assert window.candidates == ((0, 0),)
            continue
        assert window.answers[0] in window.candidates
        assert len({*window.candidates}) == len(window.candidates) <= size
        others = [read(window, context, span) for span in window.candidates if span != window.answers[0]]
        texts = [context[slice(*span)] for span in ranked]
        assert {*others} <= {*texts}
        ranks = [texts.index(other) for other in others]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize("lists, size", [(2, 5), (1, 0)])
def test_candidates_of_other_records_and_none_at_all_are_refused(lists: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"each of 1 records.*found those of {lists} and {size}"):
        with_candidates([], [question("Anna")], [[]] * lists, size)


# --- tags -------------------------------------------------------------------------------------------------------------


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
    reading = replace(TAGGING, max_tokens=20, stride=stride)
    text = LONG[lang]
    words = cut_every(text, 9)
    tags = tuple(("O", "B-LOC", "I-LOC")[at % 3] for at in range(len(words)))
    record = sentence(text, *words, tags=tags)
    ids, places = encoder.encode_words(text, record.tokens)
    windows = tag_windows([record], encoder, reading)
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
    reading = replace(TAGGING, max_tokens=10, stride=2)
    long = encoder.ids("x" * length)  # "▁" and a token for each letter
    record = sentence(f"Anna {'x' * length} lives", (0, 4), (5, 5 + length), (6 + length, 11 + length))
    windows = tag_windows([record], encoder, reading)
    assert [window.words for window in windows] == [(0,), (1,), (2,)]
    assert tuple(windows[1].ids) == encoder.single(long[1:9])  # "▁" is the first to go
    assert windows[1].places == (1,)
    assert all(len(window.ids) <= 10 for window in windows)
    assert [window.notes for window in windows] == [notes, (), ()]


# --- pairs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [5, 8, 15, 16, 24, 25, 40, 500])
def test_pairs_are_cut_as_hugging_faces_tokenizer_cuts_them(
    max_tokens: int, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    texts = ["Anna", *[LONG[lang] for lang in ("en", "zh", "ar")], TEXTS["hi"]]
    records = [PairExample("p", "en", first, second, "yes", "xnli") for first in ["", *texts] for second in texts]
    features = pair_features(records, encoder, replace(PAIRS, max_tokens=max_tokens))
    for at, (record, found) in enumerate(zip(records, features, strict=True)):
        theirs = tokenizer(record.sentence1, record.sentence2, truncation=True, max_length=max_tokens).input_ids
        assert found.ids.tolist() == theirs
        assert found.ids.dtype == np.int32
        assert found.record == at
        longer = len(tokenizer(record.sentence1, record.sentence2).input_ids) > max_tokens
        assert found.notes == (("truncated_pair",) if longer else ())


def test_labels_of_pairs_are_numbered(encoder: TextEncoder) -> None:
    labels = ["yes", None, "no"]
    found = pair_features([PairExample("p", "en", "a", "b", label, "xnli") for label in labels], encoder, PAIRS)
    assert [each.label for each in found] == [1, -1, 0]
    with pytest.raises(InputError, match="p: expected a label of no, yes, found maybe"):
        pair_features([PairExample("p", "en", "a", "b", "maybe", "xnli")], encoder, PAIRS)


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
def test_answers_of_xquad_read_back_in_every_language(shared_data: Path, encoder: TextEncoder) -> None:
    paths = sorted((shared_data / "qa" / "xquad").glob("*.json"))
    assert len(paths) == 12
    notes: Counter[str] = Counter()
    long = 0
    for path in paths:
        records = xquad.read(path)[0][::12]
        long += sum(len(encoder.ids(record.query)) > QA.max_query_tokens for record in records)
        windows = question_windows(records, encoder, QA)
        assert {window.record for window in windows if window.answers} == set(range(len(records)))
        inexact = {window.record for window in windows if "not_on_token_boundary" in window.notes}
        for window in windows:
            check(window, encoder, QA)
            record = records[window.record]
            for span in window.answers:
                assert (read(window, record.context, span) in record.answer_texts) == (window.record not in inexact)
        notes.update(note for window in windows for note in window.notes)
    assert notes.pop("truncated_query") == long  # many: the vocabulary is small
    assert {*notes} <= {"not_on_token_boundary"}
    assert notes["not_on_token_boundary"] < 25  # of 1,200


@pytest.mark.real_data
def test_words_of_treebanks_keep_their_places(shared_data: Path, encoder: TextEncoder) -> None:
    paths = sorted((shared_data / "ner").rglob("*pud*.iob2"))
    records = [record for path in paths for record in universal_ner.read(path)[0][::20]]
    assert len(records) > 100
    reading = replace(TAGGING, labels=universal_ner.LABELS, max_tokens=40, stride=10)
    windows = tag_windows(records, encoder, reading)
    found: dict[int, list[int]] = {}
    for window in windows:
        found.setdefault(window.record, []).extend(window.words)
    assert [sorted(found[at]) for at in range(len(records))] == [[*range(len(record.tokens))] for record in records]


def test_windows_of_tags_are_the_same_for_the_same_records(encoder: TextEncoder) -> None:
    record = sentence(LONG["en"], *between_blanks(LONG["en"]))
    reading = replace(TAGGING, max_tokens=20)
    once, again = ([window._replace(ids=window.ids.tolist()) for window in tag_windows([record], encoder, reading)]
                   for _ in range(2))  # fmt: skip
    assert once == again and isinstance(once[0], TagWindow)
