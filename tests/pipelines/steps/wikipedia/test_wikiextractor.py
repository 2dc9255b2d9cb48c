from __future__ import annotations

import json

import pytest

from pipelines.steps.common.files import BadText
from pipelines.steps.wikipedia.titles import normalize_target
from pipelines.steps.wikipedia.wikiextractor import BadLine, ExtractedPage, anchored_text, read_extracted
from pipelines.steps.wikitext.site import SiteInfo, site_of


def line(**fields: object) -> str:
    return json.dumps(
        {"id": "12", "revid": "72", "url": "https://…?curid=12", "title": "Dog", "text": "A dog."} | fields
    )


def read_one(text: str) -> ExtractedPage | BadLine:
    (found,) = read_extracted([text])
    return found


def anchors(text: str) -> list[tuple[str, str]]:
    found = anchored_text(text)
    return [(found.text[anchor.start : anchor.end], anchor.target) for anchor in found.anchors]


ESCAPED = 'The &lt;a href="Grey%20wolf"&gt;wolf&lt;/a&gt; &amp;amp; the &lt;a href="Caf%C3%A9"&gt;café&lt;/a&gt;s.'
RAW = 'The <a href="Grey%20wolf">wolf</a> & the <a href="Caf%C3%A9">café</a>s.'


@pytest.mark.parametrize("text", [ESCAPED.replace("&amp;amp;", "&amp;"), RAW])
def test_links_become_anchors_whether_the_text_is_escaped_or_not(text: str) -> None:
    page = read_one(line(text=text))
    assert isinstance(page, ExtractedPage)
    assert page.text.text == "The wolf & the cafés."
    assert anchors(text) == [("wolf", "Grey%20wolf"), ("café", "Caf%C3%A9")]
    assert (page.page_id, page.revision_id, page.title, page.text.bold) == (12, 72, "Dog", ())


def test_text_is_unescaped_once() -> None:
    assert anchored_text(ESCAPED).text == "The wolf &amp; the cafés."
    assert anchored_text("1 &lt; 2").text == "1 < 2"
    assert anchored_text(f"{RAW} &lt;").text == "The wolf & the cafés. &lt;"


def test_targets_are_what_the_rules_of_titles_expect() -> None:
    site = site_of("en", SiteInfo("", "", "", True, ()))
    hrefs = ["Grey%20wolf", "AC%2FDC", "100%25", "C%20sharp%23Syntax", "wikt%3Adog"]
    (*found, elsewhere) = (
        normalize_target(target, site) for _, target in anchors("".join(f'<a href="{href}">x</a>' for href in hrefs))
    )
    assert [target.title for target in found if target] == ["Grey wolf", "AC/DC", "100%", "C sharp"]
    assert elsewhere is None


@pytest.mark.parametrize(
    "text, shown, links",
    [
        ('a <a href="X"></a> b', "a  b", []),
        ('a <a href="">x</a> b', "a x b", []),
        ('a <a href="X">x b', "a x b", []),
        ("a x</a> b", "a x b", []),
        ('<a href="X"><a href="Y">y</a></a>', "y", [("y", "Y")]),
        ('<a href="X">a <i>b</i></a>', "a <i>b</i>", [("a <i>b</i>", "X")]),
        ("<abbr>a</abbr>", "<abbr>a</abbr>", []),
        ("\n\none  \n\n two\n", "one\ntwo", []),
    ],
)
def test_odd_markup(text: str, shown: str, links: list[tuple[str, str]]) -> None:
    assert anchored_text(text).text == shown
    assert anchors(text) == links


def test_many_unclosed_links_take_linear_time() -> None:
    assert anchored_text('<a href="X">x' * 50_000).text == "x" * 50_000


@pytest.mark.parametrize("text", ["Dog\n\nA dog barks.", "Dog.\nA dog barks.", "A dog barks."])
def test_a_first_line_that_is_the_title_is_no_text(text: str) -> None:
    page = read_one(line(text=text))
    assert isinstance(page, ExtractedPage) and page.text.text == "A dog barks."


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "not_json"),
        ("[" * 100_000, "not_json"),
        ("12", "bad_page"),
        ("[]", "bad_page"),
        ("null", "bad_page"),
        (line(id="x"), "bad_page"),
        (line(id=None), "bad_page"),
        (line(title=7), "bad_page"),
        (line(title=" "), "bad_page"),
        (line(text=None), "bad_page"),
        (line(text="\ud800"), "bad_page"),
        (line(text=f"&#{'9' * 5000};"), "bad_page"),
        (line(id=float("inf")), "bad_page"),
        (line(id=1 << 63), "bad_page"),
        (json.dumps({"id": 1, "title": "x"}), "bad_page"),
    ],
)
def test_a_bad_line_is_named_and_the_next_is_read(text: str, reason: str) -> None:
    bad, good = read_extracted([text, line()])
    assert isinstance(bad, BadLine) and (bad.line, bad.reason) == (1, reason)
    assert isinstance(good, ExtractedPage)


def test_lines_that_cannot_be_read_keep_their_reason_and_blank_ones_are_nothing() -> None:
    found = list(read_extracted(["", BadText("invalid_utf8", "caf�"), "  "]))
    assert found == [BadLine(2, "invalid_utf8", "caf�")]


def test_older_versions_give_numbers_and_no_revision() -> None:
    page = read_one(json.dumps({"id": 12, "title": "AT&amp;T", "text": "A company."}))
    assert isinstance(page, ExtractedPage)
    assert (page.page_id, page.revision_id, page.title) == (12, 0, "AT&T")
