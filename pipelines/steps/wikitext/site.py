"""The rules of one Wikipedia that decide what a link is: names of namespaces, prefixes of other wikis, link trails.

A dump's <siteinfo> names its namespaces, but not their aliases ("Image:" in every wiki, "Hình:" in Vietnamese), and a
shortened or converted dump may have another wiki's <siteinfo>. So the tables of `pipelines/data/wiki` add each
language's own names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

_DATA = Path(__file__).parents[2] / "data" / "wiki"


class SiteInfo(NamedTuple):
    """The content of `<siteinfo>`; if an export has none, all fields are empty and `first_letter` is True."""

    name: str
    dbname: str  # "swwiki", or ""
    base: str  # URL of the main page, or ""
    first_letter: bool  # whether titles begin with a capital
    namespaces: tuple[tuple[int, str], ...]  # (key, local name), as written; the name of key 0 is ""


def table_rows(file: str) -> Iterator[list[str]]:
    """Yields the rows of a table of `pipelines/data/wiki`: columns separated by tabs; comment lines begin with #."""
    for line in (_DATA / file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield unicodedata.normalize("NFC", line).split("\t")


def _prefixes(kind: str) -> frozenset[str]:
    return frozenset(
        prefix for row_kind, row in table_rows("interwiki.tsv") if row_kind == kind for prefix in row.split()
    )


LANGUAGE_PREFIXES = _prefixes("language")
"""The codes of Wikipedias. A link to one, without a leading colon, is shown beside the page and not in its text."""

PROJECT_PREFIXES = _prefixes("project")

# Names that every wiki has besides its own ones; those of _ENGLISH_EXTRA only if it has the namespace.
_ENGLISH = {
    -2: "media",
    -1: "special",
    1: "talk",
    2: "user",
    3: "user talk",
    4: "project | wikipedia | wp",
    5: "project talk | wikipedia talk",
    6: "file | image",
    7: "file talk | image talk",
    8: "mediawiki",
    9: "mediawiki talk",
    10: "template",
    11: "template talk",
    12: "help",
    13: "help talk",
    14: "category",
    15: "category talk",
}
_ENGLISH_EXTRA = {
    100: "portal",
    101: "portal talk",
    118: "draft",
    119: "draft talk",
    710: "timedtext",
    711: "timedtext talk",
    828: "module",
    829: "module talk",
}

# The address of a Wikimedia project, in a dump's <siteinfo>.
_HOST = re.compile(
    r"(?:https?:)?//(?P<wiki>[\w-]+)\.(?:m\.)?"
    r"(?P<project>wikipedia|wiktionary|wikibooks|wikinews|wikiquote|wikisource|wikiversity|wikivoyage|wikimedia)\.org/",
    re.IGNORECASE,
)
# Codes of Wikipedias that differ from their languages' codes.
_OTHER_CODES = {
    "als": "gsw",
    "bat-smg": "sgs",
    "be-x-old": "be-tarask",
    "fiu-vro": "vro",
    "no": "nb",
    "roa-rup": "rup",
    "simple": "en",
    "zh-classical": "lzh",
    "zh-min-nan": "nan",
    "zh-yue": "yue",
}


# Languages that write particles together with the next word: و[[كتاب]] is one link ($linkPrefixExtension).
_LINK_PREFIXES = {"ar": frozenset("أإآابتثجحخدذرزسشصضطظعغفقكلمنهويىءئؤة" + ascii_letters)}


@dataclass(frozen=True)
class Site:
    """The rules of one wiki. Prefixes are in lower case, with " " for "_", in Unicode's composed form (NFC).

    In Swahili, `namespaces["picha"]` is 6, and `link_trail.match("[[mbwa]]ni ", 8)[0]` is "ni".
    """

    lang: str  # "sw"
    first_letter: bool  # whether titles begin with a capital, so that [[dog]] is "Dog"
    namespaces: Mapping[str, int]  # local, English and alias names → keys; key 0 has no name
    interwiki: frozenset[str]  # prefixes of other wikis, projects and languages; names of namespaces precede them
    link_trail: re.Pattern[str]  # matches, after "]]", letters that belong to the link's text, or ""
    link_prefix: frozenset[str] = frozenset()  # letters that belong to the link's text before "[["


def site_of(lang: str, siteinfo: SiteInfo) -> Site:
    """Returns the rules of the wiki of `lang`. Names in its dump's `siteinfo` override those of the tables."""
    keys = {key for key, _ in siteinfo.namespaces}
    english = _ENGLISH | {key: names for key, names in _ENGLISH_EXTRA.items() if key in keys}
    names = {_prefix(name): key for key, aliases in english.items() for name in aliases.split("|")}
    names |= _namespaces(lang)
    names |= {_prefix(name): key for key, name in siteinfo.namespaces if key}
    letters = _link_trails().get(lang, "a-z")
    trail = re.compile("" if letters == "-" else f"[{letters}]*")
    interwiki = LANGUAGE_PREFIXES | PROJECT_PREFIXES
    return Site(lang, siteinfo.first_letter, names, interwiki, trail, _LINK_PREFIXES.get(lang, frozenset()))


def siteinfo_problem(lang: str, siteinfo: SiteInfo) -> str | None:
    """Returns why this is no dump of the Wikipedia of `lang`, in words; None if it is one or does not say.

    >>> siteinfo_problem("vi", SiteInfo("Wikipedia", "swwiki", "https://sw.wikipedia.org/wiki/Mwanzo", True, ()))
    'its <siteinfo> says swwiki (https://sw.wikipedia.org/wiki/Mwanzo), the Wikipedia of "sw" and not of "vi"'
    """
    said = f"its <siteinfo> says {siteinfo.dbname or siteinfo.name} ({siteinfo.base or 'no address'})"
    host = _HOST.match(siteinfo.base)
    if host and host["project"] != "wikipedia":
        return f"{said}, which is no Wikipedia"
    found = host["wiki"].lower() if host else ""
    if not found and siteinfo.dbname.endswith("wiki"):
        found = siteinfo.dbname.removesuffix("wiki").replace("_", "-")
    if found not in LANGUAGE_PREFIXES or found == lang or _OTHER_CODES.get(found) == lang:
        return None
    return f'{said}, the Wikipedia of "{found}" and not of "{lang}"'


def _prefix(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("_", " ").strip()).lower()


@cache
def _namespaces(lang: str) -> dict[str, int]:
    rows = (row for row in table_rows("namespaces.tsv") if row[0] == lang)
    return {_prefix(name): int(key) for _, key, names in rows for name in names.split("|")}


@cache
def _link_trails() -> dict[str, str]:
    return {lang: letters for lang, letters in table_rows("link_trails.tsv")}
