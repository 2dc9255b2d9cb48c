from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from schemas.errors import ConfigError
from schemas.mrc import MrcExample, PairExample
from schemas.spans import CharSpan
from training.data.pair_features import pair_features
from training.data.tag_windows import tag_windows
from training.data.task_batches import MrcWindow
from training.data.tokens import Encoded, TextEncoder
from training.data.windows import question_windows, taught, with_candidates, word_windows
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain
from training.tasks import xquad

from .conftest import TEXTS
from .sentences import LONG, between_blanks, cut_every, sentence

QA = InferenceSettings(Plain(), "qa", max_tokens=384, max_query_tokens=64, stride=128)
SMALL = replace(QA, max_tokens=32, max_query_tokens=10, stride=6)
TAGGING = InferenceSettings(Plain(), "tagging", ("PER", "LOC"), max_tokens=128, stride=32)
PAIRS = InferenceSettings(Plain(), "pairs", ("no", "yes"), max_tokens=24)

CONTEXTS = st.sampled_from(sorted(LONG))


def question(context: str, *answers: tuple[int, int], query: str = "Who?", **changes: Any) -> MrcExample:
    spans = tuple(CharSpan(*answer) for answer in answers)
    texts = tuple(span.of(context) for span in spans)
    return replace(MrcExample("q", "en", query, context, spans, texts, bool(texts), "squad", None), **changes)


def answer(context: str, text: str) -> MrcExample:
    start = context.index(text)
    return question(context, (start, start + len(text)))


def read(window: MrcWindow, context: str, span: tuple[int, int]) -> str:
    first, last = (place - window.context[0] for place in span)
    assert 0 <= first <= last < len(window.starts)
    return context[window.starts[first] : window.ends[last]]


def check(window: MrcWindow, encoder: TextEncoder, settings: InferenceSettings) -> None:
    """What holds for every window."""
    start, end = window.context
    assert window.ids.dtype == window.starts.dtype == window.ends.dtype == np.int32
    assert len(window.ids) <= settings.max_tokens
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
    settings = replace(QA, max_tokens=max_tokens, max_query_tokens=10, stride=stride)
    for context in LONG.values():
        record = question(context, query="Who?")
        windows = question_windows([record], encoder, settings)
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
            check(window, encoder, settings)


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
    for settings, words in ((QA, between_blanks(context)), (SMALL, cut_every(context, 5))):
        answers = [*words, *[(left[0], right[1]) for left, right in pairwise(words)]]
        records = [question(context, span) for span in answers]
        windows = question_windows(records, encoder, settings)
        assert {window.record for window in windows if window.answers} == set(range(len(records)))  # none is lost
        noted = {window.record for window in windows if window.notes}
        assert settings is SMALL or not noted or lang == "marks"  # of the last of two marks no token is made
        for window in windows:
            check(window, encoder, settings)
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
    # From before where the second window begins to where the first has ended; the edges are no "▁" alone.
    empty = whole.starts == whole.ends
    first = max(at for at in range(room - SMALL.stride) if not empty[at])
    last = min(at for at in range(room, len(empty)) if not empty[at])
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


def test_a_question_whose_answers_are_lost_does_not_teach_that_it_has_none(encoder: TextEncoder) -> None:
    blank, whole = "Anna \u00a0 met Bo.", "Anna met Bo. " * 40
    lost = [
        question(blank, (5, 6)),  # answer_without_tokens
        replace(question(whole), answerable=True, answer_texts=("Cy",)),  # answer_elsewhere
        question(whole, (0, len(whole))),  # answer_longer_than_window
    ]
    kept = [question(whole), question(whole, (0, 4), (0, len(whole))), question(blank, (0, 4))]
    windows = question_windows([*lost, *kept], encoder, SMALL)
    assert {each.record for each in windows} == set(range(6))
    assert [each for each in windows if each.record > 2] == taught(windows)


def test_windows_of_a_method_s_own_class_that_lost_their_answers_are_left_out_too(encoder: TextEncoder) -> None:
    class Own(NamedTuple):
        record: int
        label: str | None
        answers: tuple[tuple[int, int], ...]
        notes: tuple[str, ...]

    lost = replace(question("Anna met Bo."), answerable=True, answer_texts=("Cy",))
    windows = question_windows([lost, question("Anna met Bo.")], encoder, SMALL)
    own = [Own(each.record, each.label, each.answers, each.notes) for each in windows]
    assert [each.record for each in own] == [0, 1]
    assert taught(own) == own[1:]


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
        settings = replace(SMALL, max_tokens=size, stride=4)
        windows = word_windows([question(context)], [words], encoder, settings)
        assert len(windows) > 1 and max(len(each.ids) for each in windows) <= size
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
        offset = window.context[0]
        others = [
            (int(window.starts[first - offset]), int(window.ends[last - offset]))
            for first, last in window.candidates
            if (first, last) != window.answers[0]
        ]
        ranks = [ranked.index(other) for other in others]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize("lists, size", [(2, 5), (1, 0)])
def test_candidates_of_other_records_and_none_at_all_are_refused(lists: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"each of 1 records.*found those of {lists} and {size}"):
        with_candidates([], [question("Anna")], [[]] * lists, size)


# --- tags -------------------------------------------------------------------------------------------------------------


# --- pairs ------------------------------------------------------------------------------------------------------------


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
