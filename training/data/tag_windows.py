"""Turns tagged sentences into windows: token sequences, and the first token of each word, from which its tag is read.

    words of the sentence    w0 w1 w2 w3 w4 w5 w6
    window 0             <s> w0 w1 w2 w3 w4 </s>
    window 1                      <s> w3 w4 w5 w6 </s>       w3 belongs to window 0, w4 to window 1

Windows may overlap, but each word belongs to one window (`words`): that in which it has most context. The `notes` of a
record's first window say what was cut or lost:

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
    """Returns the IOB2 tags of entities of these types, in the order of their numbers."""
    return ("O", *[f"{prefix}-{label}" for label in labels for prefix in "BI"])


def tag_windows(
    records: Sequence[TaggingExample], encoder: TextEncoder, settings: InferenceSettings
) -> list[TagWindow]:
    """Returns the windows `<s> words </s>` of all records, of whole words, which overlap by at most `stride` tokens.

    A word belongs to the window in which the shorter of its left and right contexts is longest; of two such windows, to
    the earlier. Raises `InputError` if a record has a tag that `settings.labels` do not hold.
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
        edges = [0, *[places[word][1] for word in kept]]  # word kept[i], with a "▁" before it, is edges[i : i + 2]
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
    """Returns ids and places with words cut that fit no window, and the notes on what was cut or lost."""
    notes = {"word_without_tokens": any(start == end for start, end in places)}
    kept: list[int] = []
    moved = []
    done = 0
    for start, end in places:
        if start == end:
            moved.append((len(kept), len(kept)))
            continue
        notes["truncated_word"] = notes.get("truncated_word", False) or end - start > room
        begin = done if end - done <= room else start  # a "▁" without text is dropped first
        cut = min(end, begin + room)
        moved.append((len(kept) + start - begin, len(kept) + cut - begin))
        kept += ids[begin:cut]
        done = end
    return kept, moved, tuple(note for note, holds in notes.items() if holds)


def _shared_out(edges: Sequence[int], pieces: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Returns the words that belong to each window."""
    best = [(-1, 0)] * (len(edges) - 1)  # of each word: tokens of its shorter context, and the window
    for number, (first, end) in enumerate(pieces):
        for word in range(first, end):
            context = min(edges[word] - edges[first], edges[end] - edges[word + 1])
            if context > best[word][0]:
                best[word] = (context, number)
    mine: list[list[int]] = [[] for _ in pieces]
    for word, (_, number) in enumerate(best):
        mine[number].append(word)
    return mine
