from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.steps.wikipedia.dump import read_siteinfo
from pipelines.steps.wikipedia.titles import normalize_target
from pipelines.steps.wikitext.site import Site, SiteInfo, site_of, siteinfo_problem, table_rows

# mPMR's languages (mPMR, table 4).
LANGUAGES = "ar bn de el en es fi fr hi id it ja ko nl pl pt ru sv sw te th tr vi zh".split()

ENGLISH = SiteInfo(
    "Wikipedia",
    "enwiki",
    "https://en.wikipedia.org/wiki/Main_Page",
    True,
    ((-1, "Special"), (0, ""), (4, "Wikipedia"), (6, "File"), (14, "Category"), (100, "Portal")),
)


def wiki(lang: str, *namespaces: tuple[int, str], first_letter: bool = True) -> Site:
    return site_of(lang, SiteInfo("", "", "", first_letter, namespaces))


def trail(lang: str, text: str) -> str:
    """Returns the part of `text` that belongs to the link before it."""
    match = wiki(lang).link_trail.match(f"]]{text}", 2)
    assert match is not None
    return match[0]


# --- namespaces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lang, file, category",
    [
        ("ar", "صورة", "تصنيف"),
        ("bn", "চিত্র", "বিষয়শ্রেণী"),
        ("de", "Bild", "Kategorie"),
        ("el", "Εικόνα", "Κατηγορία"),
        ("en", "Image", "Category"),
        ("es", "Imagen", "Categoría"),
        ("fi", "Kuva", "Luokka"),
        ("fr", "Image", "Catégorie"),
        ("hi", "चित्र", "श्रेणी"),
        ("id", "Gambar", "Kategori"),
        ("it", "Immagine", "Categoria"),
        ("ja", "画像", "カテゴリ"),
        ("ko", "그림", "분류"),
        ("nl", "Afbeelding", "Categorie"),
        ("pl", "Grafika", "Kategoria"),
        ("pt", "Arquivo", "Categoria"),
        ("ru", "Изображение", "Категория"),
        ("sv", "Bild", "Kategori"),
        ("sw", "Picha", "Jamii"),
        ("te", "బొమ్మ", "వర్గం"),
        ("th", "ภาพ", "หมวดหมู่"),
        ("tr", "Resim", "Kategori"),
        ("vi", "Hình", "Thể loại"),
        ("zh", "圖像", "分類"),
    ],
)
def test_names_of_files_and_categories_are_known_without_the_help_of_the_dump(
    lang: str, file: str, category: str
) -> None:
    site = site_of(lang, ENGLISH)
    for name in (file, category, "File", "Category"):
        assert normalize_target(f"{name}:x", site) is None, name
    assert normalize_target(f"{file}x:x", site) is not None


def test_every_language_of_the_paper_has_its_rows() -> None:
    rows = {(lang, int(key)) for lang, key, _ in table_rows("namespaces.tsv")}
    assert [lang for lang in LANGUAGES if not {(lang, 6), (lang, 14)} <= rows] == ["en"]


def test_what_the_dump_says_counts_before_the_tables() -> None:
    assert wiki("de").namespaces["bild"] == 6
    assert wiki("de", (120, "Bild")).namespaces["bild"] == 120


def test_names_are_compared_without_case_and_underscores() -> None:
    site = wiki("sw", (3, "Majadiliano_ya_mtumiaji"))
    assert site.namespaces["majadiliano ya mtumiaji"] == 3
    assert normalize_target("MAJADILIANO ya_Mtumiaji:Anna", site) is None


def test_a_portal_is_a_namespace_only_where_the_wiki_has_it() -> None:
    assert "portal" not in wiki("it", (6, "File")).namespaces
    assert wiki("it", (100, "Portale")).namespaces["portal"] == 100


def test_another_language_works_by_its_dump_and_the_rules_of_every_wiki() -> None:
    site = wiki("ltg", (6, "Fails"), (14, "Kategoreja"))
    assert [normalize_target(f"{name}:x", site) for name in ("Fails", "File", "kategoreja", "lv", "wikt")] == [None] * 5
    assert wiki("xyz").link_trail.match("s ")[0] == "s"  # type: ignore[index]


def test_a_wiki_may_tell_capitals_apart() -> None:
    target = normalize_target("dog", wiki("jbo", first_letter=False))
    assert target is not None and target.title == "dog"


# --- link trails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lang, text, expected",
    [
        ("en", "s are", "s"),
        ("en", "'s", ""),
        ("en", "S", ""),
        ("de", "größe-", "größe"),
        ("fi", "näkö", "näkö"),
        ("ru", "ами,", "ами"),
        ("hy", "ների»", "ների»"),
        ("ar", "ات،", "ات"),
        ("bn", "ের।", "ের"),
        ("hi", "ों।", "ों"),
        ("hi", "–", ""),
        ("te", "లు.", "లు"),
        ("el", "ών ", "ών"),
        ("tr", "ların", "ların"),
        ("vi", "à đ", "à"),
        ("ja", "は", ""),
        ("ko", "은", ""),
        ("th", "คือ", ""),
        ("zh", "的", ""),
        ("zh", "s", ""),
        ("fa", "\u200cها", "\u200cها"),
    ],
)
def test_link_trail(lang: str, text: str, expected: str) -> None:
    assert trail(lang, text) == expected


def test_no_link_trail_holds_what_ends_a_link_or_begins_markup() -> None:
    for lang, _ in table_rows("link_trails.tsv"):
        assert not [sign for sign in " \n[]{}|'=<>&*#:;,.()0" if trail(lang, sign)], lang


# --- the wrong dump ---------------------------------------------------------------------------------------------------


def test_the_dump_of_another_language_is_a_problem_in_words() -> None:
    swahili = SiteInfo("Wikipedia", "swwiki", "https://sw.wikipedia.org/wiki/Mwanzo", True, ())
    assert siteinfo_problem("sw", swahili) is None
    assert siteinfo_problem("vi", swahili) == (
        'its <siteinfo> says swwiki (https://sw.wikipedia.org/wiki/Mwanzo), the Wikipedia of "sw" and not of "vi"'
    )


@pytest.mark.parametrize(
    "lang, dbname, base, is_problem",
    [
        ("vi", "swwiki", "", True),
        ("vi", "", "http://sw.wikipedia.org/wiki/", True),
        ("vi", "", "", False),
        ("en", "simplewiki", "https://simple.wikipedia.org/wiki/Main_Page", False),
        ("be-tarask", "be_x_oldwiki", "", False),
        ("zh", "zh_yuewiki", "", True),
        ("en", "enwiktionary", "https://en.wiktionary.org/wiki/Wiktionary:Main_Page", True),
        ("en", "commonswiki", "https://commons.wikimedia.org/wiki/Main_Page", True),
        ("en", "my_wiki", "https://wiki.example.org/", False),  # not Burmese
    ],
)
def test_siteinfo_problem(lang: str, dbname: str, base: str, is_problem: bool) -> None:
    assert (siteinfo_problem(lang, SiteInfo("W", dbname, base, True, ())) is not None) == is_problem


# --- real dumps -------------------------------------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.parametrize("lang", ["bn", "ja", "vi"])
def test_the_tables_agree_with_what_real_dumps_say(lang: str, shared_data: Path) -> None:
    siteinfo = read_siteinfo(str(shared_data / "wiki" / f"{lang}wiki-2023-trunc100k.xml.xz"))
    assert siteinfo_problem(lang, siteinfo) is None
    assert siteinfo_problem("sw", siteinfo) is not None
    said = {key: name.lower() for key, name in siteinfo.namespaces}
    ours = {int(key): names.lower().split(" | ") for row, key, names in table_rows("namespaces.tsv") if row == lang}
    canonical = {-2: "media", 4: "wikipedia", 10: "template", 12: "help", 14: "category", 100: "portal"}
    wrong = {key: said.get(key) for key, names in ours.items() if said.get(key) not in (*names, canonical.get(key))}
    assert wrong == {}
