"""What can go wrong before and during training. For the shards' own see `schemas.manifest.DatasetError`."""

from __future__ import annotations


class ConfigError(ValueError):
    """A configuration that cannot work. Raised before training starts; the message names the next command."""


class InputError(ValueError):
    """A file that cannot be read as it is. The message says what was expected, what was found and where."""


class TrainingError(RuntimeError):
    """Training that cannot go on: the loss left the numbers, or memory ran out. The message says what to change."""
