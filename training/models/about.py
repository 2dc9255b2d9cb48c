"""What polyspan.json says of the model beside it. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from: written to polyspan.json and to the model card."""

    base_model: str  # the folder or hub name that training started from
    recipe: Mapping[str, Any]  # the resolved configuration, plain JSON values
    data: Mapping[str, str]  # each dataset's folder → the fingerprint of its manifest
    step: int
    commit: str | None = None


@dataclass(frozen=True)
class About:
    """The content of polyspan.json."""

    heads: Mapping[str, Mapping[str, Any]]  # name → the arguments of its class
    attention_dropout: float  # in training; config.json's value holds for unpacked attention only
    provenance: Provenance
    versions: Mapping[str, str]
    sha256: Mapping[str, str]  # of the weight files
    reading: Mapping[str, Any] | None = None  # of a fine-tuned model: `InferenceSettings` as plain JSON values
    scores: Mapping[str, float] = field(default_factory=dict)  # of a fine-tuned model, on its dev files
    files: Sequence[str] = ()  # all files of the folder; empty in folders of earlier releases
    format_version: int = field(default=FORMAT_VERSION, kw_only=True)
