"""Cuts texts out of articles and pairs them to (query, context, answers) triplets (mPMR, 2.2, A.1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.steps.anchor_mrc.contexts import cut_context
from pipelines.steps.anchor_mrc.hash_draws import below
from pipelines.steps.anchor_mrc.queries import Query, anonymise, first_words, query_problem, title_names
from pipelines.steps.anchor_mrc.stage_tables import ANSWERABLE, DEFINITION, TEXTS_SCHEMA, UNANSWERABLE
from pipelines.steps.anchor_mrc.whole_words import Searchable
from pipelines.steps.common.tokenize import tokenizer_for
from schemas.anchor_mrc import AnchorCounts, AnchorMrcExample, ArticleRef
from schemas.errors import ConfigError
from schemas.languages import language
from schemas.rejects import Reject
from schemas.spans import CharSpan


@dataclass(frozen=True)
class TripletConfig:
    """How queries and contexts are cut, and how many examples an entity gets."""

    query_words: int = 50
    """Number of words at the start of the definition article that make the query (mPMR, A.1)."""
    context_words: int = 200
    """Number of words around an anchor that make the context, besides the anchor itself (mPMR, A.1)."""
    fill_context: bool = False
    """At the start or end of an article, take the words that are missing on one side from the other side. The paper
    does not mention this case."""
    per_entity: int = 10
    """The maximum number of answerable examples of an entity, and of unanswerable ones (mPMR, A.1)."""
    min_mentions: int = 0
    """Entities with fewer mentions are left out. 0 means 10 in English and 5 in other languages (mPMR, A.1)."""

    def __post_init__(self) -> None:
        for name, least in (("query_words", 1), ("context_words", 1), ("per_entity", 1), ("min_mentions", 0)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise ConfigError(f"--triplets.{option} {getattr(self, name)}: expected at least {least}.")

    def least_mentions(self, lang: str) -> int:
        """Returns `min_mentions`, or the language's default."""
        return self.min_mentions or (10 if lang == "en" else 5)


class _Text(NamedTuple):
    """A row of `TEXTS_SCHEMA`."""

    entity: int
    kind: int
    ordinal: int
    reject: str | None = None
    text: str = ""
    answers: tuple[int, ...] = ()
    anchor_text: str = ""
    words_before_drawn: int = 0
    words_before: int = 0
    page_id: int = 0
    revision_id: int = 0
    title: str = ""
    anchor: int = 0
    names: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, int, int]:
        return self[:3]


# --- texts of one chunk ---------------------------------------------------------------------------


def cut_texts(pages: pa.Table, linked: pa.Table, wanted: list[pa.Table], lang: str, config: TripletConfig) -> pa.Table:
    """Cuts the texts that the parts want of one chunk.

    Takes the chunk's tables of `PAGES_SCHEMA` and `LINKED_SCHEMA`, and from each part one of `WANTED_SCHEMA`. Returns a
    table of `TEXTS_SCHEMA`, by entity, kind and ordinal.
    """
    rows = sorted(
        (row for table in wanted for row in table.to_pylist()), key=lambda row: (row["row"], row["entity"], row["kind"])
    )
    texts: list[_Text] = []
    for row_of_page, wanted_of_page in groupby(rows, key=lambda row: row["row"]):
        article = _Article(pages, linked, row_of_page, language(lang).spaced)
        texts += [_cut_text(article, row, lang, config) for row in wanted_of_page]
    texts.sort(key=lambda text: text.order)
    columns = [list(column) for column in zip(*texts, strict=True)] or [[]] * len(TEXTS_SCHEMA)
    return pa.table(columns, schema=TEXTS_SCHEMA)


class _Article:
    """A page of a chunk; what only unanswerable contexts need is made when the first one asks for it."""

    def __init__(self, pages: pa.Table, linked: pa.Table, row: int, spaced: bool) -> None:
        self.page_id, self.revision_id, self.title, self.text, self.anchor_edges, self.names = (
            pages[name][row].as_py() for name in ("page_id", "revision_id", "title", "text", "anchor_edges", "names")
        )
        self._linked, self._row, self._spaced = linked, row, spaced

    def anchor(self, index: int) -> CharSpan:
        return CharSpan(*self.anchor_edges[2 * index : 2 * index + 2])

    @cached_property
    def links(self) -> set[int]:
        """The numbers of the articles that the page links to."""
        return set(self._linked["articles"][self._row].as_py())

    @cached_property
    def searchable(self) -> Searchable:
        return Searchable(self.text, self._spaced)


def _cut_text(article: _Article, wanted: dict[str, Any], lang: str, config: TripletConfig) -> _Text:
    """Cuts one text, or says why it cannot be used; `wanted` is a row of `WANTED_SCHEMA`."""
    text = _Text(
        wanted["entity"],
        wanted["kind"],
        wanted["ordinal"],
        page_id=article.page_id,
        revision_id=article.revision_id,
        title=article.title,
        anchor=wanted["anchor"],
    )
    if text.kind == DEFINITION:
        query = first_words(article.text, config.query_words, tokenizer_for(lang))
        return text._replace(text=query, names=tuple(dict.fromkeys([*title_names(article.title), *article.names])))
    if text.kind == UNANSWERABLE and (reason := _entity_reject(article, text.entity, wanted["names"])):
        return text._replace(reject=reason)
    return _with_context(text, article, wanted["position_hash"], lang, config)


def _entity_reject(article: _Article, entity: int, names: list[str]) -> str | None:
    """Returns why the article cannot give an unanswerable context of the entity, or None."""
    if entity in article.links:
        return "links_to_entity"
    return "mentions_entity" if article.searchable.mentions_any(names) else None


def _with_context(text: _Text, article: _Article, position_hash: int, lang: str, config: TripletConfig) -> _Text:
    """Adds the words around the anchor; the hash decides how many of them precede it.

    config.context_words = 6, words_before_drawn = 2:    w w [anchor] w w w w
    """
    anchor = article.anchor(text.anchor)
    drawn = int(below(np.array([position_hash], np.uint64), config.context_words + 1)[0])
    context = cut_context(
        article.text,
        anchor,
        drawn,
        config.context_words - drawn,
        tokenizer_for(lang),
        language(lang).spaced,
        fill=config.fill_context,
    )
    return text._replace(
        text=context.text,
        answers=tuple(edge for span in context.answers for edge in span),
        anchor_text=anchor.of(article.text),
        words_before_drawn=drawn,
        words_before=context.words_before,
    )


# --- examples of one part -------------------------------------------------------------------------


def pair_texts(texts: pa.Table, lang: str) -> tuple[list[AnchorMrcExample], AnchorCounts, list[Reject]]:
    """Makes the examples of one part's entities: in turn an answerable and an unanswerable one.

    Takes a table of `TEXTS_SCHEMA`, in any order.
    """
    rows = sorted((_Text(*row.values()) for row in texts.to_pylist()), key=lambda text: text.order)
    examples: list[AnchorMrcExample] = []
    rejects: list[Reject] = []
    counts = AnchorCounts()
    for _, texts_of_entity in groupby(rows, key=lambda text: text.entity):
        definition, *contexts = texts_of_entity
        made, refused, not_needed = _examples_of(definition, contexts, lang)
        examples += made
        rejects += refused
        answerable = sum(example.answerable for example in made)
        counts += AnchorCounts(
            answerable=answerable,
            contexts_drawn=sum(text.kind == UNANSWERABLE for text in contexts),
            unanswerable=len(made) - answerable,
            context_rejects={"not_needed": not_needed} if not_needed else {},
            entities=1 if made else 0,
        )
    return examples, counts, rejects


def _examples_of(
    definition: _Text, contexts: list[_Text], lang: str
) -> tuple[list[AnchorMrcExample], list[Reject], int]:
    """Returns an entity's examples, its rejects, and the number of unanswerable contexts that were not needed."""
    tokenize, spaced = tokenizer_for(lang), language(lang).spaced
    unanswerable = (text for text in contexts if text.kind == UNANSWERABLE)
    examples: list[AnchorMrcExample] = []
    rejects: list[Reject] = []
    for mention in (text for text in contexts if text.kind == ANSWERABLE):
        query = anonymise(definition.text, [*definition.names, mention.anchor_text], tokenize, spaced)
        if reason := query_problem(query, mention.anchor_text, lang):
            rejects.append(_reject(reason, "mention", mention, lang, f"{mention.anchor_text!r} in: {query.text}"))
            continue
        other = next((text for text in unanswerable if _is_usable(text, definition, rejects, lang)), None)
        examples += [_example(definition, query, context, lang) for context in (mention, other) if context is not None]
    return examples, rejects, sum(1 for _ in unanswerable)


def _is_usable(text: _Text, definition: _Text, rejects: list[Reject], lang: str) -> bool:
    """Returns whether an unanswerable context can be used; adds to `rejects` if not."""
    reason = text.reject or ("definition_article" if text.page_id == definition.page_id else None)
    if reason:
        rejects.append(_reject(reason, "context", text, lang, f"{definition.title} | {text.title}"))
    return reason is None


def _example(definition: _Text, query: Query, context: _Text, lang: str) -> AnchorMrcExample:
    answerable = context.kind == ANSWERABLE
    name = f"{lang}\0{definition.title}\0{context.page_id}\0{context.anchor}\0{context.kind}\0{context.ordinal}"
    edges = context.answers if answerable else ()
    return AnchorMrcExample(
        id=hashlib.blake2b(name.encode(), digest_size=10).hexdigest(),
        lang=lang,
        entity=definition.title,
        query_text=query.text,
        query_mask_spans=query.mask_spans,
        context_text=context.text,
        answers=tuple(CharSpan(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)),
        answerable=answerable,
        anchor_text=context.anchor_text if answerable else None,
        words_before_drawn=context.words_before_drawn,
        words_before_anchor=context.words_before,
        definition_article=ArticleRef(definition.page_id, definition.revision_id, definition.title),
        mention_article=ArticleRef(context.page_id, context.revision_id, context.title),
    )


def _reject(reason: str, unit: str, text: _Text, lang: str, excerpt: str) -> Reject:
    record = f"{text.entity}:{text.page_id}:{text.anchor}:{text.ordinal}"
    return Reject(reason, unit, record, lang, "", text.page_id, excerpt[:200])
