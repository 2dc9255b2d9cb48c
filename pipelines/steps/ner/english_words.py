"""The word lists of the built-in English tagger, its tokenizer, and its test for ordinary words.

The lists in `data/entities_en` were written by hand from general knowledge. They are read once per process.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

DATA = files("pipelines") / "data" / "entities_en"


def _lines(name: str) -> list[str]:
    text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _words(name: str) -> frozenset[str]:
    return frozenset(word for line in _lines(name) for word in line.split())


CUES = {kind: frozenset(words.split()) for kind, _, words in (line.partition(": ") for line in _lines("cue_words"))}
FUNCTION, COMMON, FIRST = _words("function_words"), _words("common_words"), _words("first_names")
NORP = _words("demonyms")
ACRONYM, PARTICLE = CUES["acronym"], CUES["particle"]
HEADS = CUES["org_head"] | CUES["loc_head"] | CUES["fac_head"]
# "Mount Everest", "Lake Victoria": kept before a known name, where another ordinary word would be dropped.
PREFIX = frozenset(
    "mount mt mt. lake cape fort ft. port gulf bay st st. saint san santa santo são los las el nova new north south "
    "east west northern southern eastern western central upper lower greater great inner outer isle river".split()
)
COMPANY = frozenset("inc inc. ltd ltd. llc corp corp. co co. plc gmbh llp lp pvt pvt. n.v. s.a. jr jr. sr sr.".split())
GENERATION = frozenset("jr jr. sr sr. ii iii iv vi vii viii ix xi xii xiii xiv xv xvi v x".split())
# Nouns that govern "of …": Bank of China, Gulf of Mexico; "for": Center for Disease Control.
OF = (HEADS - CUES["loc_head"]) | frozenset(
    "gulf isle isles bay cape strait straits city state republic kingdom empire commonwealth province district county "
    "town port lake sea mount valley duchy islands principality battle siege treaty tower order house free lady "
    "offices knights daughters sons friends doctors king's speaker declaration statue".split()
)
FOR = frozenset(
    "center centre institute council committee campaign department agency association foundation society "
    "organization organisation movement party office ministry coalition alliance fund project network doctors "
    "trust partnership program programme laboratory academy museum school union board commission forum".split()
)
# "St. Mary's Hospital", "People's Republic": what follows a possessive inside a name.
POSSESSED = frozenset(
    "college university hospital school church cathedral abbey restaurant grill cafe café bar pub deli diner pizza "
    "bakery kitchen island bay park square castle palace republic party bank club cup cave creek hill "
    "point hall".split()
)
# Adjectives that begin names: New Deal, High Court.
ADJECTIVES = frozenset("new old great high little big young best first second third good low".split())
# Titles that are surnames after a given name (Stephen King), and those that names keep (Queen Mary University).
SURNAMES = frozenset(
    "king khan shah sheikh prince duke judge bishop pope major dean earl baron mayor knight singer master monk priest "
    "count head justice lord".split()
)
ROYAL = frozenset("king queen prince princess lady".split())
# Names that are words when written small.
NOT_LOWER = frozenset(
    "turkey china chad jordan georgia niger guinea mali chile essen lima male us la york nice reading bath mobile "
    "orange cork cologne split java phoenix buffalo queens mercury mars venus saturn jupiter pluto lorraine charlotte "
    "victoria florence sydney austin orlando virginia tyre pacific arctic baltic rio bern troy congress senate "
    "parliament treasury labour guardian amazon apple ford who un ira eta sec ups oracle intel dell nirvana beatles "
    "paramount arsenal disney cisco lakers tories capitol broadway bali panama newark hesse".split()
)


# ---------------------------------------------------------------- tokens


_TOKEN = re.compile(
    r"""
      (?P<skip> https?://\S+ | www\.\S+ | [\w.+-]+@[\w-]+(?:\.[\w-]+)+ | [@\#]\w+ | \w+\.(?:com|org|net|html?)\b )
    | (?P<poss> ['’][sS](?!\w) )
    | (?P<word> (?:[^\W\d_]\.){2,}[^\W\d_]?(?!\w)                                      # U.S.  J.R.R.
              | (?:Mr|Mrs|Ms|Dr|St|Prof|Gen|Sen|Gov|Rep|Lt|Col|Maj|Capt|Sgt|Adm|Jr|Sr|Mt|Ft|Rev|Inc|Corp|Ltd|Co|No|vs
                |Jan|Feb|Aug|Sept|Oct|Nov|Dec|Ave|Blvd)\.(?!\w)
              | [A-Z]\.(?=\s?[A-Z])                                                   # J. Smith
              | [^\W\d_][^\W_]*[-‐‑]\d+(?!\w)                                            # COVID-19
              | [^\W\d_][^\W_]* (?: ['’](?![sS](?!\w)) [^\W\d_]+ )* )
    | (?P<punct> \S )
    """,
    re.VERBOSE,
)
OPENING = frozenset("\"“‘'«„`[")
CLOSING = frozenset("\"”’'»)]")
SENTENCE_END = frozenset(".?!…:。")
HYPHENS = frozenset("-‐‑–")


class Token(NamedTuple):
    start: int
    end: int
    text: str
    is_word: bool


def tokenize(text: str) -> list[Token]:
    return [Token(m.start(), m.end(), m.group(), m.lastgroup == "word") for m in _TOKEN.finditer(text)]


# Endings of ordinary words; some surnames have them too, so they count only where the position explains the capital.
DERIVED = re.compile(r"(?:\w{4}(?:ly|ed)|\w{4}ing|\w\w(?:tion|sion|ness|ment|able|ible|ous|less|ism)s?)$")


@lru_cache(maxsize=1 << 16)
def is_common(lower: str) -> bool:
    """Returns whether this is an ordinary English word, or an inflected form of one."""
    if lower in COMMON or lower in FUNCTION:
        return True
    for suffix, endings in (
        ("ies", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ied", ("y",)), ("ed", ("", "e")), ("ing", ("", "e")),
        ("ily", ("y",)), ("ly", ("", "le")), ("er", ("", "e")), ("est", ("", "e")), ("n't", ("",)), ("ers", ("", "e")),
        ("ness", ("",)), ("less", ("",)), ("ful", ("",)), ("al", ("", "e")), ("ist", ("", "e")), ("y", ("", "e")),
    ):  # fmt: skip
        if lower.endswith(suffix) and len(lower) >= len(suffix) + 2:
            stem = lower[: -len(suffix)]
            if any(stem + ending in COMMON or stem + ending in FUNCTION for ending in endings if len(stem) > 1):
                return True
            if suffix in ("ed", "ing", "er") and stem[-1] == stem[-2]:  # stopped, planning
                return stem[:-1] in COMMON or stem[:-1] in FUNCTION
    head, mark, _ = lower.replace("’", "'").partition("'")
    return bool(mark) and len(head) > 1 and head in FUNCTION


class Phrase(NamedTuple):
    words: tuple[str, ...]
    lower: tuple[str, ...]
    label: str  # "GPE" or "ORG"


def _phrases() -> dict[str, list[Phrase]]:
    """Returns the known names by their first word in lower case, longest first."""
    found: dict[str, list[Phrase]] = {}
    for name, label in (("places", "GPE"), ("organisations", "ORG")):
        for line in _lines(name):
            for entry in line.split(";"):
                words = tuple(token.text for token in tokenize(entry.strip()))
                if words:
                    lower = tuple(word.lower() for word in words)
                    found.setdefault(lower[0], []).append(Phrase(words, lower, label))
    for phrases in found.values():
        phrases.sort(key=lambda phrase: -len(phrase.words))
    return found


PHRASES = _phrases()
