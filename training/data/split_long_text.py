"""Where texts that are too long for one sequence are cut: shared by the windows of questions, words and pairs.

A piece is `[start, end)`. Sizes are in tokens; the tokenizer's special tokens count in `InferenceSettings.max_tokens`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from schemas.errors import ConfigError
from training.recipes.finetuning import InferenceSettings


def room_for(settings: InferenceSettings, taken: int, query: int = 0) -> int:
    """Tokens left for text of a sequence, of which special tokens take `taken` and the longest query `query`."""
    room = settings.max_tokens - taken - query
    if room < 1:
        and_query = f" and {query} of a query. Lower --max-query-tokens or raise" if query else ". Raise"
        raise ConfigError(
            f"max_tokens {settings.max_tokens}: expected room for text beside {taken} special tokens{and_query} "
            "--max-tokens"
        )
    return room


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts are kept in `room`: the longer text gives way, down to half of the room."""
    if first > second:
        return longest_first(second, first, room)[::-1]
    if first + second <= room:
        return first, second
    return (first, room - first) if first <= room // 2 else (room // 2, room - room // 2)


def word_pieces(edges: Sequence[int], room: int, stride: int) -> list[tuple[int, int]]:
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
