"""Checks of a job's languages, numbers and files, made before Beam is imported, which takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipelines.recipes import AnchorMrcConfig, ClismConfig
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import expand_bitext
from pipelines.steps.common.paths import identity, match_paths
from pipelines.steps.common.sentence_pairs import language_pair
from pipelines.steps.common.tokenize import check_tokenizer
from schemas.errors import ConfigError
from schemas.languages import LanguagePair, language


def clism_inputs(config: ClismConfig) -> tuple[list[LanguagePair], list[BitextFile]]:
    """Returns the language pairs and their files. Raises `ConfigError` or `InputError` for what cannot work."""
    pairs = list(dict.fromkeys(language_pair(name) for name in config.pair))
    if not pairs:
        raise ConfigError("No language pair. Name one or more, source first: --pair en-vi")
    if not config.bitext:
        raise ConfigError("No corpus. Name one or more, for instance: --bitext news.en,news.vi")
    check_at_least_one(config, "chunk_pairs", "rows_per_shard")
    return pairs, expand_bitext(config.bitext, pairs)


class Inputs(NamedTuple):
    """The files of one language: dumps, and files that WikiExtractor made of dumps."""

    dumps: list[str]
    extracted: list[str]


def anchor_mrc_inputs(config: AnchorMrcConfig) -> dict[str, Inputs]:
    """Returns the files of each language. Raises `ConfigError` for what cannot work."""
    langs = check_languages(config.lang)
    if not config.dump and not config.extracted:
        raise ConfigError("No dump. Name one or more, for instance: --dump swwiki-20221001-pages-articles.xml.bz2")
    check_at_least_one(config, "range_bytes", "rows_per_shard", "rejects_per_reason")
    return expand_inputs(config, langs)


def check_at_least_one(config: object, *names: str) -> None:
    """Raises `ConfigError` if one of these fields is less than 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {getattr(config, name)}, but must be at least 1.")


def check_languages(names: Sequence[str]) -> list[str]:
    if not names:
        raise ConfigError("No language. Name that of the dump, for instance: --lang sw")
    for name in names:
        try:
            language(name)
        except ValueError as error:
            raise ConfigError(f"--lang {name}: {error}") from None
        check_tokenizer(name)
    return list(dict.fromkeys(names))


def expand_inputs(config: AnchorMrcConfig, langs: Sequence[str]) -> dict[str, Inputs]:
    """Returns the files that `--dump` and `--extracted` name, by language; `ConfigError` for a language without one."""
    dumps = expand_specs("--dump", config.dump, langs)
    extracted = expand_specs("--extracted", config.extracted, langs)
    for lang in langs:
        if not dumps[lang] and not extracted[lang]:
            raise ConfigError(f"{lang}: no --dump is read for this language. Add one: --dump {lang}=FILE")
    return {lang: Inputs(dumps[lang], extracted[lang]) for lang in langs}


def expand_specs(option: str, specs: Sequence[str], langs: Sequence[str]) -> dict[str, list[str]]:
    """Returns the files that an option names for each language, in the arguments' order, a pattern's matches sorted.

    Raises `ConfigError` for a spec that names no file or not its language, and for a file that is named twice.
    """
    files: dict[str, list[str]] = {lang: [] for lang in langs}
    for spec in specs:
        prefix, equals, pattern = spec.partition("=")
        if equals and prefix in files:
            wanted = [prefix]
        elif "{lang}" in spec or len(langs) == 1:
            wanted, pattern = list(langs), spec
        else:
            raise ConfigError(
                f"{option} {spec}: in which language? Of several, write {{lang}} into the path, or {langs[0]}={spec}"
            )
        for lang in wanted:
            files[lang] += match_paths(pattern.replace("{lang}", lang)).values()
    paths = [identity(path) for group in files.values() for path in group]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ConfigError(f"{option}: {twice[0]} is given twice; every page in it would count double. Leave one out.")
    return files
