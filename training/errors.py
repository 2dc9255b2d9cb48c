"""What can go wrong before and during training. For the shards' own see `schemas.manifest.DatasetError`."""

from __future__ import annotations

from schemas.errors import ConfigError, InputError

__all__ = ["ConfigError", "InputError", "TrainingError"]


class TrainingError(RuntimeError):
    """Training that cannot go on: the loss left the numbers, or memory ran out. The message says what to change."""
