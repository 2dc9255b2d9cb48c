"""Where a phrase stands in a text as whole words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schemas.anchor_mrc import pattern_of, stands_alone
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
    for found in pattern_of(phrase, ignore_case).finditer(text, *(within or CharSpan(0, len(text)))):
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
        found = pattern_of(phrase, True).finditer(self.text)
        return any(not self.spaced or stands_alone(self.text, *match.span()) for match in found)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
