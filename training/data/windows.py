"""Turns questions and their contexts into windows: token sequences with exact positions back into the contexts.

    window   <s> query [QUE] </s></s> piece of the context </s>
             before                   ids[start:end]       after
             0                        offset

Token i of the context is at position offset + i - start of the window that holds the piece [start, end).

A context that is too long for `InferenceSettings.max_tokens`, which counts special tokens, is read in several windows
that overlap: those of Hugging Face's tokenizer with `truncation="only_second"` and `stride`. Every window is full,
except the last one of a context and windows of whole words. A record gives no window if the tokenizer leaves nothing of
its context; its prediction is empty.

Answers change the windows in one case: an answer that no window holds whole gets one more window. Prediction must not
use the answers, so it is given records without them.

The `notes` of a record's first window say what was cut or lost, each reason once:

    truncated_query            the query is longer than `max_query_tokens`: its end was cut
    answer_without_tokens      the tokenizer leaves out an answer's code points
    not_on_token_boundary      kept: the fewest tokens that cover the answer read as a little more, or less
    answer_longer_than_window  an answer fits no window
    answer_elsewhere           the record has answers, but the context does not hold them where its file says

A record that loses all its answers must not be trained on (`taught`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from training.data.features import place_answer
from training.data.split_long_text import room_for, word_pieces
from training.data.task_batches import MrcWindow
from training.data.tokens import Encoded, TextEncoder, token_span
from training.recipes.finetuning import InferenceSettings

LOST = frozenset({"answer_without_tokens", "answer_longer_than_window", "answer_elsewhere"})

_K = TypeVar("_K", bound=Hashable)


class _Context(NamedTuple):
    """`Encoded` as int32 arrays, from which windows are cut."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def question_windows(
    records: Sequence[MrcExample],
    encoder: TextEncoder,
    settings: InferenceSettings,
    *,
    with_que: bool = False,
) -> list[MrcWindow]:
    """Returns the windows of all records, in order; with `with_que`, [QUE] ends the query (CLISM, 3.4, equation 10).

    Raises `ConfigError` if the longest query leaves no room for a context.
    """
    contexts = _encode_distinct([record.context for record in records], encoder.encode)
    return _mrc_windows(records, contexts, encoder, settings, with_que, cut=_pieces)


def word_windows(
    records: Sequence[MrcExample],
    words: Sequence[Sequence[CharSpan]],
    encoder: TextEncoder,
    settings: InferenceSettings,
) -> list[MrcWindow]:
    """Returns windows of contexts whose words, given for each record, are tokenised one by one.

    The offsets of every token are those of its word, so that any span of tokens reads as whole words; a "▁" without
    text before a word is empty, as in running text. Text between words is left out. A window ends within a word only if
    the word is too long for a window, or if an answer that all windows cut needs a window of its own.
    """

    def encode(context_words: tuple[str, tuple[CharSpan, ...]]) -> Encoded:
        context, spans = context_words
        ids, tokens_of_words = encoder.encode_words(context, spans)
        starts, ends, done = [], [], 0
        for (start_char, end_char), (start, end) in zip(spans, tokens_of_words, strict=True):
            if start < end:
                starts += [start_char] * (end - done)
                ends += [start_char] * (start - done) + [end_char] * (end - start)
                done = end
        return Encoded(tuple(ids), tuple(starts), tuple(ends))

    keys = [(record.context, tuple(spans)) for record, spans in zip(records, words, strict=True)]
    contexts = _encode_distinct(keys, encode)
    return _mrc_windows(records, contexts, encoder, settings, with_que=False, cut=_pieces_of_words)


def with_candidates(
    windows: Sequence[MrcWindow],
    records: Sequence[MrcExample],
    candidates: Sequence[Sequence[CharSpan]],
    size: int,
) -> list[MrcWindow]:
    """Returns the windows with their candidates Z, at most `size` spans (two-stage, Hard-Learning Algorithm).

    `candidates`: for each record a baseline's best answers, best first. Z holds those that are whole tokens of the
    window; the window's first answer replaces the last of Z if it is not among them (footnote 1). In a window without
    an answer, Z is [CLS], position 0.
    """
    if len(candidates) != len(records) or size < 1:
        raise ValueError(
            f"expected candidates of each of {len(records)} records and a size above 0, found those of "
            f"{len(candidates)} and {size}"
        )
    return [window._replace(candidates=_candidates(window, candidates[window.record], size)) for window in windows]


def taught(features: Sequence[Any]) -> list[Any]:
    """Returns the features to train on: all except windows of a query that lost all its answers (`LOST`), which would
    teach that it has none. Windows are the features with `answers` and `label`, `MrcWindow` or a method's own."""
    query_of = [(feature.record, feature.label) if _is_window(feature) else None for feature in features]
    answered = {query for query, feature in zip(query_of, features, strict=True) if query and feature.answers}
    lost = {query for query, feature in zip(query_of, features, strict=True) if query and LOST & {*feature.notes}}
    lost -= answered
    return [feature for query, feature in zip(query_of, features, strict=True) if query not in lost]


def _is_window(feature: Any) -> bool:
    return hasattr(feature, "answers") and hasattr(feature, "label")


def _encode_distinct(keys: Iterable[_K], encode: Callable[[_K], Encoded]) -> Iterator[_Context]:
    """Yields the tokens of each key; equal keys are encoded once."""
    encoded: dict[_K, _Context] = {}
    for key in keys:
        if key not in encoded:
            encoded[key] = _Context(*[np.array(values, np.int32) for values in encode(key)])
        yield encoded[key]


def _mrc_windows(
    records: Sequence[MrcExample],
    contexts: Iterable[_Context],
    encoder: TextEncoder,
    settings: InferenceSettings,
    with_que: bool,
    cut: Callable[[_Context, int, int], list[tuple[int, int]]],
) -> list[MrcWindow]:
    """`cut(context, room, stride)` returns the pieces of a context."""
    que = [encoder.que_id] if with_que else []
    room_for(settings, len(encoder.pair((), ())[0]) + len(que), settings.max_query_tokens)
    windows: list[MrcWindow] = []
    for index, (record, context) in enumerate(zip(records, contexts, strict=True)):
        frame, query_notes = _frame(record.query, encoder, settings.max_query_tokens, que)
        answers, answer_notes = _answer_tokens(record, context)
        room = settings.max_tokens - len(frame.before) - len(frame.after)
        pieces = cut(context, room, settings.stride)
        more, piece_notes = _pieces_of_cut_answers(answers, pieces, len(context.ids), room)
        notes = tuple(dict.fromkeys((*query_notes, *answer_notes, *piece_notes)))
        for number, piece in enumerate([*pieces, *more]):
            windows.append(_window(record, index, number, frame, context, piece, answers, () if number else notes))
    return windows


class _Frame(NamedTuple):
    """The tokens around a piece of a context, and the positions of those before it."""

    before: np.ndarray  # int32: <s> query [QUE] </s></s>
    after: np.ndarray  # int32: </s>
    query: tuple[int, int]  # [start, end), without [QUE]
    que: int  # position of [QUE]; 0 if there is none


def _frame(text: str, encoder: TextEncoder, max_query_tokens: int, que: list[int]) -> tuple[_Frame, list[str]]:
    """Returns the tokens around each piece, and the notes on the query."""
    query = encoder.ids(text)
    notes = ["truncated_query"] if len(query) > max_query_tokens else []
    around, (start, end), (offset, _) = encoder.pair([*query[:max_query_tokens], *que], ())
    before, after = np.array(around[:offset], np.int32), np.array(around[offset:], np.int32)
    return _Frame(before, after, (start, end - len(que)), end - 1 if que else 0), notes


def _answer_tokens(record: MrcExample, context: _Context) -> tuple[list[tuple[int, int]], list[str]]:
    """Returns the first and LAST token of each distinct answer, as indices into the context, and the notes on them."""
    notes = ["answer_elsewhere"] if record.answerable and not record.answers else []
    encoded = _offsets(context.starts, context.ends)
    placed = [place_answer(encoded, start, end, 0, len(context.ids), notes) for start, end in record.answers]
    return list(dict.fromkeys(answer for answer in placed if answer is not None)), notes


def _pieces_of_cut_answers(
    answers: Sequence[tuple[int, int]], pieces: Sequence[tuple[int, int]], length: int, room: int
) -> tuple[list[tuple[int, int]], list[str]]:
    """Returns one more piece for each answer that no piece holds whole, and notes on answers longer than `room`."""
    more: list[tuple[int, int]] = []
    notes: list[str] = []
    for answer in answers:
        if not any(_within(answer, piece) for piece in (*pieces, *more)):
            if answer[1] - answer[0] < room:
                more.append(_piece_around(answer, length, room))
            else:
                notes.append("answer_longer_than_window")
    return more, notes


def _window(
    record: MrcExample,
    index: int,
    number: int,
    frame: _Frame,
    context: _Context,
    piece: tuple[int, int],
    answers: Sequence[tuple[int, int]],
    notes: tuple[str, ...],
) -> MrcWindow:
    """Returns the window of one piece: number `number` of the record at `index`."""
    start, end = piece
    offset = len(frame.before)
    inside = [
        (offset + first - start, offset + last - start) for first, last in answers if start <= first and last < end
    ]
    name = record.id if record.label is None else f"{record.id}:{record.label}"
    return MrcWindow(
        id=f"{name}+{number}" if number else name,
        record=index,
        label=record.label,
        ids=np.concatenate([frame.before, context.ids[start:end], frame.after]),
        query=frame.query,
        context=(offset, offset + end - start),
        que=frame.que,
        answers=tuple(inside),
        answerable=bool(inside),
        starts=context.starts[start:end],
        ends=context.ends[start:end],
        notes=notes,
    )


def _offsets(starts: np.ndarray, ends: np.ndarray) -> Encoded:
    """Returns the offsets in the form that `token_span` searches."""
    return Encoded((), tuple(starts.tolist()), tuple(ends.tolist()))


def _pieces(context: _Context, room: int, stride: int) -> list[tuple[int, int]]:
    """Returns the pieces `[start, end)` of a text. Neighbours share `stride` tokens, at most half of `room`.

    A text of 9 tokens, room 5, stride 2:

        tokens   0 1 2 3 4 5 6 7 8
        [0, 5)   x x x x x
        [3, 8)         x x x x x
        [6, 9)               x x x
    """
    length = len(context.ids)
    if not length:
        return []
    step = room - min(stride, room // 2)
    more = -(-max(length - room, 0) // step)
    return [(start, min(start + room, length)) for start in range(0, (more + 1) * step, step)]


def _pieces_of_words(context: _Context, room: int, stride: int) -> list[tuple[int, int]]:
    """Returns the pieces of a text that is cut between words; the offsets of its tokens are those of their words.
    Neighbours share at most `stride` tokens; a word longer than `room` is cut as if it were several words."""
    length = len(context.ids)
    if not length:
        return []
    words = [0, *(np.flatnonzero(np.diff(context.starts)) + 1).tolist(), length]
    edges = [edge for start, end in pairwise(words) for edge in range(start, end, room)] + [length]
    return [(edges[first], edges[end]) for first, end in word_pieces(edges, room, stride)]


def _piece_around(answer: tuple[int, int], length: int, room: int) -> tuple[int, int]:
    """Returns the piece with the answer (first and LAST token) in its middle, or as near as the text's ends allow."""
    start = min(max((answer[0] + answer[1] + 1 - room) // 2, 0), length - room)
    return start, start + room


def _within(answer: tuple[int, int], piece: tuple[int, int]) -> bool:
    return piece[0] <= answer[0] and answer[1] < piece[1]


def _candidates(window: MrcWindow, spans: Sequence[CharSpan], size: int) -> tuple[tuple[int, int], ...]:
    """Returns Z of one window, positions in the window."""
    if not window.answers:
        return ((0, 0),)
    offset = window.context[0]
    piece = _offsets(window.starts, window.ends)
    placed: list[tuple[int, int]] = []
    for start_char, end_char in spans:
        if len(placed) == size:
            break
        span = token_span(piece, start_char, end_char)
        if span and (piece.starts[span[0]], piece.ends[span[1]]) == (start_char, end_char):
            position = (offset + span[0], offset + span[1])
            if position not in placed:
                placed.append(position)
    if window.answers[0] not in placed:
        placed[size - 1 :] = [window.answers[0]]
    return tuple(placed)
