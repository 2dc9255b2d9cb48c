"""Records of benchmarks as windows: what a model reads of them, with exact places back into their texts.

The tokenizer's special tokens count in `Reading.max_tokens`. What is too long is read in several windows that overlap;
those of questions are what Hugging Face's tokenizer makes with `truncation="only_second"` and `stride`: every window is
full, but for the last, which ends with the context. A record of which the tokenizer leaves nothing gives no window, so
its prediction is empty; whoever wants to count such records finds that no window names their place.

Answers decide where windows are in one case alone: one that lies whole in none of them gets one more. Prediction that
must not know of answers is given records without.

What was cut or lost stands in the `notes` of a record's first window, each reason once:

    truncated_query            the query is longer than `max_query_tokens`: its end was cut
    answer_without_tokens      the tokenizer leaves out an answer's code points: not learnt
    not_on_token_boundary      kept: the fewest tokens that cover an answer read as a little more, or less
    answer_longer_than_window  an answer fits no window: not learnt
    answer_elsewhere           the record has answers, but the context does not hold them where its file says
    word_without_tokens        the tokenizer leaves out a word: no tag is learnt or predicted for it
    truncated_word             a word is longer than a window: its end was cut
    truncated_pair             two sentences are longer than `max_tokens`: the longer was cut, or both
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from training.data.features import place_answer
from training.data.task_batches import MrcWindow, PairFeatures, TagWindow
from training.data.tokens import Encoded, TextEncoder, token_span
from training.errors import ConfigError, InputError
from training.finetune_recipes import Reading

_K = TypeVar("_K", bound=Hashable)


class _Context(NamedTuple):
    """`Encoded` as int32 arrays, to cut windows from."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def question_windows(
    records: Sequence[MrcExample],
    encoder: TextEncoder,
    reading: Reading,
    *,
    with_que: bool = False,
) -> list[MrcWindow]:
    """`<s> query </s></s> piece of the context </s>`; with `with_que`, [QUE] ends the query (CLISM, 3.4, equation 10).

    `query` spans the query without [QUE]. Raises `ConfigError` if the longest query leaves no room for a context.
    """
    contexts = _each_once([each.context for each in records], encoder.encode)
    return _mrc_windows(records, contexts, encoder, reading, with_que)


def word_windows(
    records: Sequence[MrcExample], words: Sequence[Sequence[CharSpan]], encoder: TextEncoder, reading: Reading
) -> list[MrcWindow]:
    """The same with contexts whose words, given for each record, are tokenised one by one.

    Every token begins and ends where its word does, so that any span of tokens reads as whole words; the "▁" that
    stands alone before a word is empty, as in running text. Text between words is left out.
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
    return _mrc_windows(records, contexts, encoder, reading, with_que=False)


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


def tag_names(labels: Sequence[str]) -> tuple[str, ...]:
    """The IOB2 tags of entities of these types: a tag's place is its number."""
    return ("O", *[f"{prefix}-{label}" for label in labels for prefix in "BI"])


def tag_windows(records: Sequence[TaggingExample], encoder: TextEncoder, reading: Reading) -> list[TagWindow]:
    """`<s> words </s>`. Windows overlap by at most `stride` tokens and hold whole words.

    A word is in `words` of that window alone which gives it most context, counted on its poorer side; of two such, the
    earlier. Raises `InputError` if a record has a tag that `reading.labels` do not know.
    """
    numbers = {name: number for number, name in enumerate(tag_names(reading.labels))}
    room = _room(reading, len(encoder.single(())))
    before = encoder.single([-1]).index(-1)
    found: list[TagWindow] = []
    for index, record in enumerate(records):
        labels = [_number(numbers, tag, record.id, "tag") for tag in record.tags]
        ids, places, notes = _fitting_words(*encoder.encode_words(record.text, record.tokens), room)
        kept = [word for word, (start, end) in enumerate(places) if start < end]
        if not kept:
            continue
        edges = [0, *[places[word][1] for word in kept]]  # word kept[i] and a lone "▁" before it are edges[i : i + 2]
        pieces = _word_pieces(edges, room, reading.stride)
        for piece, mine in zip(pieces, _shared_out(edges, pieces), strict=True):
            if not mine:
                continue
            start = edges[piece[0]]
            whole = encoder.single(ids[start : edges[piece[1]]])
            words = [kept[word] for word in mine]
            found.append(
                TagWindow(
                    id=record.id,
                    record=index,
                    ids=np.array(whole, np.int32),
                    words=tuple(words),
                    places=tuple([before + places[word][0] - start for word in words]),
                    labels=tuple([labels[word] for word in words]) if labels else (),
                    notes=notes,
                )
            )
            notes = ()
    return found


def pair_features(records: Sequence[PairExample], encoder: TextEncoder, reading: Reading) -> list[PairFeatures]:
    """`<s> first </s></s> second </s>`, one for each record; the longer sentence is cut, as Hugging Face's tokenizer
    does with `truncation=True`. Raises `InputError` if a record has a label that `reading.labels` do not hold.
    """
    numbers = {name: number for number, name in enumerate(reading.labels)}
    room = _room(reading, len(encoder.pair((), ())[0]))
    found = []
    for index, record in enumerate(records):
        label = -1 if record.label is None else _number(numbers, record.label, record.id, "label")
        first, second = encoder.ids(record.sentence1), encoder.ids(record.sentence2)
        notes = ("truncated_pair",) if len(first) + len(second) > room else ()
        most_first, most_second = _longest_first(len(first), len(second), room)
        ids, _, _ = encoder.pair(first[:most_first], second[:most_second])
        found.append(PairFeatures(record.id, index, np.array(ids, np.int32), label, notes))
    return found


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
    reading: Reading,
    with_que: bool,
) -> list[MrcWindow]:
    que = [encoder.que_id] if with_que else []
    _room(reading, len(encoder.pair((), ())[0]) + len(que), reading.max_query_tokens)
    found: list[MrcWindow] = []
    for index, (record, context) in enumerate(zip(records, contexts, strict=True)):
        query = encoder.ids(record.query)
        notes = ["truncated_query"] if len(query) > reading.max_query_tokens else []
        around, in_query, (offset, _) = encoder.pair([*query[: reading.max_query_tokens], *que], ())
        before, after = np.array(around[:offset], np.int32), np.array(around[offset:], np.int32)

        if record.answerable and not record.answers:
            notes.append("answer_elsewhere")
        length, room = len(context.ids), reading.max_tokens - len(around)
        encoded = _offsets(context.starts, context.ends)
        placed = [place_answer(encoded, start, end, 0, length, notes) for start, end in record.answers]
        answers = list(dict.fromkeys(answer for answer in placed if answer is not None))
        pieces = _pieces(length, room, reading.stride)
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


def _pieces(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """`[start, end)` of the windows of a text of `length` tokens. Neighbours share `stride`, at most half of `room`."""
    if not length:
        return []
    step = room - min(stride, room // 2)
    more = -(-max(length - room, 0) // step)
    return [(start, min(start + room, length)) for start in range(0, (more + 1) * step, step)]


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


def _fitting_words(
    ids: list[int], places: list[tuple[int, int]], room: int
) -> tuple[list[int], list[tuple[int, int]], tuple[str, ...]]:
    """The same, with words cut that fit no window even alone, and the notes on that."""
    notes = {"word_without_tokens": any(start == end for start, end in places)}
    kept: list[int] = []
    moved = []
    done = 0
    for start, end in places:
        if start == end:
            moved.append((len(kept), len(kept)))
            continue
        notes["truncated_word"] = notes.get("truncated_word", False) or end - start > room
        begin = done if end - done <= room else start  # a lone "▁" is the first to go
        cut = min(end, begin + room)
        moved.append((len(kept) + start - begin, len(kept) + cut - begin))
        kept += ids[begin:cut]
        done = end
    return kept, moved, tuple(note for note, holds in notes.items() if holds)


def _word_pieces(edges: Sequence[int], room: int, stride: int) -> list[tuple[int, int]]:
    """Windows of words `[first, end)`, where word i lies between edges i and i + 1 and is no longer than `room`."""
    last = len(edges) - 1
    first, end = 0, bisect_right(edges, edges[0] + room) - 1
    pieces = [(first, end)]
    while end < last:
        # No more than `stride` tokens back, and so that the next word fits.
        back = max(edges[end] - min(stride, room // 2), edges[end + 1] - room)
        first = bisect_left(edges, back)
        end = bisect_right(edges, edges[first] + room) - 1
        pieces.append((first, end))
    return pieces


def _shared_out(edges: Sequence[int], pieces: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Which words each of the windows is for."""
    best = [(-1, 0)] * (len(edges) - 1)  # context on the poorer side, and which window gives it
    for number, (first, end) in enumerate(pieces):
        for word in range(first, end):
            context = min(edges[word] - edges[first], edges[end] - edges[word + 1])
            if context > best[word][0]:
                best[word] = (context, number)
    mine: list[list[int]] = [[] for _ in pieces]
    for word, (_, number) in enumerate(best):
        mine[number].append(word)
    return mine


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two sentences is kept: the longer gives way, down to the half."""
    if first > second:
        return _longest_first(second, first, room)[::-1]
    if first + second <= room:
        return first, second
    return (first, room - first) if first <= room // 2 else (room // 2, room - room // 2)


def _room(reading: Reading, taken: int, query: int = 0) -> int:
    """Tokens left for text of a sequence, of which special tokens take `taken` and the longest query `query`."""
    room = reading.max_tokens - taken - query
    if room < 1:
        and_query = f" and {query} of a query. Lower --max-query-tokens or raise" if query else ". Raise"
        raise ConfigError(
            f"max_tokens {reading.max_tokens}: expected room for text beside {taken} special tokens{and_query} "
            "--max-tokens"
        )
    return room


def _number(numbers: dict[str, int], name: str, record: str, what: str) -> int:
    if name not in numbers:
        raise InputError(
            f"{record}: expected a {what} of {', '.join(numbers)}, found {name}. Choose the --task whose labels the "
            "file has"
        )
    return numbers[name]
