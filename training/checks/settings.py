"""Checks of settings that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.errors import ConfigError
from schemas.runtime import output_folder
from training.runtime import outputs


def check_output(folder: str, inputs: Mapping[str, Iterable[str | Path]]) -> None:
    """Raises `ConfigError` if no run can be written to `folder`: it holds other files than a run's, or one of the
    inputs, which are given by the options that name them."""
    if not folder:
        raise ConfigError("no output: name the folder to write with --output FOLDER")
    named = {option: [path for path in paths if str(path)] for option, paths in inputs.items()}
    output_folder.check_output(Path(folder), outputs.run_files, named)


def check_numbers(settings: object, least: Mapping[str, float]) -> None:
    """Raises `ConfigError` if one of these fields is below its least value. A field may be None."""
    for name, low in least.items():
        if getattr(settings, name) is not None and not getattr(settings, name) >= low:
            raise ConfigError(f"--{name.replace('_', '-')}: expected {low} or more, found {getattr(settings, name)}")
