"""Checks `compare-languages` before torch is imported, which takes seconds."""

from __future__ import annotations

from pathlib import Path

from schemas.errors import ConfigError
from schemas.runtime.output_folder import check_output
from training.checks.settings import check_numbers
from training.models.files import check_model
from training.recipes.language_comparison import LanguageComparisonConfig
from training.runtime.outputs import comparison_files
from training.tasks.records import check_sources

LEAST = {"records": 2, "max_tokens": 8}


def check_comparison(config: LanguageComparisonConfig) -> None:
    """Raises `ConfigError` or `InputError` for options that cannot work, and for a missing file or model."""
    if not config.models:
        raise ConfigError("no models: name folders of models or runs, or names on Hugging Face's hub")
    if twice := [name for name in config.models if config.models.count(name) > 1]:
        raise ConfigError(f"{twice[0]}: given twice")
    check_numbers(config, LEAST)
    check_sources(config.files, config.task, config.langs)
    if len(config.files) < 2:
        raise ConfigError("one file: expected one for each of two languages or more")
    if config.langs and config.source_lang not in config.langs:
        raise ConfigError(f"--source-lang {config.source_lang}: expected one of --langs {' '.join(config.langs)}")
    check_output(Path(config.output), comparison_files, {"--files": config.files, "MODEL": config.models})
    for name in config.models:
        check_model(name)
