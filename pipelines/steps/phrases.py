"""Where a phrase stands in a text as whole words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from schemas.spans import CharSpan


class Boundaries:
    """Where words of a text may begin and end, to ask whether a span is made of whole words.

    A span is, if it runs from the start of one of `tokens` to the end of one. In languages whose words are `spaced`,
    also if no letter, digit or mark touches it: "U.S" of the token "U.S." is a whole word to a reader.
    """

    def __init__(self, text: str, tokens: Sequence[CharSpan], spaced: bool) -> None:
        self.text, self.spaced = text, spaced
        self.starts = {token.start for token in tokens}
        self.ends = {token.end for token in tokens}

    def hold(self, start: int, end: int) -> bool:
        return (start in self.starts and end in self.ends) or (self.spaced and stands_alone(self.text, start, end))


def whole_words(
    phrase: str, boundaries: Boundaries, *, ignore_case: bool, within: CharSpan | None = None
) -> Iterator[CharSpan]:
    """The occurrences of `phrase` that are whole words, in all of the text or `within` a part of it.

    Any white space matches a blank of the phrase.
    """
    text = boundaries.text
    for found in _pattern(phrase, ignore_case).finditer(text, *(within or CharSpan(0, len(text)))):
        if boundaries.hold(*found.span()):
            yield CharSpan(*found.span())


class Searchable:
    """A text that is asked often whether a reader would find a phrase in it, without regard to case: as whole words
    where words are spaced, anywhere elsewhere. Stricter than `whole_words`: for texts that must not hold a phrase."""

    def __init__(self, text: str, spaced: bool) -> None:
        self.text, self.spaced = text, spaced
        self._folded = _folded(text)

    def mentions_any(self, phrases: Iterable[str]) -> bool:
        return any(map(self._mentions, phrases))

    def _mentions(self, phrase: str) -> bool:
        if _folded(phrase) not in self._folded:  # most are told apart so, tens of times as fast as by a pattern
            return False
        found = _pattern(phrase, True).finditer(self.text)
        return any(not self.spaced or stands_alone(self.text, *match.span()) for match in found)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or mark touches text[start:end] from outside.

    >>> stands_alone("an artist", 3, 6)
    False
    """
    return not (start and _is_of_a_word(text[start - 1])) and not (end < len(text) and _is_of_a_word(text[end]))


@lru_cache(maxsize=1 << 12)
def _is_of_a_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN"


@lru_cache(maxsize=1 << 10)
def _pattern(phrase: str, ignore_case: bool) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, phrase.split())), re.IGNORECASE if ignore_case else 0)
