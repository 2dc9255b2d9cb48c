"""Finds the occurrences of a phrase in a text that are whole words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schemas.anchor_mrc import pattern_of, stands_alone
from schemas.spans import CharSpan


class Boundaries:
    """The word boundaries of a text, which decide whether a span consists of whole words.

    A span does if it starts where one of `tokens` starts and ends where one ends. In languages whose words are
    `spaced`, it also does if no letter, digit or mark touches it: "U.S" of the token "U.S." is a word to a reader.
    """

    def __init__(self, text: str, tokens: Sequence[CharSpan], spaced: bool) -> None:
        self.text, self.spaced = text, spaced
        self.starts = {token.start for token in tokens}
        self.ends = {token.end for token in tokens}

    def hold(self, start: int, end: int) -> bool:
        """Returns whether text[start:end] consists of whole words."""
        return (start in self.starts and end in self.ends) or (self.spaced and stands_alone(self.text, start, end))


def whole_words(
    phrase: str, boundaries: Boundaries, *, ignore_case: bool, within: CharSpan | None = None
) -> Iterator[CharSpan]:
    """Yields the occurrences of `phrase` that are whole words, in all of the text or `within` a part of it.

    A blank of the phrase matches any white space.
    """
    text = boundaries.text
    for match in pattern_of(phrase, ignore_case).finditer(text, *(within or CharSpan(0, len(text)))):
        if boundaries.hold(*match.span()):
            yield CharSpan(*match.span())


class Searchable:
    """A text that is searched for many phrases, which it must not contain, without regard to case.

    In languages whose words are spaced, phrases are found as whole words, in others anywhere. This finds more than
    `whole_words`.
    """

    def __init__(self, text: str, spaced: bool) -> None:
        self.text, self.spaced = text, spaced
        self._folded = _folded(text)

    def mentions_any(self, phrases: Iterable[str]) -> bool:
        return any(map(self._mentions, phrases))

    def _mentions(self, phrase: str) -> bool:
        if _folded(phrase) not in self._folded:  # rules out most phrases, and is tens of times as fast as a pattern
            return False
        matches = pattern_of(phrase, True).finditer(self.text)
        return any(not self.spaced or stands_alone(self.text, *match.span()) for match in matches)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
