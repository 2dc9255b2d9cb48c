"""Anchor-MRC examples: the query defines an entity, and the context mentions the entity or does not (mPMR, 2.2)."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import Balance, Counts
from schemas.languages import LANGUAGES
from schemas.spans import CHAR_SPANS, CharSpan
from schemas.spec import CardText, SchemaSpec

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
    """The revision of a Wikipedia article that a text was taken from. CC BY-SA requires naming it."""

    page_id: int
    revision_id: int
    title: str


@dataclass(frozen=True, slots=True)
class AnchorMrcExample:
    """A query, and a context that may answer it. All spans are code points, half-open.

    >>> example = AnchorMrcExample(
    ...     id="8f…", lang="en", entity="Hanoi",
    ...     query_text="[MASK] is the capital of Vietnam.", query_mask_spans=(CharSpan(0, 6),),
    ...     context_text="Anna came to Hanoi in 1999.", answers=(CharSpan(13, 18),),  # Hanoi
    ...     answerable=True, anchor_text="Hanoi",
    ...     words_before_drawn=120, words_before_anchor=3,  # the article has no more words before the anchor
    ...     definition_article=ArticleRef(56, 560, "Hanoi"), mention_article=ArticleRef(7, 78, "Anna"),
    ... )
    >>> problems(example)
    []

    In Vietnamese `Anna đến Hà Nội năm 1999.` the answer would be `[9, 15)`, Hà Nội. An unanswerable example has no
    answers, its `anchor_text` is None, and its context was cut from an article that does not mention the entity.
    """

    id: str
    lang: str
    entity: str  # title of the definition article, after redirects
    query_text: str  # with `[MASK]` for each of the entity's names
    query_mask_spans: tuple[CharSpan, ...]  # of `query_text`; any other `[MASK]` is from the article
    context_text: str
    answers: tuple[CharSpan, ...]  # of `context_text`; each span holds the anchor's text
    answerable: bool
    anchor_text: str | None
    words_before_drawn: int  # ξ as drawn at random
    words_before_anchor: int  # ξ as realised: smaller near the article's beginning, larger near its end
    definition_article: ArticleRef  # of the query
    mention_article: ArticleRef  # of the context

    def to_row(self) -> dict[str, Any]:
        """Returns the plain values that `pyarrow` turns into a row of `ARROW_SCHEMA`."""
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
        """Returns the example that an Arrow row holds."""
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
    """Returns what breaks the contract in this example, in words."""
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
    """Returns whether the query contains `phrase` outside its masks, in any case.

    In a language with spaces between words, an occurrence inside a longer word does not count. In other languages every
    occurrence counts, because only a tokenizer could find the words.
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
    """Returns whether no letter, digit or combining mark touches text[start:end] from outside.

    >>> stands_alone("an artist", 3, 6)
    False
    """
    return not (start and _is_of_a_word(text[start - 1])) and not (end < len(text) and _is_of_a_word(text[end]))


@functools.lru_cache(maxsize=1 << 10)
def pattern_of(phrase: str, ignore_case: bool) -> re.Pattern[str]:
    """Returns a pattern of the phrase, in which a blank matches any white space. An empty phrase matches nothing."""
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


# --- counts and reasons -----------------------------------------------------------------------------------------------

REJECT_REASONS = {
    "page": {
        "other_namespace": "The page is not in the main namespace.",
        "redirect": "The page redirects to another page.",
        "corrupt_block": "A bzip2 block of the dump cannot be decompressed; its pages are missing.",
        "unreadable_rest": "The dump cannot be decompressed from here on; the pages that follow are missing.",
        "truncated": "The dump ends early; pages may be missing.",
        "cut_page": "The page has no end: the dump ends or is damaged inside it.",
        "page_too_long": "The page is longer than 64 MiB.",
        "bad_page": "The page lacks a field, or is not in the form that MediaWiki or WikiExtractor writes.",
        "invalid_utf8": "The page or line is not valid UTF-8.",
        "text_missing": "The dump holds only the length of the page's text.",
        "not_json": "The line of WikiExtractor's output is not JSON.",
        "line_too_long": "The line of WikiExtractor's output is longer than 1 MiB.",
        "nul_character": "The line of WikiExtractor's output contains a NUL character.",
    },
    "link": {
        "page_of_same_title": "The link is on a page whose title belongs to another page.",
        "on_disambiguation_page": "The link is on a disambiguation page.",
        "invalid_title": "The link's target is not the title of an article: another wiki, another namespace, no title.",
        "self_link": "The link leads to the article that it is on.",
        "red_link": "No article has the title of the link's target.",
        "redirect_loop": "The redirects from the link's target do not end.",
        "disambiguation": "The link leads to a disambiguation page.",
        "list": "The link leads to a list.",
    },
    "mention": {
        "rare_entity": "The entity has fewer mentions than triplets.min_mentions.",
        "not_sampled": "The entity has more mentions than triplets.per_entity; this one was not drawn.",
        "query_contains_anchor": "The query still contains the anchor's text outside its masks.",
        "query_has_no_words": "The query consists of masks and punctuation.",
    },
    "context": {
        "links_to_entity": "The article of the context links to the entity.",
        "mentions_entity": "The article of the context mentions the entity without a link.",
        "definition_article": "The context is from the entity's own article.",
        "not_needed": "The entity has enough unanswerable examples without this context.",
    },
}


@dataclass(frozen=True, slots=True)
class AnchorCounts(Counts):
    """What became of a language's pages, of the links in its articles, of the links that are mentions, and of the
    contexts drawn for unanswerable examples.

    >>> AnchorCounts(
    ...     pages_read=9, articles=6, page_rejects={"redirect": 3},
    ...     links_found=20, mentions=17, link_rejects={"red_link": 3}, links_saved_by={"redirect": 4},
    ...     answerable=5, mention_rejects={"rare_entity": 10, "not_sampled": 2},
    ...     contexts_drawn=6, unanswerable=5, context_rejects={"mentions_entity": 1},
    ...     entities=2,
    ... ).problems()
    []
    """

    BALANCES = (
        Balance("page", "pages_read", "articles", "page_rejects"),
        Balance("link", "links_found", "mentions", "link_rejects"),
        Balance("mention", "mentions", "answerable", "mention_rejects"),
        Balance("context", "contexts_drawn", "unanswerable", "context_rejects"),
    )
    REJECT_REASONS = REJECT_REASONS

    pages_read: int = 0
    articles: int = 0
    page_rejects: dict[str, int] = field(default_factory=dict)  # reason → pages
    links_found: int = 0  # in articles
    mentions: int = 0  # links that lead to a definition article
    link_rejects: dict[str, int] = field(default_factory=dict)  # reason → links
    links_saved_by: dict[str, int] = field(default_factory=dict)  # rule of titles → mentions whose target it changed
    answerable: int = 0  # examples: one per sampled mention that was not refused
    mention_rejects: dict[str, int] = field(default_factory=dict)  # reason → mentions
    contexts_drawn: int = 0  # from articles that do not link to the entity
    unanswerable: int = 0  # examples
    context_rejects: dict[str, int] = field(default_factory=dict)  # reason → contexts
    entities: int = 0  # with at least one example

    @property
    def examples(self) -> int:
        return self.answerable + self.unanswerable

    @property
    def size(self) -> str:
        return f"{self.examples:,} examples ({self.answerable:,} answerable) of {self.entities:,} entities"


def counted(rows: pa.Table) -> pa.Table:
    """Returns the examples of both kinds and the entities of each language (`langs`)."""
    groups = rows.group_by("lang").aggregate([([], "count_all"), ("answerable", "sum"), ("entity", "count_distinct")])
    unanswerable = pc.subtract(groups["count_all"], groups["answerable_sum"].cast(pa.int64()))
    return pa.table(
        {
            "langs": groups["lang"],
            "answerable": groups["answerable_sum"],
            "unanswerable": unanswerable,
            "entities": groups["entity_count_distinct"],
        }
    )


# --- dataset card and specification ----------------------------------------------------------------------------------

_WHAT = """\
Each row is a query and a context, both from Wikipedia. The query is the beginning of the article on an entity, with
`[MASK]` for the entity's names; the context is cut from another article. If that article links to the entity there, the
row is answerable, and its answers are the spans of the context that hold the link's text. If it does not mention the
entity, the row has no answer. For example:

| field | answerable | unanswerable |
| --- | --- | --- |
| `entity` | Hanoi | Hanoi |
| `query_text` | [MASK] is the capital of Vietnam. | [MASK] is the capital of Vietnam. |
| `query_mask_spans` | `start_char` 0, `end_char` 6 | `start_char` 0, `end_char` 6 |
| `context_text` | Anna came to Hanoi in 1999. | The sea is salty. |
| `answers` | `start_char` 13, `end_char` 18 (Hanoi) | none |
| `anchor_text` | Hanoi | null |

All offsets count Unicode code points and are half-open: `context_text[start_char:end_char]` is the answer.\
"""

_SOURCE = """\
The texts are from Wikipedia, whose authors license them under
[CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/), and so is this dataset. Each row names the articles
that it quotes, `definition_article` in the query and `mention_article` in the context, by title, page id and revision
id: there Wikipedia lists their authors. The texts are excerpts without markup; in queries, `[MASK]` replaces the
entity's names.\
"""


def _card_numbers(counts: AnchorCounts) -> dict[str, str]:
    """Returns entities and examples first, as in mPMR's table 4."""
    return {
        "entities": f"{counts.entities:,}",
        "examples": f"{counts.examples:,}",
        "answerable": f"{counts.answerable:,}",
        "unanswerable": f"{counts.unanswerable:,}",
        "articles read": f"{counts.articles:,}",
    }


CARD = CardText(
    title="Anchor-MRC examples",
    what=_WHAT,
    source=_SOURCE,
    license="cc-by-sa-4.0",
    tasks=("question-answering",),
    tags=("machine-reading-comprehension", "span-extraction", "wikipedia"),
    numbers=_card_numbers,
    answers='for answer in row["answers"]:\n    print(row["context_text"][answer["start_char"] : answer["end_char"]])',
)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=AnchorMrcExample,
    counts=AnchorCounts,
    problems=problems,
    counted=counted,
    card=CARD,
    view="schemas.inspection.anchor_mrc_view:VIEW",
)
