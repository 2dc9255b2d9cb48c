"""Computes one checksum of what a training command asks for: equal checksums mean equal runs.

It needs options and files only, not torch, so that repeating a finished command ends at once. run.json holds it beside
the full description of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schemas import manifest
from training.recipes.finetuning import FinetuneConfig, plain_values
from training.recipes.pretraining import PretrainConfig
from training.runtime.outputs import digest_of

_OF_MODELS = {".json", ".safetensors", ".model", ".txt"}


def pretrain_command(config: PretrainConfig) -> str:
    return _digest(
        {
            "command": "pretrain",
            "recipe": asdict(config.recipe),
            "data": _digests(config.data),
            "weights": list(config.weights),
            "model": _model(config.recipe.model),
        }
    )


def finetune_command(config: FinetuneConfig) -> str:
    translations = [_digests(config.translations), list(config.translation_langs)] if config.translations else None
    return _digest(
        {
            "command": "finetune",
            **({"translations": translations} if translations else {}),
            "recipe": plain_values(config.recipe),
            "train": [_digests(config.train), list(config.train_langs)],
            "dev": [_digests(config.dev), list(config.dev_langs), config.dev_task],
            "selection": [config.evaluate_every, config.patience],
            "model": _model(config.recipe.model),
            "baseline": _model(config.baseline) if config.baseline else None,
        }
    )


def _digests(paths: Iterable[str | Path]) -> list[list[str]]:
    """Returns name and checksum of each file. For a dataset folder it is the manifest's, which holds every shard's."""
    digests = []
    for path in map(Path, paths):
        file = path / manifest.FILE_NAME if path.is_dir() else path
        digests.append([path.name, digest_of(file) if file.is_file() else ""])
    return digests


def _model(name: str) -> Any:
    """Returns the names and checksums of a folder's files, without its path; or a name on the hub as it is."""
    folder = Path(name)
    if not folder.is_dir():
        return name
    files = sorted(path for path in folder.iterdir() if path.suffix in _OF_MODELS and path.is_file())
    return [[path.name, digest_of(path)] for path in files]


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
