"""The settings of the tagger."""

from __future__ import annotations

from dataclasses import dataclass

BUILTIN = "builtin"


@dataclass(frozen=True)
class TaggerConfig:
    """Which model finds the mentions. The paper names tools such as spaCy, but no model (CLISM, 3.1)."""

    model: str = BUILTIN
    """The package name or folder path of any spaCy pipeline, "builtin" (the built-in tagger, English only), or the name
    of another tagger that is listed in pipelines/steps/ner/taggers.py."""
    labels: tuple[str, ...] = ()
    """Keep only mentions with these labels. Empty: keep all."""
    batch_size: int = 128
    """Number of texts in a batch of a spaCy pipeline. The last digits of a neural model's scores depend on it."""
