"""Collators turn rows into features and features into batches. The loader pickles them for its worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from training.data.batches import ClismBatch, WaeBatch, clism_batch, wae_batch
from training.data.masking import Mlm, mask_tokens, unmasked
from training.runtime import stateless_random

if TYPE_CHECKING:
    from training.data.features import ClismFeatures, Limits, WaeFeatures
    from training.data.tokens import TextEncoder

_MASKS = 4  # number of this stream of random numbers


class Example(Protocol):
    """The features of one row, for any objective."""

    @property
    def id(self) -> str: ...

    @property
    def ids(self) -> Sequence[int]: ...

    @property
    def notes(self) -> Sequence[str]: ...


class Collator(Protocol):
    """Makes the batches of an objective."""

    def features(self, row: Mapping[str, Any]) -> Example | str:
        """Returns a row's features, or the reason why it is refused."""

    def batch(self, examples: Sequence[Any], keys: Sequence[tuple[int, int]]) -> Any:
        """Packs examples into one micro-batch, which may have none. Each example's key is (row number, number of
        earlier draws of this row)."""


@runtime_checkable
class StepCollator(Protocol):
    """A collator whose batches also depend on the step, for instance by scheduled sampling."""

    def at_step(self, step: int) -> Collator:
        """Returns the collator that makes the batches of this step, counted from 0."""


@dataclass(frozen=True)
class ClismCollator:
    """Makes batches for CLISM and CACR, and for MLM unless `mlm` is None."""

    encoder: TextEncoder
    limits: Limits
    mlm: Mlm | None
    seed: int

    def features(self, row: Mapping[str, Any]) -> ClismFeatures | str:
        from training.data.features import clism_features

        return clism_features(row, self.encoder, self.limits)

    def batch(self, examples: Sequence[ClismFeatures], keys: Sequence[tuple[int, int]]) -> ClismBatch:
        if self.mlm is None:
            return clism_batch(examples, [unmasked(example) for example in examples])
        masked = [
            mask_tokens(example, self.mlm, stateless_random.key(self.seed, _MASKS, passes, row))
            for example, (row, passes) in zip(examples, keys, strict=True)
        ]
        return clism_batch(examples, masked)


@dataclass(frozen=True)
class WaeCollator:
    """Makes batches for Wiki Anchor Extraction."""

    encoder: TextEncoder
    limits: Limits

    def features(self, row: Mapping[str, Any]) -> WaeFeatures | str:
        from training.data.features import wae_features

        return wae_features(row, self.encoder, self.limits)

    def batch(self, examples: Sequence[WaeFeatures], keys: Sequence[tuple[int, int]]) -> WaeBatch:
        return wae_batch(examples)
