"""Cuts contexts: the words around an anchor (mPMR, 2.2, Stochastic Answer Position)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pipelines.steps.anchor_mrc.queries import CHARS_PER_WORD
from pipelines.steps.anchor_mrc.whole_words import Boundaries, whole_words
from pipelines.steps.common.tokenize import Tokenizer
from schemas.spans import CharSpan

_WHITE_SPACE = re.compile(r"\s")


class Context(NamedTuple):
    """A context is a window of an article."""

    text: str
    anchor: CharSpan  # in `text`
    answers: tuple[CharSpan, ...]  # in `text`: every occurrence of the anchor's text as whole words
    words_before: int  # words before the anchor; at the article's start fewer than asked for


def cut_context(
    article: str,
    anchor: CharSpan,
    words_before: int,
    words_after: int,
    tokenize: Tokenizer,
    spaced: bool,
    *,
    fill: bool = False,
) -> Context:
    """Cuts out the anchor with `words_before` and `words_after` words around it, or fewer at the article's edges.

    With `fill`, words that are missing on one side are added on the other. Only the window is tokenised. The anchor's
    edges are word boundaries even if the tokenizer has none there.

    article   w w w w w w [anchor] w w w w w
    before        └─────┘          └───┘       after
    text          └────────────────────┘
    """
    wanted = words_before + words_after
    before = _last_words(article, anchor.start, wanted if fill else words_before, tokenize)
    after = _first_words(article, anchor.end, wanted if fill else words_after, tokenize)
    if fill:
        words_before = min(len(before), max(words_before, wanted - len(after)))
        before, after = before[len(before) - words_before :], after[: wanted - words_before]
    start = before[0].start if before else anchor.start
    end = after[-1].end if after else anchor.end
    text = article[start:end]
    tokens = [CharSpan(word.start - start, word.end - start) for word in (*before, anchor, *after)]
    own = tokens[len(before)]
    boundaries = Boundaries(text, tokens, spaced)
    same = [
        span
        for part in (CharSpan(0, own.start), CharSpan(own.end, len(text)))
        for span in whole_words(own.of(text), boundaries, ignore_case=False, within=part)
        if span.of(text) == own.of(text)  # white space as well
    ]
    return Context(text, own, tuple(sorted([own, *same])), len(before))


def _last_words(text: str, end: int, count: int, tokenize: Tokenizer) -> list[CharSpan]:
    """Returns the spans of the last `count` words of text[:end]."""
    reach = (count + 4) * CHARS_PER_WORD
    while count:
        start = max(0, end - reach)
        if start and (blank := _WHITE_SPACE.search(text, start, end)):
            start = blank.end()
        words = tokenize(text[start:end])
        if len(words) > count or start == 0:  # the first one may be cut
            return [CharSpan(word.start + start, word.end + start) for word in words[-count:]]
        reach += reach // 2
    return []


def _first_words(text: str, start: int, count: int, tokenize: Tokenizer) -> list[CharSpan]:
    """Returns the spans of the first `count` words of text[start:]."""
    reach = (count + 4) * CHARS_PER_WORD
    while count:
        words = tokenize(text[start : start + reach])
        if len(words) > count or start + reach >= len(text):
            return [CharSpan(word.start + start, word.end + start) for word in words[:count]]
        reach += reach // 2
    return []
