from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.wikitext.plain_text import plain_text
from pipelines.steps.wikitext.site import Site, site_of
from tests.pipelines.hard_markup import SITEINFO, SNIPPETS, Link, Snippet

# Where we knowingly show other text than MediaWiki: the snippet's name, and why.
DIFFERENCES: dict[str, str] = {
    "bidi_marks_in_text": "marks that nobody sees would keep equal words from being equal",
    "empty_label": "in a dump, [[x|]] is nearly always a label whose template we dropped",
}


@cache
def site(lang: str) -> Site:
    return site_of(lang, SITEINFO[lang])


def one_space_for_another(text: str) -> str:
    """Every Unicode space but the line break as a plain one: offsets stay."""
    return re.sub(r"[^\S\n]", " ", text)


def plain_target(target: str) -> str:
    """Drops what the rules of titles normalise anyway: kinds of spaces and bidirectional marks."""
    return re.sub("[\u200e\u200f\u202a-\u202e]", "", one_space_for_another(target.replace("&nbsp;", " "))).strip()


def span_of(text: str, link: Link) -> tuple[int, int]:
    start = -1
    for _ in range(link.occurrence + 1):
        start = text.index(link.text, start + 1)
    return start, start + len(link.text)


def case(snippet: Snippet) -> object:
    reason = DIFFERENCES.get(snippet.name)
    marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return pytest.param(snippet, id=snippet.name, marks=marks)


@pytest.mark.parametrize("snippet", [case(snippet) for snippet in SNIPPETS])
def test_a_reader_sees_the_text_and_its_anchors(snippet: Snippet) -> None:
    found = plain_text(snippet.wikitext, site(snippet.lang))
    text = one_space_for_another(found.text)
    seen = " ".join(text.split()) if snippet.space_open else text
    assert seen in (snippet.text, *snippet.also)
    flat = text.replace("\n", " ") if snippet.space_open else text
    expected = [(*span_of(flat, link), plain_target(link.target)) for link in snippet.links]
    assert [(anchor.start, anchor.end, plain_target(anchor.target)) for anchor in found.anchors] == expected
    if snippet.bold is not None:
        assert tuple(text[start:end] for start, end in found.bold) == snippet.bold


@pytest.mark.parametrize("lang", SITEINFO)
def test_snippets_on_one_page_do_not_disturb_one_another(lang: str) -> None:
    """An article of all the language's snippets has their texts and anchors, one after the other."""
    snippets = [snippet for snippet in SNIPPETS if snippet.lang == lang and "unclosed" not in snippet.name]
    page = plain_text("\n\n".join(snippet.wikitext for snippet in snippets), site(lang))
    parts = [part for part in (plain_text(snippet.wikitext, site(lang)) for snippet in snippets) if part.text]
    assert page.text.splitlines() == [line for part in parts for line in part.text.splitlines()]
    assert [(page.text[anchor.start : anchor.end], anchor.target) for anchor in page.anchors] == [
        (part.text[anchor.start : anchor.end], anchor.target) for part in parts for anchor in part.anchors
    ]


@given(st.lists(st.tuples(st.sampled_from(SNIPPETS), st.integers(0, 99), st.integers(1, 99)), min_size=1, max_size=5))
def test_no_cut_of_markup_breaks_the_promises_of_plain_text(cuts: list[tuple[Snippet, int, int]]) -> None:
    """Whatever is cut off: no blank lines, no loose white space, anchors in order, apart, and of visible text."""
    wikitext = "".join(snippet.wikitext[start : start + length] for snippet, start, length in cuts)
    text, anchors, bold = plain_text(wikitext, site(cuts[0][0].lang))
    assert all(line and line == line.strip() for line in text.splitlines())
    assert not re.search(r"[^\S\n]{2}", text)
    for spans in ([anchor[:2] for anchor in anchors], bold):
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(text[start:end] == text[start:end].strip() for start, end, _ in anchors)


def test_the_suite_is_sound() -> None:
    names = [snippet.name for snippet in SNIPPETS]
    assert len(set(names)) == len(names)
    assert set(DIFFERENCES) <= set(names)
    assert {snippet.lang for snippet in SNIPPETS} == set(SITEINFO)
    for snippet in SNIPPETS:
        spans = [span_of(snippet.text, link) for link in snippet.links]
        assert spans == sorted(spans), snippet.name
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), snippet.name
        assert all(bold in snippet.text for bold in snippet.bold or ()), snippet.name
