"""The demo's dumps: well-formed, linked among themselves, and as hard to read as real articles."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.steps.wikipedia.dump import Damage, Page, plan_ranges, read_pages, read_siteinfo
from pipelines.steps.wikipedia.titles import normalize_target, page_kind
from pipelines.steps.wikitext.plain_text import PlainText, plain_text
from pipelines.steps.wikitext.site import Site, site_of, siteinfo_problem

SAMPLE = Path(__file__).resolve().parents[2] / "pipelines" / "sample" / "wiki"
LANGS = ("en", "vi", "ar", "hi", "ja")
EXPORT = "{http://www.mediawiki.org/xml/export-0.11/}"
MAX_BYTES = 250_000


class Wiki(NamedTuple):
    site: Site
    pages: tuple[Page, ...]
    articles: dict[str, Page]  # by title
    redirects: dict[str, str]
    plain: dict[str, PlainText]  # of articles


def path_of(lang: str) -> str:
    return str(SAMPLE / f"{lang}wiki-sample.xml")


@cache
def wiki(lang: str) -> Wiki:
    site = site_of(lang, read_siteinfo(path_of(lang)))
    pages = []
    for part in plan_ranges(path_of(lang), 1 << 20):
        for page in read_pages(part):
            assert not isinstance(page, Damage), page
            pages.append(page)
    main = [page for page in pages if page.namespace == 0]
    articles = {page.title: page for page in main if page.redirect is None}
    return Wiki(
        site,
        tuple(pages),
        articles,
        {page.title: page.redirect for page in main if page.redirect is not None},
        {title: plain_text(page.text, site) for title, page in articles.items()},
    )


def links(lang: str) -> list[tuple[str, str, str]]:
    """Article, what a reader sees, and the title that it leads to after redirects, of every anchor."""
    found = wiki(lang)
    triples = []
    for title, plain in found.plain.items():
        for anchor in plain.anchors:
            target = normalize_target(anchor.target, found.site)
            name = target.title if target else ""
            while name in found.redirects:
                name = found.redirects[name]
            triples.append((title, plain.text[anchor.start : anchor.end], name))
    return triples


# --- the files --------------------------------------------------------------------------------------------------------


def test_the_sample_is_small_and_each_language_has_its_dump() -> None:
    dumps = sorted(SAMPLE.glob("*.xml"))
    assert [dump.name for dump in dumps] == sorted(f"{lang}wiki-sample.xml" for lang in LANGS)
    assert sum(dump.stat().st_size for dump in dumps) < MAX_BYTES


@pytest.mark.parametrize("lang", LANGS)
def test_pages_are_what_an_xml_parser_reads(lang: str) -> None:
    expected = []
    for page in ElementTree.parse(path_of(lang)).getroot().iter(f"{EXPORT}page"):
        (revision,) = page.findall(f"{EXPORT}revision")
        redirect = page.find(f"{EXPORT}redirect")
        expected.append(
            Page(
                int(page.findtext(f"{EXPORT}id", "")),
                int(revision.findtext(f"{EXPORT}id", "")),
                int(page.findtext(f"{EXPORT}ns", "")),
                page.findtext(f"{EXPORT}title", ""),
                None if redirect is None else redirect.attrib["title"],
                revision.findtext(f"{EXPORT}text", ""),
            )
        )
    assert list(wiki(lang).pages) == expected


@pytest.mark.parametrize("lang", LANGS)
def test_revisions_have_the_fields_of_an_export_and_the_size_and_checksum_of_their_text(lang: str) -> None:
    root = ElementTree.parse(path_of(lang)).getroot()
    assert root.attrib["version"] == "0.11"
    order = "id parentid timestamp contributor minor comment origin model format text sha1".split()
    for page in root.iter(f"{EXPORT}page"):
        (revision,) = page.findall(f"{EXPORT}revision")
        fields = [field.tag.removeprefix(EXPORT) for field in revision]
        assert fields == [name for name in order if name in fields]
        assert {*order} - {*fields} <= {"parentid", "minor", "comment"}
        (text,) = revision.findall(f"{EXPORT}text")
        raw = (text.text or "").encode()
        said = (text.attrib["bytes"], text.attrib["sha1"], revision.findtext(f"{EXPORT}sha1"))
        assert said == (str(len(raw)), base36_sha1(raw), base36_sha1(raw)), page.findtext(f"{EXPORT}title")


def base36_sha1(raw: bytes) -> str:
    """The checksum as MediaWiki writes it: 31 digits to the base of 36."""
    number, digits = int(hashlib.sha1(raw).hexdigest(), 16), ""
    for _ in range(31):
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


@pytest.mark.parametrize("lang", LANGS)
def test_titles_and_numbers_are_unique_and_the_siteinfo_is_that_of_the_language(lang: str) -> None:
    pages = wiki(lang).pages
    for values in ([page.title for page in pages], [page.page_id for page in pages], [p.revision_id for p in pages]):
        assert [value for value, count in Counter(values).items() if count > 1] == []
    info = read_siteinfo(path_of(lang))
    assert (info.dbname, siteinfo_problem(lang, info)) == (f"{lang}wiki", None)
    names = dict(info.namespaces)
    for page in pages:
        prefix = page.title.partition(":")[0]
        assert page.namespace == next((key for key, name in names.items() if key and name == prefix), 0), page.title


# --- the links --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", LANGS)
def test_most_links_lead_to_articles_of_the_sample_and_a_few_to_none(lang: str) -> None:
    leads = [title in wiki(lang).articles for _, _, title in links(lang) if title]
    assert 0.8 < sum(leads) / len(leads) < 1
    assert {*wiki(lang).redirects.values()} <= {*wiki(lang).articles, *wiki(lang).redirects}


@pytest.mark.parametrize("lang", LANGS)
def test_at_least_eight_entities_are_linked_from_several_articles_and_not_from_others(lang: str) -> None:
    """So that each gives both answerable and unanswerable examples."""
    found = wiki(lang)
    sources: dict[str, set[str]] = {}
    for article, _, title in links(lang):
        if article != title and title in found.articles:
            sources.setdefault(title, set()).add(article)
    entities = [
        title
        for title, articles in sources.items()
        if len(articles) >= 2
        and page_kind(title, found.articles[title].text, found.site) == "article"
        and any(title not in plain.text for name, plain in found.plain.items() if name not in articles)
    ]
    assert len(entities) >= 8


@pytest.mark.parametrize("lang", LANGS)
def test_there_are_a_disambiguation_page_a_list_and_pages_of_other_namespaces(lang: str) -> None:
    found = wiki(lang)
    kinds = Counter(page_kind(title, page.text, found.site) for title, page in found.articles.items())
    assert kinds["disambiguation"] >= 1
    assert kinds["list"] >= 1
    assert {page.namespace for page in found.pages} > {0, 10, 14}


@pytest.mark.parametrize(
    "lang, article, shown, title",
    [
        ("en", "Sun", "lunar", "Moon"),  # [[luna]]r: a trail, and a redirect
        ("en", "Violin", "violinist", "Violin"),  # a trail, and the page itself
        ("en", "Planet", "venus", "Venus"),  # a small first letter
        ("en", "Venus", "phases", "Moon"),  # a section
        ("en", "Galileo Galilei", "glass", "Telescope"),  # a redirect
        ("en", "Planet", "evening star", "Venus"),  # a redirect to a redirect
        ("en", "Planet", "Mercury", "Mercury"),  # a disambiguation page
        ("en", "Moon", "2001: A Space Odyssey", "2001: A Space Odyssey"),  # no namespace, though a colon
        ("en", "Anchor", "sailing ship", "Sailing ship"),  # %20
        ("en", "Anchor", "tide", "Tide"),  # a leading colon
        ("en", "Milk", "cup and saucer", "Porcelain"),  # &amp;
        ("en", "Telescope", "Galileo Galilei", "Galileo Galilei"),  # an underscore
        ("vi", "Đàn bầu", "giao thừa", "Tết Nguyên Đán"),
        ("vi", "Hồ Hoàn Kiếm", "đất Thăng Long", "Hà Nội"),
        ("ar", "القاهرة", "الإسكندرية", "الإسكندرية"),  # ب[[الإسكندرية]]: begins inside a word
        ("ar", "مصر", "المصرية", "مصر"),  # ال[[مصر]]ية: letters before and after
        ("ar", "نخلة التمر", "تمرها", "تمر"),
        ("hi", "सितार", "भारतीय", "भारत"),  # a trail that begins with a combining vowel
        ("hi", "बाँसुरी", "मथुरा", "यमुना नदी"),
        ("ja", "寿司", "飯", "米"),
        ("ja", "尺八", "琴", "箏"),
    ],
)
def test_links_of_every_form_lead_where_a_reader_gets(lang: str, article: str, shown: str, title: str) -> None:
    assert (article, shown, title) in links(lang)


# --- the markup -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lang, feature, pattern",
    [
        ("en", "infobox with nested templates", r"\{\{Infobox [^{}]*\{\{[^{}]*\{\{"),
        ("en", "file inside an infobox", r"\{\{Infobox[^{}]*\[\[File:"),
        ("en", "parameter inside a parser function", r"\{\{#if:\{\{\{"),
        ("en", "reference by name, empty", r'<ref name="\w+" />'),
        ("en", "reference with a template inside", r"<ref[^>/]*>\{\{"),
        ("en", "reference without quotation marks", r"<ref name=a/>"),
        ("en", "template that is text", r"\{\{lang\|"),
        ("en", "note in a template", r"\{\{efn\|[^}]*\{\{"),
        ("en", "table with links", r"\{\|[^}]*\[\["),
        ("en", "table in a table", r"\{\|(?:(?!\|\}).)*\n\{\|"),
        ("en", "file with a link and a file in its caption", r"\[\[File:[^\]]*\[\[[^\]]*\]\][^\n]*\[\[Image:"),
        ("en", "gallery", r"<gallery[^>]*>\n"),
        ("en", "comment", r"<!-- "),
        ("en", "formula", r"<math>.*?</math>"),
        ("en", "formula of chemistry", r"<chem>"),
        ("en", "formula on its own line", r"\n: <math>"),
        ("en", "nowiki", r"<nowiki>.*?</nowiki>"),
        ("en", "source code", r"<syntaxhighlight"),
        ("en", "poem", r"<poem>"),
        ("en", "quotation", r"<blockquote>"),
        ("en", "line break", r"<br clear=\"all\" />"),
        ("en", "entity", r"&ndash;"),
        ("en", "list in a list", r"\n\*\* "),
        ("en", "numbered list", r"\n# "),
        ("en", "definition list", r"\n; .* : "),
        ("en", "indented line", r"\n:''"),
        ("en", "heading in a section", r"\n== \w+ ==\n"),
        ("en", "bold and italic", r"'''''.*?'''''"),
        ("en", "external link", r"\[https://example\.org/\w+ "),
        ("en", "link to a category", r"\[\[:Category:"),
        ("en", "category with a sort key", r"\[\[Category:[^\]]*\| \]\]"),
        ("en", "another language's page", r"\n\[\[vi:"),
        ("en", "another project's page", r"\[\[wikt:"),
        ("en", "section of the page itself", r"\[\[#"),
        ("en", "sort key", r"\{\{DEFAULTSORT:"),
        ("vi", "magic word", r"__NOTOC__"),
        ("vi", "alias of a namespace", r"\[\[Hình:"),
        ("vi", "definition list on two lines", r"\n; .*\n: "),
        ("ar", "image with the alias of a namespace", r"\nصورة:"),
        ("ar", "item under an item", r"\n## "),
        ("hi", "preformatted line", r"\n [^\n]"),
        ("hi", "subscript", r"<sub>1</sub>"),
        ("ja", "file with the wiki's own word for thumb", r"\[\[ファイル:[^\]|]*\|サムネイル"),
        ("ja", "reading of a word", r"\{\{ルビ\|"),
        ("ja", "full-width brackets after the title", r"'''（"),
    ],
)
def test_markup_of_real_articles_is_there(lang: str, feature: str, pattern: str) -> None:
    assert re.search(pattern, "\n\0".join(page.text for page in wiki(lang).articles.values()), re.DOTALL), feature


MARKS = ("[[", "]]", "{{", "}}", "{|", "|", "''", "==", "<ref", "</", "/>", "<!--", "&nbsp;", "&amp;", "__", "  ")
# What <nowiki> keeps from being markup.
LITERAL = {("en", "Eclipse"): {"[[", "]]", "{{", "}}"}, ("ja", "豆腐"): {"''"}}


@pytest.mark.parametrize("lang", LANGS)
def test_no_markup_is_left_in_the_text_but_what_nowiki_holds(lang: str) -> None:
    for title, plain in wiki(lang).plain.items():
        assert {mark for mark in MARKS if mark in plain.text} == LITERAL.get((lang, title), set()), title
        assert not re.search(r"(?m)^\s*[*#:;\])}]|^\s*$", plain.text), title


@pytest.mark.parametrize("lang", LANGS)
def test_every_article_begins_with_its_name_in_bold(lang: str) -> None:
    for title, plain in wiki(lang).plain.items():
        assert plain.bold, title
        assert plain.bold[0][0] < 40, title
