"""Long texts and sentences of many scripts, cut into words in several ways."""

from __future__ import annotations

from schemas.mrc import TaggingExample, problems
from schemas.spans import CharSpan

from .conftest import TEXTS

LONG = {lang: " ".join([text] * 4) for lang, text in TEXTS.items()} | {
    "marks": "e\u0301t\u00e9 o\u0302\u0301 \u0301x " * 8,
    "emoji": "👩‍👩‍👧 👍🏽👍 🇻🇳 ❤️, Anna 👋 " * 4,
    "blanks": "  Anna\u00a0lives　in\tHanoi \n" * 5,
}


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
