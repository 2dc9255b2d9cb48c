"""Normalises answers exactly as MLQA's scorer: punctuation of all scripts, articles by language, Han characters.

Used with `training.metrics.squad.scores`. The language is the answer's, which is the context's.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from functools import cache
from typing import Literal

Arabic = Literal["official", "word_start"]

_OFFICIAL_ARABIC = re.compile("ال")  # anywhere: the other half of the official pattern, a blank before, can never match
_ARABIC = re.compile(r"\bال")
_ARTICLES = {
    "en": re.compile(r"\b(a|an|the)\b"),
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
}
LANGS = ("en", "ar", "de", "es", "hi", "vi", "zh")
_HAN = re.compile("[\u4e00-\u9fa5]")


def normalize(text: str, lang: str, arabic: Arabic = "official") -> str:
    """Lower-cases the text, deletes punctuation, deletes articles, and separates words by single blanks, in that order.
    In Chinese every Han character is a word.

    `arabic`: the official rule deletes ال everywhere, also inside words (`أطفال` becomes `أطف`); `word_start` only at
    the start of a word. Raises `ValueError` for a language that MLQA does not have.
    """
    if lang not in LANGS:
        raise ValueError(f"MLQA's scorer knows {', '.join(LANGS)}; found {lang!r}")
    text = text.lower().translate(_punctuation())
    if lang == "ar":
        text = (_OFFICIAL_ARABIC if arabic == "official" else _ARABIC).sub(" ", text)
    elif lang in _ARTICLES:
        text = _ARTICLES[lang].sub(" ", text)
    elif lang == "zh":
        text = _HAN.sub(r" \g<0> ", text)
    return " ".join(text.split())


@cache
def _punctuation() -> dict[int, None]:
    """Returns a table that deletes ASCII's punctuation, with `$+<=>^`|~`, and all categories P of Python's Unicode."""
    everywhere = (code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P"))
    return dict.fromkeys([*everywhere, *map(ord, string.punctuation)])
