"""Finds out how a translation model writes a language: `de`, `deu_Latn`, `de_DE`, `>>deu<<`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.errors import ConfigError
from schemas.languages import LANGUAGES

# Codes of single languages where ours is a macrolanguage's, and of scripts where a model has several.
_OTHER_CODES = {
    "ar": ("arb_Arab", "arb"),
    "et": ("est_Latn",),
    "fa": ("pes_Arab", "pes"),
    "ko": ("kor_Hang",),
    "ms": ("zsm_Latn", "zsm"),
    "sw": ("swh_Latn", "swh"),
    "zh": ("zho_Hans", "cmn_Hans", "cmn"),
}
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")  # deu_Latn, de_DE
_SHOWN = 12


class ModelCodes(NamedTuple):
    """The languages that a tokenizer knows. Both are empty if the model has no codes, as one of a single pair."""

    source: tuple[str, ...]
    target: dict[str, str]  # code → the token that asks for this language


def codes_of(tokenizer: Any) -> ModelCodes:
    """Returns the codes of a tokenizer: of Marian the target languages alone, of M2M-100, NLLB and mBART-50 the same
    for both sides."""
    if hasattr(tokenizer, "supported_language_codes"):  # Marian
        return ModelCodes((), {token[2:-2]: token for token in tokenizer.supported_language_codes})
    if hasattr(tokenizer, "lang_code_to_token"):  # M2M-100
        tokens = dict(tokenizer.lang_code_to_token)
    elif hasattr(tokenizer, "src_lang"):  # NLLB, mBART-50
        tokens = {token: token for token in map(str, tokenizer.all_special_tokens) if _CODE.fullmatch(token)}
    else:
        tokens = {}
    return ModelCodes(tuple(tokens), tokens)


def code_of(lang: str, known: Sequence[str], given: dict[str, str], model: str) -> str:
    """Returns the model's code of a language. Raises `ConfigError` for a language that the model does not know.

    >>> code_of("de", ["deu_Latn", "eng_Latn"], {}, "nllb")
    'deu_Latn'
    """
    if lang in given:
        if given[lang] in known:
            return given[lang]
        raise ConfigError(f"--codes {lang}={given[lang]}: {model} has no such code. {_known(known)}")
    row = LANGUAGES.get(lang)
    exact = [lang, *([f"{row.iso639_3}_{row.script}", row.iso639_3] if row else []), *_OTHER_CODES.get(lang, ())]
    if found := [code for code in exact if code in known]:
        return found[0]
    beginnings = tuple(f"{code}_" for code in (lang, *([row.iso639_3] if row else [])))
    found = [code for code in known if code.startswith(beginnings)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{lang}: {model} has {', '.join(found)}. Choose one with --codes {lang}={found[0]}")
    raise ConfigError(f"{lang}: {model} does not translate this language, or has another code for it. {_known(known)}")


def check_pair(tokenizer: Any, source: str, target: str, model: str) -> None:
    """Raises `ConfigError` if a bilingual model says that it translates other languages. Groups such as `roa` and names
    that Polyspan does not know are not compared."""
    for name, asked, option in (("source_lang", source, "the records are in"), ("target_lang", target, "--to")):
        says = getattr(tokenizer, name, None)
        if says in LANGUAGES and asked in LANGUAGES and says != asked:
            side = "from" if name == "source_lang" else "into"
            raise ConfigError(f"{model} translates {side} {says}, but {option} {asked}. Name another model")


def _known(known: Sequence[str]) -> str:
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"Its codes: {', '.join(sorted(known)[:_SHOWN])}{more}. Name one with --codes LANG=CODE"
