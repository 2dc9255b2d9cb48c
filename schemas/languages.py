"""The languages that Polyspan knows: mPMR's 24 (mPMR, table 4), those that the evaluation sets add, and one with a
small Wikipedia."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from schemas.did_you_mean import closest

_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]{1,8})*")  # sl, eng, deu_Latn


@dataclass(frozen=True, slots=True)
class Language:
    """One language, and how its texts are split into words.

    >>> LANGUAGES["vi"]
    Language(code='vi', name='Vietnamese', iso639_3='vie', script='Latn', tokenizer='moses', spaced=True, ...)
    """

    code: str  # ISO 639-1, or 639-3 if it has none; files, records and configurations use no other spelling
    name: str
    iso639_3: str  # the macrolanguage if there is one: `ara`, `zho`, `swa`
    script: str  # ISO 15924
    tokenizer: str  # "spacy", "moses", "sudachi", "pythainlp" or "jieba"
    spaced: bool = True  # white space separates words (in Vietnamese: syllables; in Korean: words with their particles)
    right_to_left: bool = False


# Why not spaCy in every language that spaCy lists:
#   vi  spaCy needs pyvi, which is ten times slower and joins syllables into words by a statistical model. Moses keeps
#       syllables apart, as XQuAD's and MLQA's answers do.
#   ko  spaCy needs mecab-ko, which is not a Python package, so a runner's workers could not install it with pip.
#   sw  spaCy does not support it.
#   th  spaCy calls PyThaiNLP. We call it directly, because its tokens keep exact offsets.
#   ja  spaCy calls SudachiPy (split mode A) and then tags parts of speech, which are not needed here. Same words.
#   zh  spaCy's default splits every character, and 40% of aligned names then lose a character
#       (benchmarks/bench_projection.py). spaCy can call jieba instead. We call its Rust version directly.
LANGUAGES: dict[str, Language] = {
    "ar": Language("ar", "Arabic", "ara", "Arab", "spacy", right_to_left=True),
    "bg": Language("bg", "Bulgarian", "bul", "Cyrl", "spacy"),  # XTREME
    "bn": Language("bn", "Bengali", "ben", "Beng", "spacy"),
    "de": Language("de", "German", "deu", "Latn", "spacy"),
    "el": Language("el", "Greek", "ell", "Grek", "spacy"),
    "en": Language("en", "English", "eng", "Latn", "spacy"),
    "es": Language("es", "Spanish", "spa", "Latn", "spacy"),
    "fi": Language("fi", "Finnish", "fin", "Latn", "spacy"),
    "fr": Language("fr", "French", "fra", "Latn", "spacy"),
    "hi": Language("hi", "Hindi", "hin", "Deva", "spacy"),
    "id": Language("id", "Indonesian", "ind", "Latn", "spacy"),
    "it": Language("it", "Italian", "ita", "Latn", "spacy"),
    "ja": Language("ja", "Japanese", "jpn", "Jpan", "sudachi", spaced=False),
    "ko": Language("ko", "Korean", "kor", "Kore", "moses"),
    "ltg": Language("ltg", "Latgalian", "ltg", "Latn", "moses"),  # the smallest whole Wikipedia in our tests
    "nl": Language("nl", "Dutch", "nld", "Latn", "spacy"),
    "pl": Language("pl", "Polish", "pol", "Latn", "spacy"),
    "pt": Language("pt", "Portuguese", "por", "Latn", "spacy"),
    "ro": Language("ro", "Romanian", "ron", "Latn", "spacy"),  # XQuAD
    "ru": Language("ru", "Russian", "rus", "Cyrl", "spacy"),
    "sv": Language("sv", "Swedish", "swe", "Latn", "spacy"),
    "sw": Language("sw", "Swahili", "swa", "Latn", "moses"),
    "ta": Language("ta", "Tamil", "tam", "Taml", "spacy"),  # XTREME
    "te": Language("te", "Telugu", "tel", "Telu", "spacy"),
    "th": Language("th", "Thai", "tha", "Thai", "pythainlp", spaced=False),
    "tr": Language("tr", "Turkish", "tur", "Latn", "spacy"),
    "ur": Language("ur", "Urdu", "urd", "Arab", "spacy", right_to_left=True),  # XTREME
    "vi": Language("vi", "Vietnamese", "vie", "Latn", "moses"),
    "zh": Language("zh", "Chinese", "zho", "Hani", "jieba", spaced=False),
}

# What corpora write where we write a macrolanguage's code.
_OTHER_ISO639_3 = {"arb": "ar", "cmn": "zh", "swh": "sw"}


def language(code: str) -> Language:
    """Returns the row of `code`. Raises `ValueError` for another spelling, such as `vie`, and names the right code.

    There is one spelling per language because it becomes part of every record's id.
    """
    if code in LANGUAGES:
        return LANGUAGES[code]
    meant = _meant(code)
    if meant:
        hint = "Did you mean " + " or ".join(f"{row.code!r} ({row.name})" for row in meant) + "?"
    else:
        hint = f"Known languages: {' '.join(LANGUAGES)}."
    raise ValueError(f"unknown language {code!r}. {hint}")


def _meant(code: str) -> list[Language]:
    """Returns the languages that other spellings may mean: `vie`, `VI`, `vi-VN`, `zh_Hans`, `vietnamese`."""
    spelling = code.strip().lower()
    spellings = {row.name.lower(): row for row in LANGUAGES.values()}
    spellings |= {row.iso639_3: row for row in LANGUAGES.values()}
    spellings |= {other: LANGUAGES[known] for other, known in _OTHER_ISO639_3.items()}
    spellings |= LANGUAGES
    for candidate in (spelling, spelling.replace("_", "-").split("-")[0]):
        if candidate in spellings:
            return [spellings[candidate]]
    return list(dict.fromkeys(spellings[match] for match in closest(spelling, spellings)))


class LanguagePair(NamedTuple):
    """A source and a target language, written `en-vi`; CLISM masks mentions in the source language."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


def is_language_code(code: str) -> bool:
    """Returns whether `code` looks like a language code: `sl`, `eng`, `deu_Latn`."""
    return bool(_LANGUAGE_CODE.fullmatch(code))
