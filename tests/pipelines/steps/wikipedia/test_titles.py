from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.wikipedia.dump import Page, plan_ranges, read_pages, read_siteinfo
from pipelines.steps.wikipedia.titles import RULES, LinkTarget, normalize_target, normalize_title, page_kind
from pipelines.steps.wikitext.site import Site, SiteInfo, site_of


def wiki(lang: str, *, first_letter: bool = True) -> Site:
    return site_of(lang, SiteInfo("", "", "", first_letter, ()))


ENGLISH = wiki("en")


def title(target: str, site: Site = ENGLISH) -> str | None:
    found = normalize_target(target, site)
    return found.title if found else None


def rules(target: str, site: Site = ENGLISH) -> set[str]:
    found = normalize_target(target, site)
    assert found is not None
    return {rule for rule, bit in RULES.items() if found.rules & bit}


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target, expected, by",
    [
        ("Dog", "Dog", ""),
        ("dog", "Dog", "first_letter"),
        ("новгород", "Новгород", "first_letter"),
        ("Dog#Diet", "Dog", "fragment"),
        ("Dog#Diet#Meat", "Dog", "fragment"),
        ("#Diet", "", "fragment"),
        ("New_York  City ", "New York City", "underscore space"),
        ("New\u00a0York", "New York", "space"),
        ("AT&amp;T", "AT&T", "html_entity"),
        ("AT&nbsp;T", "AT T", "html_entity space"),
        ("C&#35;", "C", "html_entity fragment"),
        ("R&D", "R&D", ""),
        ("R&copy", "R&copy", ""),  # an entity ends in a semicolon
        ("Caf%C3%A9", "Café", "percent"),
        ("100%25", "100%", "percent"),
        ("100%", "100%", ""),
        ("A%23B", "A", "percent fragment"),
        ("\u200eDog\u200f", "Dog", "invisible"),
        ("Cafe\u0301", "Café", "composed"),
        (":Dog", "Dog", "leading_colon"),
        (": dog", "Dog", "leading_colon first_letter"),
        ("2001: A Space Odyssey", "2001: A Space Odyssey", ""),
        ("star Trek: Picard", "Star Trek: Picard", "first_letter"),
        ("AC/DC", "AC/DC", ""),
        ("...", "...", ""),
        ("St. Louis", "St. Louis", ""),
    ],
)
def test_a_target_means_the_title_that_mediawiki_would_open(target: str, expected: str, by: str) -> None:
    assert title(target) == expected
    assert rules(target) == set(by.split())


@pytest.mark.parametrize(
    "target",
    [
        "Category:Dogs",
        ":Category:Dogs",
        "category : dogs",
        "User_talk:Anna",
        "wikt:dog",
        "de:Hund",
        ":de:Hund",
        "Zh-min-nan:Káu",
        "WP:DOG",
    ],
)
def test_a_link_out_of_the_main_namespace_has_no_title(target: str) -> None:
    assert normalize_target(target, ENGLISH) is None


@pytest.mark.parametrize(
    "target",
    [
        *("", " ", ":", "::Dog", "A<b", "A>b", "A[b", "A]b", "A{b", "A}b", "A|b", "A\nb", "A\x7fb", "A&lt;b", "A~~~b"),
        *(".", "..", "./A", "../A", "A/.", "A/..", "A/./B", "A/../B", "%FF", "A&amp;lt;b", "A\ufffdb", "&#xD800;"),
        *("x" * 256, "é" * 128),
    ],
)
def test_what_mediawiki_calls_no_title_is_none(target: str) -> None:
    assert normalize_target(target, ENGLISH) is None


@pytest.mark.parametrize("longest", ["X" * 255, "É" * 127, "X" * 251 + "語y", "X" * 252 + "語"])
def test_a_title_has_at_most_255_bytes(longest: str) -> None:
    assert title(longest) == longest
    assert title(longest + "é") is None


@pytest.mark.parametrize(
    "lang, target, expected",
    [
        ("de", "ßuffix", "ßuffix"),  # two capitals
        ("ka", "თბილისი", "თბილისი"),  # a script that has capitals, and titles without
        ("tr", "istanbul", "İstanbul"),
        ("az", "ispaniya", "İspaniya"),
        ("tr", "ırmak", "Irmak"),
        ("en", "istanbul", "Istanbul"),
        ("en", "ﬁre", "ﬁre"),
        ("zh", "電腦", "電腦"),
    ],
)
def test_the_first_letter_becomes_one_capital(lang: str, target: str, expected: str) -> None:
    assert title(target, wiki(lang)) == expected


def test_a_wiki_may_keep_small_letters_apart() -> None:
    assert title("dog", wiki("jbo", first_letter=False)) == "dog"


@given(st.text(alphabet=st.sampled_from("abÅé ßi_:#%&;/.~<|{]25C39\u0301\u200e\u00a0\u3000語ა"), max_size=12))
def test_normalising_twice_changes_nothing(target: str) -> None:
    first = normalize_target(target, ENGLISH)
    if first and first.title:
        again = normalize_target(first.title, ENGLISH)
        # What was written twice over (`&amp;amp;`, `%2525`) may mean something else again.
        assert again is None or again == LinkTarget(first.title, 0) or "&" in first.title or "%" in first.title
        assert normalize_title(first.title, ENGLISH) == first.title


@given(st.text(st.characters(codec=None) | st.characters(categories=["Cs"]) | st.sampled_from("%&#:C3"), max_size=20))
def test_any_text_is_a_target_or_none(target: str) -> None:
    found = normalize_target(target, ENGLISH)
    assert found is None or len(found.title.encode("utf-8", "surrogatepass")) <= 255


def test_a_page_has_the_title_that_links_to_it_mean() -> None:
    assert normalize_title("Cafe\u0301_au lait ", ENGLISH) == "Café au lait"
    assert normalize_title("C#: a 100%25 language", ENGLISH) == "C#: a 100%25 language"  # a page's title has no escapes


# --- kinds of pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lang, template",
    [
        ("ar", "{{توضيح}}"),
        ("bn", "{{দ্ব্যর্থতা নিরসন}}"),
        ("de", "{{Begriffsklärung}}"),
        ("el", "{{αποσαφήνιση}}"),
        ("en", "{{disambiguation|geo}}"),
        ("en", "{{Place name disambiguation}}"),
        ("en", "{{Hndis|Smith, Anna}}"),
        ("en", "{{dab}}"),
        ("es", "{{desambiguación}}"),
        ("fi", "{{Täsmennyssivu}}"),
        ("fr", "{{Homonymie}}"),
        ("fr", "{{Homonymie de personnes}}"),
        ("hi", "{{बहुविकल्पी शब्द}}"),
        ("id", "{{disambig}}"),
        ("it", "{{Disambigua}}"),
        ("ja", "{{aimai}}"),
        ("ja", "{{人名の曖昧さ回避}}"),
        ("ko", "{{동음이의}}"),
        ("nl", "{{dp}}"),
        ("pl", "{{ujednoznacznienie}}"),
        ("pt", "{{desambiguação}}"),
        ("ru", "{{неоднозначность}}"),
        ("sv", "{{Förgrening}}"),
        ("sw", "{{maana}}"),
        ("te", "{{అయోమయ నివృత్తి}}"),
        ("th", "{{แก้กำกวม}}"),
        ("tr", "{{Anlam ayrımı}}"),
        ("vi", "{{trang_định hướng}}"),
        ("zh", "{{消歧义}}"),
        ("zh", "{{地名消歧義}}"),
        ("en", "{{ disambiguation\n| type = x }}"),
        ("en", "__DISAMBIG__"),
        ("de", "[[Kategorie:Begriffsklärung]]"),
        ("vi", "[[Thể loại:Trang định hướng nhân danh|x]]"),
        ("xyz", "{{Disambig}}"),
    ],
)
def test_a_disambiguation_page_is_known_by_its_text(lang: str, template: str) -> None:
    assert page_kind("Mercury", f"'''Mercury''' may be:\n* [[x]]\n{template}\n", wiki(lang)) == "disambiguation"


@pytest.mark.parametrize(
    "lang, text",
    [
        ("en", "{{disambiguation needed|date=May 2020}}"),
        ("en", "{{Redirect|Mercury|x|Mercury (disambiguation)}}"),
        ("en", "{{other uses}} [[Mercury (disambiguation)]] {{R from incomplete disambiguation}}"),
        ("it", "{{nota disambigua|x}}"),
        ("fr", "{{voir homonymes}}"),
        ("ru", "{{значения}}"),
        ("pl", "{{disambigR|x}}"),
        ("pt", "{{ver desambiguação}}"),
        ("es", "{{desde|x}}"),
    ],
)
def test_a_mention_of_disambiguation_does_not_make_a_page_one(lang: str, text: str) -> None:
    assert page_kind("Mercury", f"{text}\n'''Mercury''' is a planet.", wiki(lang)) == "article"


@pytest.mark.parametrize(
    "lang, name, expected",
    [
        ("en", "Mercury (disambiguation)", "disambiguation"),
        ("zh", "水星 (消歧義)", "disambiguation"),
        ("de", "Merkur (Begriffsklärung)", "disambiguation"),
        ("ru", "Меркурий (значения)", "disambiguation"),
        ("ja", "水星 (曖昧さ回避)", "disambiguation"),
        ("en", "Mercury (planet)", "article"),
        ("en", "List of planets", "list"),
        ("en", "Lists of planets", "list"),
        ("en", "Listeria", "article"),
        ("en", "Schindler's List", "article"),
        ("en", "Index of refraction", "article"),
        ("en", "Index of physics articles", "list"),
        ("de", "Liste der Planeten", "list"),
        ("de", "Liste Pim Fortuyn", "article"),
        ("fr", "Liste des planètes", "list"),
        ("es", "Lista de planetas", "list"),
        ("nl", "Lijst van planeten", "list"),
        ("ru", "Список планет", "list"),
        ("ru", "Список Шиндлера", "article"),
        ("ja", "惑星の一覧", "list"),
        ("zh", "行星列表", "list"),
        ("zh", "列表", "article"),
        ("ko", "행성 목록", "list"),
        ("vi", "Danh sách hành tinh", "list"),
        ("tr", "Gezegenler listesi", "list"),
        ("tr", "Schindler'in Listesi", "article"),
        ("ar", "قائمة الكواكب", "list"),
        ("hi", "ग्रहों की सूची", "list"),
        ("bn", "গ্রহের তালিকা", "list"),
        ("sw", "Orodha ya sayari", "list"),
        ("th", "รายชื่อดาวเคราะห์", "list"),
    ],
)
def test_page_kind_by_title(lang: str, name: str, expected: str) -> None:
    assert page_kind(name, "'''X''' is a text.", wiki(lang)) == expected


@pytest.mark.parametrize("text", ["{{" + " " * 50_000, "{{" * 50_000, "[[" + "x" * 50_000, "{{x\n" * 20_000])
def test_the_time_to_tell_a_kind_is_linear(text: str) -> None:
    start = process_time()
    assert page_kind("X", text, wiki("ja")) == "article"
    assert process_time() - start < 1


def test_a_set_index_is_a_list() -> None:
    assert page_kind("Anaconda", "'''Anaconda''' is …\n{{Set index article|snakes}}", ENGLISH) == "list"


# Read by eye: every page of these that is a disambiguation page, and none else.
DISAMBIGUATION = {
    "wp2txt_en_2022.xml.bz2": "Aberdeen (disambiguation)|Ada|Alien|Animal (disambiguation)|Argument (disambiguation)|"
    "Asia Minor (disambiguation)|Asterism|Atlas (disambiguation)|Austin (disambiguation)",
    "bnwiki-2023-trunc100k.xml.xz": "ওজন (দ্ব্যর্থতা নিরসন)|দেশ (দ্ব্যর্থতা নিরসন)",
    "jawiki-2023-trunc100k.xml.xz": "EU (曖昧さ回避)|サンバ|ゴスペル|タイ|フォスター|地理",
    "viwiki-2023-trunc100k.xml.xz": "GDP (định hướng)|Hello world|Hoa (định hướng)|Nguyên tố|"
    "Ngọc Lan (định hướng)|Tiệp|VN|Việt ngữ (định hướng)",
}


@pytest.mark.real_data
@pytest.mark.parametrize("file", DISAMBIGUATION)
def test_disambiguation_pages_of_real_dumps(file: str, shared_data: Path) -> None:
    path = str(shared_data / "wiki" / file)
    siteinfo = read_siteinfo(path)
    site = site_of(siteinfo.dbname.removesuffix("wiki"), siteinfo)
    pages = [page for part in plan_ranges(path, 1 << 30) for page in read_pages(part) if isinstance(page, Page)]
    found = {
        page.title
        for page in pages
        if page.namespace == 0 and not page.redirect and page_kind(page.title, page.text, site) == "disambiguation"
    }
    assert sorted(found) == sorted(DISAMBIGUATION[file].split("|"))
