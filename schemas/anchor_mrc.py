"""Anchor-MRC examples: a definition that asks for its entity, and a text that mentions it, or not (mPMR, 2.2)."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.languages import LANGUAGES
from schemas.spans import CHAR_SPANS, CharSpan

NAME = "anchor_mrc"
VERSION = 1
MASK_TOKEN = "[MASK]"

_ARTICLE = pa.struct(
    [
        pa.field("page_id", pa.int64(), nullable=False),
        pa.field("revision_id", pa.int64(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
    ]
)

ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("entity", pa.string(), nullable=False),
        pa.field("query_text", pa.string(), nullable=False),
        pa.field("query_mask_spans", CHAR_SPANS, nullable=False),
        pa.field("context_text", pa.string(), nullable=False),
        pa.field("answers", CHAR_SPANS, nullable=False),
        pa.field("answerable", pa.bool_(), nullable=False),
        pa.field("anchor_text", pa.string()),
        pa.field("words_before_drawn", pa.int32(), nullable=False),
        pa.field("words_before_anchor", pa.int32(), nullable=False),
        pa.field("definition_article", _ARTICLE, nullable=False),
        pa.field("mention_article", _ARTICLE, nullable=False),
    ],
    metadata={"polyspan.schema": f"{NAME}/{VERSION}"},
)


class ArticleRef(NamedTuple):
    """The revision of a Wikipedia article that a text was taken from: what CC BY-SA asks to name."""

    page_id: int
    revision_id: int
    title: str


@dataclass(frozen=True, slots=True)
class AnchorMrcExample:
    """One query and one context. All spans are code points, half-open.

    >>> AnchorMrcExample(
    ...     id="8f…", lang="en", entity="Hanoi",
    ...     query_text="[MASK] is the capital of Vietnam.", query_mask_spans=(CharSpan(0, 6),),
    ...     context_text="Anna came to Hanoi in 1999.", answers=(CharSpan(13, 18),),  # Hanoi
    ...     answerable=True, anchor_text="Hanoi",
    ...     words_before_drawn=120, words_before_anchor=3,  # where the article has no more
    ...     definition_article=ArticleRef(56, 560, "Hanoi"), mention_article=ArticleRef(7, 78, "Anna"),
    ... )

    In Vietnamese `Anna đến Hà Nội năm 1999.` the answer would be `[9, 15)`, Hà Nội. An unanswerable example has no
    answers, its `anchor_text` is None, and its context was cut around a place of an article that does not mention the
    entity.
    """

    id: str
    lang: str
    entity: str  # title of the definition article, after redirects
    query_text: str  # with `[MASK]` for each of the entity's names
    query_mask_spans: tuple[CharSpan, ...]  # of `query_text`: any other `[MASK]` is the article's own
    context_text: str
    answers: tuple[CharSpan, ...]  # of `context_text`: every one holds the anchor's text
    answerable: bool
    anchor_text: str | None
    words_before_drawn: int  # ξ as it was drawn
    words_before_anchor: int  # ξ as realised: not the same at the article's edges
    definition_article: ArticleRef  # of the query
    mention_article: ArticleRef  # of the context

    def to_row(self) -> dict[str, Any]:
        """The plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
        return {
            "id": self.id,
            "lang": self.lang,
            "entity": self.entity,
            "query_text": self.query_text,
            "query_mask_spans": [{"start_char": start, "end_char": end} for start, end in self.query_mask_spans],
            "context_text": self.context_text,
            "answers": [{"start_char": start, "end_char": end} for start, end in self.answers],
            "answerable": self.answerable,
            "anchor_text": self.anchor_text,
            "words_before_drawn": self.words_before_drawn,
            "words_before_anchor": self.words_before_anchor,
            "definition_article": self.definition_article._asdict(),
            "mention_article": self.mention_article._asdict(),
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> AnchorMrcExample:
        """The example that an Arrow row holds."""
        return cls(
            **{
                **row,
                "query_mask_spans": tuple(CharSpan(*span.values()) for span in row["query_mask_spans"]),
                "answers": tuple(CharSpan(*span.values()) for span in row["answers"]),
                "definition_article": ArticleRef(**row["definition_article"]),
                "mention_article": ArticleRef(**row["mention_article"]),
            }
        )


def problems(example: AnchorMrcExample) -> list[str]:
    """What breaks the contract in this example, in words; empty when nothing does."""
    found = [f"{name} is empty" for name in ("id", "lang", "entity") if not getattr(example, name)]
    found += _span_problems("mask", example.query_mask_spans, "query_text", example.query_text)
    found += _span_problems("answer", example.answers, "context_text", example.context_text)
    anchor = example.anchor_text
    for index, span in enumerate(example.query_mask_spans):
        if span.of(example.query_text) != MASK_TOKEN:
            found.append(f"mask {index}: query_text holds {span.of(example.query_text)!r} there, not {MASK_TOKEN}")
    if example.answerable != bool(example.answers):
        found.append(f"answerable is {example.answerable}, but it has {len(example.answers)} answers")
    if example.answerable != bool(anchor):
        found.append(f"answerable is {example.answerable}, but anchor_text is {anchor!r}")
    if anchor:
        for index, span in enumerate(example.answers):
            if span.of(example.context_text) != anchor:
                found.append(f"answer {index}: {span.of(example.context_text)!r} is not anchor_text {anchor!r}")
        if query_holds(anchor, example.query_text, example.query_mask_spans, example.lang):
            found.append(f"query_text holds anchor_text {anchor!r} outside its masks")
    for name in ("words_before_drawn", "words_before_anchor"):
        if getattr(example, name) < 0:
            found.append(f"{name} is negative")
    if example.entity != example.definition_article.title:
        found.append(f"entity {example.entity!r} is not the title of definition_article")
    if example.definition_article.page_id == example.mention_article.page_id:
        found.append("query and context come from the same article")
    return found


def query_holds(phrase: str, query_text: str, mask_spans: tuple[CharSpan, ...], lang: str) -> bool:
    """Whether a reader finds `phrase` in the query outside its masks, without regard to case.

    Where the language spaces its words, letters, digits and marks beside it make it part of another word. Elsewhere
    only a tokenizer could say so, and any occurrence counts.
    """
    spaced = lang not in LANGUAGES or LANGUAGES[lang].spaced
    start, end = 0, 0
    for end, following in [*mask_spans, CharSpan(len(query_text), 0)]:
        piece = query_text[start:end]
        if any(not spaced or stands_alone(piece, *match.span()) for match in pattern_of(phrase, True).finditer(piece)):
            return True
        start = following
    return False


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or mark touches text[start:end] from outside.

    >>> stands_alone("an artist", 3, 6)
    False
    """
    return not (start and _is_of_a_word(text[start - 1])) and not (end < len(text) and _is_of_a_word(text[end]))


@functools.lru_cache(maxsize=1 << 10)
def pattern_of(phrase: str, ignore_case: bool) -> re.Pattern[str]:
    """Finds the phrase; any white space matches a blank of it. An empty phrase is found nowhere."""
    words = map(re.escape, phrase.split())
    return re.compile(r"\s+".join(words) or r"(?!)", re.IGNORECASE if ignore_case else 0)


@functools.lru_cache(maxsize=1 << 12)
def _is_of_a_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN"


def _span_problems(what: str, spans: tuple[CharSpan, ...], field: str, text: str) -> list[str]:
    found, before = [], 0
    for index, (start, end) in enumerate(spans):
        if not 0 <= start < end <= len(text):
            found.append(f"{what} {index}: [{start}, {end}) lies outside {field}, or is empty")
        if start < before:
            found.append(f"{what} {index}: overlaps the one before, or is out of order")
        before = end
    return found
