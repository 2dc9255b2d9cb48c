"""Checks `translate` before torch is imported, which takes seconds."""

from __future__ import annotations

from pathlib import Path

from schemas import manifest
from schemas.errors import ConfigError
from training.models.files import check_translation_model
from training.recipes.translate import TranslateConfig
from training.tasks.records import check_paths, check_sources, task_of


def check_inputs(config: TranslateConfig) -> None:
    """Raises `ConfigError` or `InputError` for options that cannot work, and for a missing file or model."""
    check_options(config)
    if config.back:
        check_paths(config.input, "folder")
        for folder in config.input:
            check_translations(folder)
    else:
        check_sources(config.input, config.task, langs_of(config))
    if config.aligner and "{pair}" not in config.aligner:
        check_paths([Path(config.aligner)])
    check_translation_model(config.model)


def check_options(config: TranslateConfig) -> None:
    """Raises `ConfigError` for options that contradict one another. Looks at no file."""
    if not config.input:
        raise ConfigError("no input: name files or folders with --input FILE …")
    if config.back and config.task:
        raise ConfigError("--back takes no --task: the translations say which task they are of")
    if not config.back:
        task_of(config.task)
        if not config.to:
            raise ConfigError("no language to translate into: name it with --to LANG …")
    if twice := [lang for lang in config.to if config.to.count(lang) > 1]:
        raise ConfigError(f"--to {twice[0]}: given twice")
    for name, value in (("beams", config.beams), ("batch-tokens", config.computing.batch_tokens)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name}: expected 1 or more, found {value}")
    given_codes(config)


def given_codes(config: TranslateConfig) -> dict[str, str]:
    """Returns language → the model's code. Raises `ConfigError` for what is not of the form LANG=CODE."""
    codes = {}
    for each in config.codes:
        lang, equals, code = each.partition("=")
        if not (lang and equals and code):
            raise ConfigError(f"--codes {each}: expected LANG=CODE, such as de=deu_Latn")
        codes[lang] = code
    return codes


def langs_of(config: TranslateConfig) -> tuple[str, ...]:
    """Returns the language of each input file, or none if their names say it."""
    return (config.source_lang,) * len(config.input) if config.source_lang else ()


def check_translations(folder: Path) -> None:
    """Raises `ConfigError` unless the folder holds translations."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file. With --back, expected a folder that polyspan-train translate wrote")
    schema = manifest.load(folder).schema
    if schema.partition("/")[0] != "translations":
        raise ConfigError(f"{folder}: has schema {schema}, but --back translates translations/1")
