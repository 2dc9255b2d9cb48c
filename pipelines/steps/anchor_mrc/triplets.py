"""Texts of articles → (query, context, answers) triplets (mPMR, 2.2, A.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.steps.anchor_mrc.contexts import cut_context
from pipelines.steps.anchor_mrc.hash_draws import below
from pipelines.steps.anchor_mrc.mention_sampling import ANSWERABLE, DEFINITION, UNANSWERABLE
from pipelines.steps.anchor_mrc.queries import anonymise, first_words, query_problem, title_names
from pipelines.steps.anchor_mrc.whole_words import Searchable
from pipelines.steps.common.tokenize import tokenizer_for
from schemas.anchor_mrc import AnchorCounts, AnchorMrcExample, ArticleRef
from schemas.errors import ConfigError
from schemas.languages import language
from schemas.rejects import Reject
from schemas.spans import CharSpan


@dataclass(frozen=True)
class TripletConfig:
    """How queries and contexts are cut."""

    query_words: int = 50
    """Words of the definition article that make the query (mPMR, A.1)."""
    context_words: int = 200
    """Words around an anchor that make the context; the anchor is extra (mPMR, A.1)."""
    fill_context: bool = False
    """At an article's edge, take the words that are missing from the other side. The paper is silent."""
    per_entity: int = 10
    """At most so many answerable examples of an entity, and as many unanswerable ones (mPMR, A.1)."""
    min_mentions: int = 0
    """Entities mentioned less often are left out; 0: 10 in English, 5 in other languages (mPMR, A.1)."""

    def __post_init__(self) -> None:
        for name, least in (("query_words", 1), ("context_words", 1), ("per_entity", 1), ("min_mentions", 0)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise ConfigError(f"--triplets.{option} {getattr(self, name)}: expected at least {least}.")

    def least_mentions(self, lang: str) -> int:
        return self.min_mentions or (10 if lang == "en" else 5)


TEXTS = pa.schema(
    [
        ("entity", pa.int64()),
        ("what", pa.int8()),  # as in `WANTED`
        ("place", pa.int32()),
        ("reject", pa.string()),  # why an unanswerable context cannot be used; null: it can
        ("text", pa.string()),
        ("answers", pa.list_(pa.int32())),  # start, end, start, end …
        ("anchor_text", pa.string()),
        ("words_before_drawn", pa.int32()),
        ("words_before", pa.int32()),
        ("page_id", pa.int64()),
        ("revision_id", pa.int64()),
        ("title", pa.string()),
        ("anchor", pa.int32()),
        ("names", pa.list_(pa.string())),  # DEFINITION: the entity's names
    ]
)


class _Text(NamedTuple):
    entity: int
    what: int
    place: int
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


def cut_texts(pages: pa.Table, linked: pa.Table, wanted: list[pa.Table], lang: str, config: TripletConfig) -> pa.Table:
    """What the parts want of one chunk (`WANTED`, each by page) → `TEXTS`, by entity, kind and place."""
    rows = sorted(
        (row for table in wanted for row in table.to_pylist()), key=lambda row: (row["row"], row["entity"], row["what"])
    )
    texts = [
        text
        for number, group in groupby(rows, key=lambda row: row["row"])
        for text in _texts_of_page(pages, linked, number, group, lang, config)
    ]
    texts.sort(key=lambda text: text[:3])
    return pa.table([list(column) for column in zip(*texts, strict=True)] or [[]] * len(TEXTS), schema=TEXTS)


def _texts_of_page(
    pages: pa.Table, linked: pa.Table, number: int, wanted: Iterator[dict[str, Any]], lang: str, config: TripletConfig
) -> Iterator[_Text]:
    tokenize, spaced = tokenizer_for(lang), language(lang).spaced
    page_id, revision_id, title, article, edges, names = (
        pages[name][number].as_py() for name in ("page_id", "revision_id", "title", "text", "anchor_edges", "names")
    )
    links: set[int] = set()
    searchable: Searchable | None = None
    for row in wanted:
        text = _Text(row["entity"], row["what"], row["place"])._replace(
            page_id=page_id, revision_id=revision_id, title=title, anchor=row["anchor"]
        )
        if text.what == DEFINITION:
            query = first_words(article, config.query_words, tokenize)
            yield text._replace(text=query, names=tuple(dict.fromkeys([*title_names(title), *names])))
            continue
        if text.what == UNANSWERABLE:
            if searchable is None:
                links, searchable = set(linked["articles"][number].as_py()), Searchable(article, spaced)
            if text.entity in links or searchable.mentions_any(row["names"]):
                reason = "links_to_entity" if text.entity in links else "mentions_entity"
                yield text._replace(reject=reason)
                continue
        start, end = edges[2 * text.anchor : 2 * text.anchor + 2]
        drawn = int(below(np.array([row["drawn"]], np.uint64), config.context_words + 1)[0])
        context = cut_context(
            article,
            CharSpan(start, end),
            drawn,
            config.context_words - drawn,
            tokenize,
            spaced,
            fill=config.fill_context,
        )
        yield text._replace(
            text=context.text,
            answers=tuple(edge for span in context.answers for edge in span),
            anchor_text=article[start:end],
            words_before_drawn=drawn,
            words_before=context.words_before,
        )


def pair_texts(texts: pa.Table, lang: str) -> tuple[list[AnchorMrcExample], AnchorCounts, list[Reject]]:
    """`TEXTS` of one part's entities → their examples, an answerable and an unanswerable one in turn."""
    rows = sorted((_Text(*row.values()) for row in texts.to_pylist()), key=lambda text: text[:3])
    examples: list[AnchorMrcExample] = []
    rejects: list[Reject] = []
    counts = AnchorCounts()
    for _, group in groupby(rows, key=lambda text: text.entity):
        definition, *contexts = group
        made, refused, spare = _examples_of(definition, contexts, lang)
        examples += made
        rejects += refused
        answerable = sum(example.answerable for example in made)
        counts += AnchorCounts(
            answerable=answerable,
            contexts_drawn=sum(text.what == UNANSWERABLE for text in contexts),
            unanswerable=len(made) - answerable,
            context_rejects={"not_needed": spare} if spare else {},
            entities=1 if made else 0,
        )
    return examples, counts, rejects


def _examples_of(
    definition: _Text, contexts: list[_Text], lang: str
) -> tuple[list[AnchorMrcExample], list[Reject], int]:
    """Examples, rejects, and how many unanswerable contexts were not needed."""
    tokenize, spaced = tokenizer_for(lang), language(lang).spaced
    unrelated = (text for text in contexts if text.what == UNANSWERABLE)
    examples: list[AnchorMrcExample] = []
    rejects: list[Reject] = []
    for text in (text for text in contexts if text.what == ANSWERABLE):
        query = anonymise(definition.text, [*definition.names, text.anchor_text], tokenize, spaced)
        if reason := query_problem(query, text.anchor_text, lang):
            rejects.append(_reject(reason, "mention", text, lang, f"{text.anchor_text!r} in: {query.text}"))
            continue
        other = next((text for text in unrelated if _usable(text, definition, rejects, lang)), None)
        for context in (text, other):
            if context is not None:
                examples.append(_example(definition, query.text, query.mask_spans, context, lang))
    return examples, rejects, sum(1 for _ in unrelated)


def _usable(text: _Text, definition: _Text, rejects: list[Reject], lang: str) -> bool:
    reason = text.reject or ("definition_article" if text.page_id == definition.page_id else None)
    if reason:
        rejects.append(_reject(reason, "context", text, lang, f"{definition.title} | {text.title}"))
    return reason is None


def _example(definition: _Text, query: str, masks: tuple[CharSpan, ...], context: _Text, lang: str) -> AnchorMrcExample:
    answerable = context.what == ANSWERABLE
    name = f"{lang}\0{definition.title}\0{context.page_id}\0{context.anchor}\0{context.what}\0{context.place}"
    return AnchorMrcExample(
        id=hashlib.blake2b(name.encode(), digest_size=10).hexdigest(),
        lang=lang,
        entity=definition.title,
        query_text=query,
        query_mask_spans=masks,
        context_text=context.text,
        answers=tuple(
            CharSpan(start, end)
            for start, end in zip(context.answers[::2], context.answers[1::2], strict=True)
            if answerable
        ),
        answerable=answerable,
        anchor_text=context.anchor_text if answerable else None,
        words_before_drawn=context.words_before_drawn,
        words_before_anchor=context.words_before,
        definition_article=ArticleRef(definition.page_id, definition.revision_id, definition.title),
        mention_article=ArticleRef(context.page_id, context.revision_id, context.title),
    )


def _reject(reason: str, unit: str, text: _Text, lang: str, excerpt: str) -> Reject:
    record = f"{text.entity}:{text.page_id}:{text.anchor}:{text.place}"
    return Reject(reason, unit, record, lang, "", text.page_id, excerpt[:200])
