"""Normalises the titles that links lead to, and recognises pages that define no entity.

The rules are MediaWiki's own (its manual's "Page title" and "Links"), applied in this order: entities, percent escapes,
fragment, invisible characters and white space, leading colon, prefix, first letter.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from pipelines.steps.wikitext.site import Site, table_rows

RULES = {
    "html_entity": 1,  # [[AT&amp;T]]
    "percent": 2,  # [[Caf%C3%A9]]
    "fragment": 4,  # [[Dog#Diet]]
    "invisible": 8,  # marks of writing direction
    "underscore": 16,  # [[New_York]]
    "space": 32,  # [[ New  York ]], no-break spaces
    "composed": 64,  # not in Unicode's composed form (NFC)
    "leading_colon": 128,  # [[:Dog]]
    "first_letter": 256,  # [[dog]]
}
"""The bits of `LinkTarget.rules`: which rules a link needs before its target is a title."""

MAX_TITLE_BYTES = 255

_ENTITY = re.compile(r"&(?:#\d{1,9}|#[xX][0-9A-Fa-f]{1,9}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_INVISIBLE = re.compile("[\u200e\u200f\u202a-\u202e]")
_SPACES = re.compile("[ _\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")

# Most targets need no rule, or only a capital. The only invalid titles that match are too long ones.
_PLAIN = "[^ ./\0-\x1f\x7f<>\\[\\]{}|#%&_:~\ufffd\u00a0\u1680\u180e\u2000-\u200a\u200e\u200f\u2028-\u202f\u205f\u3000]+"
_SIMPLE = re.compile(f"{_PLAIN}(?: {_PLAIN})*")
_ILLEGAL = re.compile(
    "[\0-\x1f\x7f<>\\[\\]{}|#\ufffd]|~~~|^:|^\\.\\.?$|^\\.\\.?/|/\\.\\.?/|/\\.\\.?$"
    f"|{_ESCAPE.pattern}|{_ENTITY.pattern}"
)

_DOTTED_I = frozenset({"az", "gag", "kaa", "tr"})  # "i" has a dotted capital


class LinkTarget(NamedTuple):
    """The target of a link: `LinkTarget("New York City", 20)` for [[New_York City#History]]."""

    title: str  # normalised; "" for a section of the page itself
    rules: int  # the bits of RULES that changed the target


def normalize_target(target: str, site: Site) -> LinkTarget | None:
    """Returns the title in the main namespace that a link's target means.

    Returns None for other namespaces and wikis and for invalid titles. An unknown prefix is part of the title ("2001: A
    Space Odyssey"). Chinese variants are not converted.
    """
    if _SIMPLE.fullmatch(target) and (target.isascii() or unicodedata.is_normalized("NFC", target)):
        title = _capitalized(target, site)
        return None if _too_long(title) else LinkTarget(title, 0 if title == target else RULES["first_letter"])

    rules = 0

    def apply(rule: str, after: str) -> None:
        nonlocal title, rules
        if after != title:
            title, rules = after, rules | RULES[rule]

    title = target
    if "&" in title:
        apply("html_entity", _ENTITY.sub(lambda entity: html.unescape(entity[0]), title))
    if "%" in title:
        apply("percent", _percent_decoded(title))
    title, hash_sign, _ = title.partition("#")
    if hash_sign:
        rules |= RULES["fragment"]
    apply("invisible", _INVISIBLE.sub("", title))
    apply("underscore", title.replace("_", " "))
    apply("space", _SPACES.sub(" ", title).strip(" "))
    apply("composed", unicodedata.normalize("NFC", title))
    if not title:
        return LinkTarget("", rules) if hash_sign else None
    if title.startswith(":"):
        apply("leading_colon", title[1:].lstrip(" "))
    prefix, colon, _ = title.partition(":")
    if colon and prefix:
        prefix = prefix.rstrip(" ").lower()
        if prefix in site.namespaces or prefix in site.interwiki:
            return None
    apply("first_letter", _capitalized(title, site))
    if not title or _ILLEGAL.search(title) or _too_long(title):
        return None
    return LinkTarget(title, rules)


def normalize_title(title: str, site: Site) -> str:
    """Returns a page's title in the form of `normalize_target`, which titles of dumps have already."""
    title = _SPACES.sub(" ", _INVISIBLE.sub("", title)).strip(" ")
    return _capitalized(unicodedata.normalize("NFC", title), site)


def _too_long(title: str) -> bool:
    return len(title) > MAX_TITLE_BYTES // 4 and len(title.encode("utf-8", "surrogatepass")) > MAX_TITLE_BYTES


def _percent_decoded(title: str) -> str:
    try:
        return unquote_to_bytes(title).decode("utf-8")
    except UnicodeError:  # not UTF-8
        return title


def _capitalized(title: str, site: Site) -> str:
    """Capitalises the first letter if its capital is one letter (not `ß`); Georgian has no capitals."""
    first = title[:1]
    if not site.first_letter or first.isupper():
        return title
    if first == "i" and site.lang in _DOTTED_I:
        return "İ" + title[1:]
    capital = first.upper()
    if len(capital) != 1 or "ა" <= first <= "ჿ":
        return title
    return capital + title[1:]


def page_kind(title: str, wikitext: str, site: Site) -> str:
    """Returns "article", or "disambiguation" or "list", which define no entity, by title, templates and categories."""
    kinds = _page_kinds(site.lang)
    if kinds.disambiguation_title.search(title) or kinds.disambiguation_text.search(wikitext):
        return "disambiguation"
    if kinds.list_title.search(title) or kinds.list_text.search(wikitext):
        return "list"
    return "article"


class _PageKinds(NamedTuple):
    disambiguation_title: re.Pattern[str]
    disambiguation_text: re.Pattern[str]
    list_title: re.Pattern[str]
    list_text: re.Pattern[str]


@cache
def _page_kinds(lang: str) -> _PageKinds:
    """Compiles the patterns of `pipelines/data/wiki/page_kinds.tsv` for one language and for every language (`*`)."""
    names_of: dict[str, list[str]] = {"template": [], "category": [], "suffix": [], "list": [], "list template": []}
    for row_lang, sign, names in table_rows("page_kinds.tsv"):
        if row_lang in ("*", lang):
            names_of[sign] += [names] if sign == "list" else names.split(" | ")
    category = rf"\[\[[^][|:\n]{{1,40}}:\s{{0,9}}(?:{_any_of(names_of['category'])})\s{{0,9}}[]|]"
    return _PageKinds(
        re.compile(rf" \((?:{_any_of(names_of['suffix'])})\)$", re.IGNORECASE),
        re.compile(f"{_template(names_of['template'])}|__DISAMBIG__|{category}", re.IGNORECASE),
        re.compile("|".join(names_of["list"])),
        re.compile(_template(names_of["list template"]), re.IGNORECASE),
    )


def _template(names: list[str]) -> str:
    return rf"\{{\{{\s{{0,9}}(?:{_any_of(names)})\s{{0,9}}(?:[|}}<]|$)"


def _any_of(names: list[str]) -> str:
    """Returns a pattern of the names, in which `*` matches anything within a name."""
    patterns = (r"[^][|{}\n]*?".join(map(re.escape, name.split("*"))).replace(r"\ ", "[ _]+") for name in names)
    return "|".join(patterns) or "(?!)"
