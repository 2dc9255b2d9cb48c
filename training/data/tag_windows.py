"""Sentences with a tag a word as windows: what a model reads of them, and which token stands for each word.

A word is in `words` of one window alone. What was cut or lost stands in the `notes` of a record's first window:

    word_without_tokens   the tokenizer leaves out a word: no tag is learnt or predicted for it
    truncated_word        a word is longer than a window: its end was cut
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.mrc import TaggingExample
from training.data.split_long_text import room_for, word_pieces
from training.data.task_batches import TagWindow, number_of
from training.data.tokens import TextEncoder
from training.recipes.finetuning import InferenceSettings


def tag_names(labels: Sequence[str]) -> tuple[str, ...]:
    """The IOB2 tags of entities of these types: a tag's place is its number."""
    return ("O", *[f"{prefix}-{label}" for label in labels for prefix in "BI"])


def tag_windows(
    records: Sequence[TaggingExample], encoder: TextEncoder, settings: InferenceSettings
) -> list[TagWindow]:
    """`<s> words </s>`. Windows overlap by at most `stride` tokens and hold whole words.

    A word is in `words` of that window alone which gives it most context, counted on its poorer side; of two such, the
    earlier. Raises `InputError` if a record has a tag that `settings.labels` do not hold.
    """
    numbers = {name: number for number, name in enumerate(tag_names(settings.labels))}
    room = room_for(settings, len(encoder.single(())))
    before = encoder.single([-1]).index(-1)
    found: list[TagWindow] = []
    for index, record in enumerate(records):
        labels = [number_of(tag, numbers, record.id, "tag") for tag in record.tags]
        ids, places, notes = _fitting_words(*encoder.encode_words(record.text, record.tokens), room)
        kept = [word for word, (start, end) in enumerate(places) if start < end]
        if not kept:
            continue
        edges = [0, *[places[word][1] for word in kept]]  # word kept[i] and a lone "▁" before it are edges[i : i + 2]
        pieces = word_pieces(edges, room, settings.stride)
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
