"""Link resolution: every link is a mention of an entity, or has one reason why it is none."""

from __future__ import annotations

import pytest

from pipelines.steps.anchor_mrc.link_resolution import (
    Links,
    definitions_of,
    is_own_row,
    link_counts,
    link_rejects,
    linked_articles,
    locator,
    resolve_links,
)
from tests.pipelines.steps.anchor_mrc.wiki_pages import WikiPage, pages_of, titles_of

WIKI = (
    WikiPage("Dog", "A dog barks."),
    WikiPage("Hound", "", redirect="Dog#Kinds"),
    WikiPage("Round", "", redirect="About"),
    WikiPage("About", "", redirect="Round"),
    WikiPage("Mercury", "[[Dog]] may be: {{disambiguation}}"),
    WikiPage("List of dogs", "A list of dogs."),
)


def resolved(*pages: WikiPage) -> Links:
    table = pages_of(*WIKI, *pages)
    titles = titles_of(table)
    return resolve_links(table, titles, is_own_row(table, titles, 0))


def reason_of(page: WikiPage) -> str:
    """Returns the reason of the page's only link."""
    return str(resolved(page).reason_L[-1])


@pytest.mark.parametrize(
    "target, reason",
    [
        ("Dog", ""),  # a mention
        ("hound#Food", ""),  # through a redirect
        ("Wolf", "red_link"),
        ("Round", "redirect_loop"),
        ("Mercury", "disambiguation"),
        ("List of dogs", "list"),
        ("Fox", "self_link"),
        ("#Food", "self_link"),
        ("a%3Cb", "invalid_title"),  # no title has "<"
    ],
)
def test_a_link_is_a_mention_or_has_a_reason(target, reason):
    assert reason_of(WikiPage("Fox", f"See [[{target}|this]].")) == reason


def test_links_on_a_disambiguation_page_are_no_mentions():
    links = resolved()
    assert links.reason_L.tolist() == ["on_disambiguation_page"]


def test_links_on_the_second_page_of_a_title_are_no_mentions():
    assert reason_of(WikiPage("Dog", "See [[Hound]].")) == "page_of_same_title"


def test_the_first_reason_that_applies_is_given():
    page = WikiPage("Dog (disambiguation)", "See [[Wolf]]. {{disambiguation}}")
    assert reason_of(page) == "on_disambiguation_page"


def test_links_know_their_page_and_their_index_in_it():
    links = resolved(WikiPage("Fox", "A [[dog]] or [[wolf]]."), WikiPage("Cat", "A [[hound]]."))
    assert links.row_L.tolist() == [4, 6, 6, 7]
    assert links.anchor_L.tolist() == [0, 0, 1, 0]
    assert links.mention_M.tolist() == [1, 3]


def test_mentions_and_the_rules_that_saved_them_are_counted():
    counts = link_counts(resolved(WikiPage("Fox", "A [[dog]], a [[hound]], a [[wolf]].")))
    assert (counts.links_found, counts.mentions) == (4, 2)
    assert counts.links_saved_by == {"first_letter": 2, "redirect": 1}


def test_a_refused_link_is_shown_with_the_text_around_it():
    table = pages_of(*WIKI, WikiPage("Fox", "A fox is no [[Wolf|wolves]] at all."))
    titles = titles_of(table)
    links = resolve_links(table, titles, is_own_row(table, titles, 0))
    (reject,) = [reject for reject in link_rejects(links, table, "en", "enwiki.xml") if reject.reason == "red_link"]
    assert (reject.unit, reject.record_id, reject.line) == ("link", "7:0", 7)
    assert reject.excerpt == "[[Wolf]] in: A fox is no ⟦wolves⟧ at all."


def test_the_articles_that_a_page_links_to_are_listed_once():
    table = pages_of(*WIKI, WikiPage("Fox", "A [[dog]], a [[hound]], a [[wolf]], a [[Mercury]]."))
    titles = titles_of(table)
    links = resolve_links(table, titles, is_own_row(table, titles, 0))
    expected = sorted(titles.resolve(title).article for title in ("Dog", "Mercury"))
    assert linked_articles(links, table.num_rows)["articles"].to_pylist()[-1] == expected
    assert linked_articles(links, table.num_rows)["articles"].to_pylist()[0] == []


def test_only_the_first_page_of_a_title_is_its_own_row_and_no_redirect_is():
    table = pages_of(*WIKI, WikiPage("Dog", "A second dog."))
    assert is_own_row(table, titles_of(table), 0).tolist() == [True, False, False, False, True, True, False]
    assert not is_own_row(table, titles_of(table), 1).any()  # the same titles in another chunk


def test_only_articles_define_an_entity():
    table = pages_of(*WIKI, WikiPage("Fox", "A fox."))
    titles = titles_of(table)
    defined = definitions_of(table, titles, is_own_row(table, titles, 0)).to_pylist()
    assert {(row["title"], row["row"], row["page_id"]) for row in defined} == {("Dog", 0, 1), ("Fox", 6, 7)}
    assert [row["entity"] for row in defined] == sorted(titles.resolve(title).article for title in ("Dog", "Fox"))


def test_a_locator_holds_chunk_and_row():
    assert locator(3, 5) == 3 * 2**32 + 5
