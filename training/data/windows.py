"""Questions and their contexts as windows: what a model reads of them, with exact places back into the contexts.

The tokenizer's special tokens count in `InferenceSettings.max_tokens`. A context that is too long is read in several
windows that overlap: those that Hugging Face's tokenizer makes with `truncation="only_second"` and `stride`. Every window is full,
but for the last, which ends with the context, and for windows of whole words. A record of whose context the tokenizer
leaves nothing gives no window, so its prediction is empty; whoever wants to count such records finds that no window
names their place.

Answers decide where windows are in one case alone: one that lies whole in none of them gets one more. Prediction that
must not know of answers is given records without.

What was cut or lost stands in the `notes` of a record's first window, each reason once:

    truncated_query            the query is longer than `max_query_tokens`: its end was cut
    answer_without_tokens      the tokenizer leaves out an answer's code points
    not_on_token_boundary      kept: the fewest tokens that cover an answer read as a little more, or less
    answer_longer_than_window  an answer fits no window
    answer_elsewhere           the record has answers, but the context does not hold them where its file says

A record that loses all its answers must not be trained on (`taught`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

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
_F = TypeVar("_F")


class _Context(NamedTuple):
    """`Encoded` as int32 arrays, to cut windows from."""

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
    """`<s> query </s></s> piece of the context </s>`; with `with_que`, [QUE] ends the query (CLISM, 3.4, equation 10).

    `query` spans the query without [QUE]. Raises `ConfigError` if the longest query leaves no room for a context.
    """
    contexts = _each_once([each.context for each in records], encoder.encode)
    return _mrc_windows(records, contexts, encoder, settings, with_que, cut=_pieces)


def word_windows(
    records: Sequence[MrcExample],
    words: Sequence[Sequence[CharSpan]],
    encoder: TextEncoder,
    settings: InferenceSettings,
) -> list[MrcWindow]:
    """The same with contexts whose words, given for each record, are tokenised one by one.

    Every token begins and ends where its word does, so that any span of tokens reads as whole words; the "▁" that
    stands alone before a word is empty, as in running text. Text between words is left out. No window ends within a
    word, but where the word alone is too long for one, or an answer that neighbours cut needs a window of its own.
    """

    def encode(context_words: tuple[str, tuple[CharSpan, ...]]) -> Encoded:
        context, spans = context_words
        ids, places = encoder.encode_words(context, spans)
        starts, ends, done = [], [], 0
        for (start_char, end_char), (start, end) in zip(spans, places, strict=True):
            if start < end:
                starts += [start_char] * (end - done)
                ends += [start_char] * (start - done) + [end_char] * (end - start)
                done = end
        return Encoded(tuple(ids), tuple(starts), tuple(ends))

    contexts = _each_once([(each.context, tuple(spans)) for each, spans in zip(records, words, strict=True)], encode)
    return _mrc_windows(records, contexts, encoder, settings, with_que=False, cut=_pieces_of_words)


def with_candidates(
    windows: Sequence[MrcWindow],
    records: Sequence[MrcExample],
    candidates: Sequence[Sequence[CharSpan]],
    size: int,
) -> list[MrcWindow]:
    """The windows with their Z, at most `size` spans (two-stage, Hard-Learning Algorithm).

    `candidates`: for each record a baseline's best answers, best first. Z are those that stand on whole tokens
    of the window; its first answer takes the place of the last if it is none of them (footnote 1). In a window without
    an answer Z is [CLS], place 0.
    """
    if len(candidates) != len(records) or size < 1:
        raise ValueError(
            f"expected candidates of each of {len(records)} records and a size above 0, found those of "
            f"{len(candidates)} and {size}"
        )
    return [each._replace(candidates=_candidates(each, candidates[each.record], size)) for each in windows]


def taught(features: Sequence[_F]) -> list[_F]:
    """What to train on: windows of a query all of whose answers were `LOST` would teach that it has none. Features of
    other kinds are all kept."""
    windows = [each for each in features if isinstance(each, MrcWindow)]
    answered = {(each.record, each.label) for each in windows if each.answers}
    lost = {(each.record, each.label) for each in windows if LOST.intersection(each.notes)} - answered
    return [each for each in features if not (isinstance(each, MrcWindow) and (each.record, each.label) in lost)]


def _each_once(keys: Iterable[_K], encode: Callable[[_K], Encoded]) -> Iterator[_Context]:
    """The tokens of each key, made once for all keys that are equal."""
    known: dict[_K, _Context] = {}
    for key in keys:
        if key not in known:
            known[key] = _Context(*[np.array(values, np.int32) for values in encode(key)])
        yield known[key]


def _mrc_windows(
    records: Sequence[MrcExample],
    contexts: Iterable[_Context],
    encoder: TextEncoder,
    settings: InferenceSettings,
    with_que: bool,
    cut: Callable[[_Context, int, int], list[tuple[int, int]]],
) -> list[MrcWindow]:
    que = [encoder.que_id] if with_que else []
    room_for(settings, len(encoder.pair((), ())[0]) + len(que), settings.max_query_tokens)
    found: list[MrcWindow] = []
    for index, (record, context) in enumerate(zip(records, contexts, strict=True)):
        query = encoder.ids(record.query)
        notes = ["truncated_query"] if len(query) > settings.max_query_tokens else []
        around, in_query, (offset, _) = encoder.pair([*query[: settings.max_query_tokens], *que], ())
        before, after = np.array(around[:offset], np.int32), np.array(around[offset:], np.int32)

        if record.answerable and not record.answers:
            notes.append("answer_elsewhere")
        length, room = len(context.ids), settings.max_tokens - len(around)
        encoded = _offsets(context.starts, context.ends)
        placed = [place_answer(encoded, start, end, 0, length, notes) for start, end in record.answers]
        answers = list(dict.fromkeys(answer for answer in placed if answer is not None))
        pieces = cut(context, room, settings.stride)
        for answer in answers:
            if not any(_within(answer, piece) for piece in pieces):
                if answer[1] - answer[0] < room:
                    pieces.append(_piece_around(answer, length, room))
                else:
                    notes.append("answer_longer_than_window")

        name = record.id if record.label is None else f"{record.id}:{record.label}"
        for number, (start, end) in enumerate(pieces):
            shift = offset - start
            inside = [(first + shift, last + shift) for first, last in answers if start <= first and last < end]
            found.append(
                MrcWindow(
                    id=f"{name}+{number}" if number else name,
                    record=index,
                    label=record.label,
                    ids=np.concatenate([before, context.ids[start:end], after]),
                    query=(in_query[0], in_query[1] - len(que)),
                    context=(offset, offset + end - start),
                    que=in_query[1] - 1 if que else 0,
                    answers=tuple(inside),
                    answerable=bool(inside),
                    starts=context.starts[start:end],
                    ends=context.ends[start:end],
                    notes=() if number else tuple(dict.fromkeys(notes)),
                )
            )
    return found


def _offsets(starts: np.ndarray, ends: np.ndarray) -> Encoded:
    """What `token_span` searches in."""
    return Encoded((), tuple(starts.tolist()), tuple(ends.tolist()))


def _pieces(context: _Context, room: int, stride: int) -> list[tuple[int, int]]:
    """`[start, end)` of the windows of a text. Neighbours share `stride` tokens, at most half of `room`."""
    length = len(context.ids)
    if not length:
        return []
    step = room - min(stride, room // 2)
    more = -(-max(length - room, 0) // step)
    return [(start, min(start + room, length)) for start in range(0, (more + 1) * step, step)]


def _pieces_of_words(context: _Context, room: int, stride: int) -> list[tuple[int, int]]:
    """The same of a text whose tokens begin where their words do, cut between words. Neighbours share `stride` tokens
    at most; a word longer than `room` is cut as if it were several."""
    length = len(context.ids)
    if not length:
        return []
    words = [0, *(np.flatnonzero(np.diff(context.starts)) + 1).tolist(), length]
    edges = [edge for start, end in pairwise(words) for edge in range(start, end, room)] + [length]
    return [(edges[first], edges[end]) for first, end in word_pieces(edges, room, stride)]


def _piece_around(answer: tuple[int, int], length: int, room: int) -> tuple[int, int]:
    """A window with the answer, first and LAST token, in its middle, or as near as the text's ends let it."""
    start = min(max((answer[0] + answer[1] + 1 - room) // 2, 0), length - room)
    return start, start + room


def _within(answer: tuple[int, int], piece: tuple[int, int]) -> bool:
    return piece[0] <= answer[0] and answer[1] < piece[1]


def _candidates(window: MrcWindow, spans: Sequence[CharSpan], size: int) -> tuple[tuple[int, int], ...]:
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
            place = (offset + span[0], offset + span[1])
            if place not in placed:
                placed.append(place)
    if window.answers[0] not in placed:
        placed[size - 1 :] = [window.answers[0]]
    return tuple(placed)
