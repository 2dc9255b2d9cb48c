"""Recognises words without content: stop words and punctuation."""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from schemas.errors import ConfigError
from schemas.languages import language


@cache
def stop_words(lang: str) -> frozenset[str]:
    """Returns spaCy's stop words of `lang` in lower case; an empty set if spaCy has no list, as for Swahili.

    Entries of several syllables have spaces in Vietnamese ("bao giờ"), and entries of several characters have none in
    Chinese ("一些"). In these languages, compare a span's text as well as its tokens.
    """
    try:
        code = language(lang).code
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if find_spec("spacy") is None:
        raise ConfigError("stop words come from spaCy, which this Python lacks. Install with: pip install spacy")
    try:
        words = import_module(f"spacy.lang.{code}.stop_words").STOP_WORDS
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("spacy.lang."):
            raise
        return frozenset()
    # spaCy's Vietnamese list joins syllables with underscores.
    return frozenset(word.lower().replace("_", " ") for word in words)


def is_punctuation(token: str) -> bool:
    """Returns whether `token` has only punctuation and symbols (Unicode P*, S*) with their marks, or nothing visible.

    >>> [is_punctuation(token) for token in ("”", "...", "❤️", "$", "$5", "हि")]
    [True, True, True, True, False, False]
    """
    if not token or token.isalnum():
        return False
    categories = {unicodedata.category(character) for character in token}
    kinds = {category[0] for category in categories if category != "Cf"}
    return kinds <= {"P", "S", "M"} and kinds != {"M"}
