"""Computes where a text that is too long for one sequence is cut.

Sizes are in tokens; the tokenizer's special tokens count in `InferenceSettings.max_tokens`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from schemas.errors import ConfigError
from training.recipes.finetuning import InferenceSettings


def room_for(settings: InferenceSettings, taken: int, query: int = 0) -> int:
    """Returns the tokens of a sequence that are left for text: `taken` are special tokens, `query` the longest query.

    Raises `ConfigError` if there are none.
    """
    room = settings.max_tokens - taken - query
    if room < 1:
        and_query = f" and {query} of a query. Lower --max-query-tokens or raise" if query else ". Raise"
        raise ConfigError(
            f"max_tokens {settings.max_tokens}: expected room for text beside {taken} special tokens{and_query} "
            "--max-tokens"
        )
    return room


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns the tokens of two texts to keep in `room`: the longer text is cut first, down to half of the room."""
    if first > second:
        return longest_first(second, first, room)[::-1]
    if first + second <= room:
        return first, second
    return (first, room - first) if first <= room // 2 else (room // 2, room - room // 2)


def word_pieces(edges: Sequence[int], room: int, stride: int) -> list[tuple[int, int]]:
    """Returns windows of words `[first, end)`. Word i has the tokens `edges[i] : edges[i + 1]`, at most `room`.

    Edges 0, 2, 5, 6, 8, 10, room 6, stride 3:

        tokens   0 1 2 3 4 5 6 7 8 9
        words    0 0 1 1 1 2 3 3 4 4
        [0, 3)   x x x x x x
        [2, 5)             x x x x x
    """
    last = len(edges) - 1
    first, end = 0, bisect_right(edges, edges[0] + room) - 1
    pieces = [(first, end)]
    while end < last:
        # The next window begins at most `stride` tokens back, and has room for the next word.
        back = max(edges[end] - min(stride, room // 2), edges[end + 1] - room)
        first = bisect_left(edges, back)
        end = bisect_right(edges, edges[first] + room) - 1
        pieces.append((first, end))
    return pieces
