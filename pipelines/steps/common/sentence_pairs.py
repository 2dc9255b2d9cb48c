"""What parallel text is made of: language pairs as they are named, sentence pairs and entity mentions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from schemas.errors import ConfigError
from schemas.languages import LanguagePair, is_language_code, language
from schemas.spans import CharSpan


def language_pair(name: str, *, tokenized: bool = False) -> LanguagePair:
    """Parses a `--pair` argument: two different languages that Polyspan knows, source first. Raises `ConfigError`.

    With `tokenized` text, where no tokenizer is needed, any two language codes are accepted.
    """
    source, dash, target = name.partition("-")
    if not dash:
        raise ConfigError(f"--pair {name}: expected two languages joined by a hyphen, source first, such as en-vi.")
    if tokenized:
        pair = LanguagePair(source, target)
        if unlike := [code for code in pair if not is_language_code(code)]:
            raise ConfigError(
                f"--pair {name}: {unlike[0]!r} is no language code. Expected two codes of two or three letters joined "
                "by a hyphen, source first, such as en-sl or eng_Latn-slv_Latn."
            )
    else:
        try:
            pair = LanguagePair(language(source).code, language(target).code)
        except ValueError as error:
            raise ConfigError(f"--pair {name}: {error}") from None
    if pair.source == pair.target:
        raise ConfigError(f"--pair {name}: the two languages are the same.")
    return pair


def record_id(pair: LanguagePair, corpus: str, line: int) -> str:
    """Returns twenty hexadecimal digits, a hash of the sentence pair's position: language pair, corpus and line."""
    return hashlib.blake2b(f"{pair}\0{corpus}\0{line}".encode(), digest_size=10).hexdigest()


@dataclass(frozen=True, slots=True)
class SentencePair:
    """One sentence and its translation, as they were read.

    >>> pair = SentencePair("8f", LanguagePair("en", "vi"), "news.en", 17, "Anna lives in Hanoi.", "Anna ở Hà Nội.")
    """

    id: str
    languages: LanguagePair
    corpus: str
    line: int  # 1-based line of the file, or 1-based <tu> of a TMX
    source_text: str
    target_text: str


class EntityMention(NamedTuple):
    """A typed named-entity span of one text: `EntityMention(CharSpan(14, 19), "GPE")` is "Hanoi" above."""

    span: CharSpan
    label: str
