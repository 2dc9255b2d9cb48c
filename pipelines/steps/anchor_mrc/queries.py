"""Makes queries: the first words of a definition article, in which its entity is masked (mPMR, 2.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pipelines.steps.anchor_mrc.whole_words import Boundaries, whole_words
from pipelines.steps.common.tokenize import Tokenizer
from schemas.anchor_mrc import MASK_TOKEN, query_holds
from schemas.spans import CharSpan

CHARS_PER_WORD = 6  # first guess of the average length of a word, white space included

_PARENTHETICAL = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


class Query(NamedTuple):
    """A query has a text and the spans of its masks: `Query("[MASK] is a town.", (CharSpan(0, 6),))`."""

    text: str
    mask_spans: tuple[CharSpan, ...]


def first_words(text: str, count: int, tokenize: Tokenizer) -> str:
    """Returns the text up to the end of its word number `count`, or the whole text if it has no more words."""
    reach = (count + 4) * CHARS_PER_WORD
    while True:
        words = tokenize(text[:reach])
        if len(words) > count:  # the last one may be cut
            return text[: words[count - 1].end]
        if reach >= len(text):
            return text
        reach += reach // 2


def title_names(title: str) -> list[str]:
    """Returns the title, and the title without its parenthesis.

    >>> title_names("Mercury (planet)")
    ['Mercury (planet)', 'Mercury']
    """
    plain = _PARENTHETICAL.sub("", title)
    return [title] if plain in (title, "") else [title, plain]


def anonymise(text: str, names: Iterable[str], tokenize: Tokenizer, spaced: bool) -> Query:
    """Replaces every occurrence of `names` in `text` by `MASK_TOKEN`, as whole words and without regard to case.

    Masks with only white space between them are merged.
    """
    boundaries = Boundaries(text, tokenize(text), spaced)
    found = sorted(
        span
        for name in dict.fromkeys(names)
        if _LETTER_OR_DIGIT.search(name)
        for span in whole_words(name, boundaries, ignore_case=True)
    )
    merged: list[CharSpan] = []
    for span in found:
        if merged and not text[merged[-1].end : span.start].strip():
            merged[-1] = CharSpan(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    pieces, masks, length, end = [], [], 0, 0
    for span in merged:
        pieces += [text[end : span.start], MASK_TOKEN]
        start = length + span.start - end
        length = start + len(MASK_TOKEN)
        masks.append(CharSpan(start, length))
        end = span.end
    return Query("".join([*pieces, text[end:]]), tuple(masks))


def query_problem(query: Query, anchor_text: str, lang: str) -> str | None:
    """Returns why a query cannot be asked for `anchor_text`: `query_contains_anchor`, `query_has_no_words`, or None."""
    if query_holds(anchor_text, query.text, query.mask_spans, lang):
        return "query_contains_anchor"
    edges = [0, *(edge for span in query.mask_spans for edge in span), len(query.text)]
    shown = "".join(query.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    return None if _LETTER_OR_DIGIT.search(shown) else "query_has_no_words"
