"""What the datasets have in common that a run makes before its own first step: candidates and soft labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import manifest
from schemas.errors import ConfigError
from training.recipes.finetuning import FinetuneConfig


def baseline_name(config: FinetuneConfig) -> str:
    """Returns the baseline's path, relative to the run's folder if it is inside: that folder may be renamed later."""
    output, baseline = Path(config.output), Path(config.baseline)
    return baseline.relative_to(output).as_posix() if baseline.is_relative_to(output) else config.baseline


def is_made_of(folder: Path, made_of: Mapping[str, Any], deciding: Sequence[str], replaceable: bool) -> bool:
    """Returns whether the dataset in `folder` was made of the same: of the entries of its manifest's configuration, the
    `deciding` ones. Raises `ConfigError` if it was not, unless it is `replaceable`."""
    there = manifest.load(folder).config
    changed = [name for name in deciding if there.get(name) != made_of[name]]
    if changed and not replaceable:
        differences = ", ".join(f"{name} {there.get(name)}, not {made_of[name]}" for name in changed)
        raise ConfigError(
            f"{folder}: made for another run ({differences}). Give the same --baseline, --train and --translations to "
            "go on with that run, begin anew with --overwrite, or take another --output"
        )
    return not changed
