from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.steps.wikipedia.dump import Page, plan_ranges, read_pages, read_siteinfo
from pipelines.steps.wikitext.plain_text import PlainText, plain_text
from pipelines.steps.wikitext.site import LANGUAGE_PREFIXES, PROJECT_PREFIXES, Site, site_of
from pipelines.steps.wikitext.templates import drop_templates

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "wiki"

NAMESPACES = {"media": -2, "special": -1, "user": 2, "file": 6, "image": 6, "picha": 6, "category": 14, "jamii": 14}
SITE = Site("sw", True, NAMESPACES, LANGUAGE_PREFIXES | PROJECT_PREFIXES, re.compile("[a-z]*"))
CHINESE = Site("zh", True, NAMESPACES, LANGUAGE_PREFIXES | PROJECT_PREFIXES, re.compile(""))


def seen(page: PlainText) -> list[tuple[str, str]]:
    return [(page.text[anchor.start : anchor.end], anchor.target) for anchor in page.anchors]


# These hold for every page, whatever its content


def check(wikitext: str, site: Site = SITE) -> PlainText:
    page = plain_text(wikitext, site)
    assert not re.search(r"  | \n|\n |\n\n|\A\s|\s\Z", page.text)
    assert not re.search(r"[\x00-\x08\x0e-\x1f]", page.text)
    for spans in ([anchor[:2] for anchor in page.anchors], list(page.bold)):
        assert all(0 <= start < end <= len(page.text) for start, end in spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for start, end, target in page.anchors:
        anchor = page.text[start:end]
        assert anchor == anchor.strip()
        assert "\n" not in anchor
        assert target.strip()
    return page


# The smallest cases; MediaWiki's rules in all their corners are in test_hard_markup.py


@pytest.mark.parametrize(
    "wikitext, text, anchors",
    [
        ("a [[dog]]s b", "a dogs b", [("dogs", "dog")]),
        ("[[dog|Dogs]], [[cat#Paws|cats]]", "Dogs, cats", [("Dogs", "dog"), ("cats", "cat#Paws")]),
        ("[[2001: A Space Odyssey]]", "2001: A Space Odyssey", [("2001: A Space Odyssey", "2001: A Space Odyssey")]),
        ("[[a|b|c]]", "b|c", [("b|c", "a")]),
        ("x[[a| b ]](y", "x b (y", [("b", "a")]),
        ("x [[a| ]] y", "x y", []),
        ("[[a|b [[c]] d]]", "[[a|b c d]]", [("c", "c")]),
        ("[[AT&amp;T]] &amp;lt;", "AT&T &lt;", [("AT&T", "AT&amp;T")]),
        ("[[a|x [y] z]]", "x [y] z", [("x [y] z", "a")]),
        ("[[a|{{flag}}]]", "a", [("a", "a")]),  # a picture was its label
        ("[[dog]]''s'', [[dog]]<nowiki/>s", "dogs, dogs", [("dog", "dog"), ("dog", "dog")]),
        ("[[User:U|a [b] c]] [[:Jamii:X|text]] [[:fr:Y]] [[wikt:z|z]] [[User:U|u]]", "a [b] c text fr:Y z u", []),
        ("a [[Picha:x.jpg|thumb|b [[c|d]] [http://e f]]] [[fr:A]] g [[Jamii:X]]", "a g", []),
        ("[http://x see [[k]] there] [http://x] http://y", "see k there http://y", [("k", "k")]),
    ],
)
def test_links(wikitext: str, text: str, anchors: list[tuple[str, str]]) -> None:
    page = check(wikitext)
    assert page.text == text
    assert seen(page) == anchors


@pytest.mark.parametrize(
    "wikitext, text",
    [
        ("a<!-- [[b]] -->c<!-- d", "ac"),
        ("a<ref>b [[c]]</ref><ref name=d /> e <math>f</math> g", "a e g"),
        ("<nowiki>[[a]] ''b'' {{c}} &amp;</nowiki>", "[[a]] ''b'' {{c}} &"),
        ("a<br />b <span style='c'>d</span> <stdio.h> e < f", "a b d <stdio.h> e < f"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("a\n{| x\n| b\n{|\n| c\n|}\n|}\nd", "a\nd"),
        ("a\n{|\n| b\n\nc", "a\nc"),  # no end: only its rows go
        ("* a\n** b\n#: c\n; d : e\n----\nf", "a\nb\nc\nd\ne\nf"),
        ("== a ==\nb\nc\n\n=d=\n===e", "a\nb c\nd\n===e"),
        ("__NOTOC__ a __目次強制__ b __init__ __FILE__", "a b __init__ __FILE__"),
        ("&#91;&#91;a]] &nbsp; &thinsp;b &eacute; &#x1F600; &bogus; &#0;", "[[a]] b é 😀 &bogus; &#0;"),
        ("a\u200fb\u00adc\u00a0 \u3000d", "abc d"),  # nobody sees direction marks; every blank is one
    ],
)
def test_markup_goes_and_text_stays(wikitext: str, text: str) -> None:
    assert check(wikitext).text == text


@pytest.mark.parametrize(
    "wikitext, text",
    [
        ("''a'' '''b''' '''''c'''''", "a b c"),
        ("l'''amour'' x", "l'amour x"),
        ("''''a''''", "'a'"),
        ("'''{{x}}''' [[''a''|''b'']]", "b"),
    ],
)
def test_quotes_are_no_text_but_for_the_apostrophes_among_them(wikitext: str, text: str) -> None:
    assert check(f"=\n== h ==\n{wikitext}").text == f"=\nh\n{text}"
    assert check(wikitext).text == text


def test_bold_spans_are_those_before_the_first_heading() -> None:
    page = check("x '''[[Nairobi]]''' au '''''mji'' mkuu''' na <b>jiji</b> '''a\nb\n== '''c''' ==\n'''d'''")
    assert [page.text[start:end] for start, end in page.bold] == ["Nairobi", "mji mkuu", "jiji", "a"]
    assert seen(page) == [("Nairobi", "Nairobi")]


@pytest.mark.parametrize(
    "wikitext, text",
    [
        ("-{zh-hant:電腦;zh-hans:计算机}-", "计算机"),
        ("-{zh-tw:甲;zh-cn:乙;}-", "乙"),
        ("-{zh-tw:甲;zh-hk:丙}-", "甲"),
        ("-{甲}-", "甲"),
        ("-{R|甲:乙}-", "甲:乙"),
        ("-{H|zh-hans:甲;zh-hant:乙}-丙", "丙"),
        ("[[甲|-{zh-hans:乙;zh-hant:丙}-]]", "乙"),
    ],
)
def test_one_variant_of_a_conversion_is_shown(wikitext: str, text: str) -> None:
    assert check(wikitext, CHINESE).text == text
    assert check(wikitext, SITE).text != text  # Swahili is written in one script


@pytest.mark.parametrize(
    "wikitext, text",
    [
        ("{{a|b={{c|{{lang|fr|d}}}}}}e", "e"),
        ("{{lang|fr|[[x|y]]}} {{Nowrap|a {{small|b}}}} {{lang-fr|c}}", "[[x|y]] a b c"),
        ("{{transl|ar|DIN|a}} {{quote|text=b|c}} {{lang|fr|3=x|2=d=e}}", "a b d=e"),
        ("{{convert|10|km|mi}} {{formatnum:1234}} {{'s}}", "10 km 1234 's"),
        ("{{#if:a|b}}{{PAGENAME}}{{{1|[[c|d]]|e}}}{{{2}}}", "[[c|d]]"),
        ("{{a}} }} {{b", " }} {{b"),
        ("{{{{a}}}}{{{{{1|b}}}}}", "{}"),
        ("a ({{x}}; 1950), b ({{x}}), c (d, {{x}}), ({{x}}, {{y}})", "a (1950), b , c (d), "),
        ("f() ({{nowrap|a}})", "f() (a)"),
        ("{{nowrap|" * 50 + "a" + "}}" * 50, ""),
    ],
)
def test_templates_show_what_belongs_to_the_sentence(wikitext: str, text: str) -> None:
    assert drop_templates(wikitext) == text


# A page that is built from pieces whose text is known

WORD = st.text("abcdeéßかな字ก", min_size=1, max_size=5)
PIECE: st.SearchStrategy[tuple[str, str, str | None]] = st.one_of(
    WORD.map(lambda word: (word, word, None)),
    WORD.map(lambda word: (f"[[{word}]]", word, word)),
    st.tuples(WORD, WORD).map(lambda words: (f"[[{words[0]}|{words[1]}]]s", f"{words[1]}s", words[0])),
    st.tuples(WORD, WORD).map(lambda words: (f"[[{words[0]}|\u00a0''{words[1]}'' ]]", words[1], words[0])),
    WORD.map(lambda word: (f"'''[[{word}]]'''", word, word)),
    WORD.map(lambda word: (f"{{{{lang|fr|[[{word}|é]]}}}}", "é", word)),
    WORD.map(lambda word: (f"<span>''{word}''</span>", word, None)),
    WORD.map(lambda word: (f"<nowiki>[[{word}]]</nowiki>&lt;", f"[[{word}]]<", None)),
    WORD.map(lambda word: (f"[[Picha:{word}|thumb|[[{word}]] {{{{{word}}}}}]]", "", None)),
    WORD.map(lambda word: (f"{{{{x {word}|[[{word}]]|{{{{x}}}}\n* {{{{{{1}}}}}}}}}}", "", None)),
    WORD.map(lambda word: (f"<ref name={word}>[[{word}]]</ref>", "", None)),
    WORD.map(lambda word: (f"<!-- '''{word} -->", "", None)),
)
LINE = st.tuples(st.sampled_from(["* ", "# ", ":: ", "== "]), st.lists(PIECE, min_size=1, max_size=8))


@settings(max_examples=150, deadline=None)
@given(st.lists(LINE, min_size=1, max_size=6))
def test_a_page_shows_its_pieces_with_their_anchors(lines: list[tuple[str, list[tuple[str, str, str | None]]]]) -> None:
    wikitext = "\n".join(
        f"{mark}{' '.join(source for source, _, _ in pieces)}{' ==' if mark == '== ' else ''}" for mark, pieces in lines
    )
    expected_text, expected_anchors = "", []
    for _, pieces in lines:
        separator = "\n" if expected_text else ""
        for _, text, target in pieces:
            if text:
                expected_text += separator
                if target:
                    expected_anchors.append((len(expected_text), len(expected_text) + len(text), target))
                expected_text += text
                separator = " "
    page = check(wikitext)
    assert page.text == expected_text
    assert [tuple(anchor) for anchor in page.anchors] == expected_anchors


# Noise

TOKENS = [
    *"[[ ]] [ ] {{ }} {{{ }}} {| |} | ' '' ''' ''''' [[File: [[a| [[a]] [[:fr: [[fr:x [http://x".split(),
    *"<ref> </ref> <ref <nowiki> </nowiki> <nowiki/> <!-- --> <b> </b> <b <table> </table> <pre> </pre>".split(),
    *"-{ }- -{zh: -{H| __ __A__ = == ; : * # - ---- & &#91; &amp; &lt; {{nowrap| {{lang|fr|".split(),
    *"a b ( ) , é 字 /".split(),
    *(" ", "\n", "\n\n", "\n*", "\n;", "\n=", "\n{|", "\n|}", "\n|"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_noise_keeps_the_promises(tokens: list[str]) -> None:
    check("".join(tokens))
    check("".join(tokens), CHINESE)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_read(wikitext: str) -> None:
    page = plain_text(wikitext, SITE)
    assert all(
        0 <= start < end <= len(page.text) for start, end in [*page.bold, *(anchor[:2] for anchor in page.anchors)]
    )


def cpu_seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


HARD = [
    *(("", token, "") for token in TOKENS),
    *(("[[a|", token, "") for token in ("[", "]", "[b", "[b]", "''a", "{{b}}", " \n", "&amp;")),
    *(("{{nowrap|", token, "}}") for token in ("|", "[[", "=", "{{nowrap|", "{{a}}", "[[a|b]]|")),
    *(("", token, "}}" * 3000) for token in ("{{nowrap|", "{{nowrap|a", "{{{1|a", "{{a|{")),
    *(("[http://x ", token, "") for token in ("a", "[[a]]", "[http://x ", "[a ", "a ")),
    *(
        ("", token, "")
        for token in ("\n;a:", "\n= = ", "[[File:a|\n", "[[fr:a ", "[[fr:a|[[b]] ", "'''a'' ", "[[a ''b")
    ),
    *(("-{", token, "}-") for token in ("a;", "zh:a;", "a=>", "zh;")),
    *(("[[a:", token, "]]") for token in ("'''a'' ", "(", ", ", " ")),
]


@pytest.mark.parametrize("before, token, after", HARD)
def test_time_grows_with_the_page_and_no_faster(before: str, token: str, after: str) -> None:
    def page(characters: int) -> str:
        return f"{before}{token * (characters // len(token))}{after}"

    small, large = page(4_000), page(48_000)
    check(large)
    # Twelve times the page; a square would take 144 times as long, and noise up to a few times.
    floor = 2e-4
    assert cpu_seconds(lambda: plain_text(large, SITE)) < 60 * max(cpu_seconds(lambda: plain_text(small, SITE)), floor)


# Real pages

LEFTOVERS = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|<ref|</|\|thumb|''|-\{|\}-|&nbsp;|__[A-Z]")


@pytest.mark.real_data
@pytest.mark.parametrize(
    "name, lang", [("gensim_enwiki_p10p30302_shortened.xml.bz2", "en"), ("smallwiki-latest-pages-articles.xml", "ltg")]
)
def test_real_pages_leave_next_to_no_markup(name: str, lang: str) -> None:
    path = str(DATA / name)
    if not Path(path).exists():
        pytest.skip(f"{name} is not in {DATA}")
    site = site_of(lang, read_siteinfo(path))
    pages = [
        page
        for part in plan_ranges(path, 1 << 30)
        for page in read_pages(part)
        if isinstance(page, Page) and page.namespace == 0 and page.redirect is None
    ]
    texts = [check(page.text, site).text for page in pages]
    leftovers = sum(len(LEFTOVERS.findall(text)) for text in texts)
    assert len(pages) > 100
    assert leftovers < 1e-5 * sum(map(len, texts))  # authors' own mistakes, which readers see as well
