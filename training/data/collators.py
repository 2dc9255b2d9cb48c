"""Batch makers: how a recipe turns rows into features and features into tensors. Worker processes get them pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from training.data import stateless_random
from training.data.batches import ClismBatch, WaeBatch, clism_batch, wae_batch
from training.data.masking import Mlm, mask_tokens, unmasked

if TYPE_CHECKING:
    from training.data.features import ClismFeatures, Limits, WaeFeatures
    from training.data.tokens import TextEncoder

_MASKS = 4  # a stream of random numbers of its own


class Example(Protocol):
    """Features of one row, whatever the recipe."""

    @property
    def id(self) -> str: ...

    @property
    def ids(self) -> Sequence[int]: ...

    @property
    def notes(self) -> Sequence[str]: ...


class Collator(Protocol):
    """What a recipe trains on."""

    def features(self, row: Mapping[str, Any]) -> Example | str:
        """One row's features, or the reason why it is refused."""

    def batch(self, examples: Sequence[Any], keys: Sequence[tuple[int, int]]) -> Any:
        """One micro-batch. Each example's key is its row and how often it was drawn before; there may be none."""


@dataclass(frozen=True)
class ClismCollator:
    """CLISM and CACR, and MLM unless `mlm` is None."""

    encoder: TextEncoder
    limits: Limits
    mlm: Mlm | None
    seed: int

    def features(self, row: Mapping[str, Any]) -> ClismFeatures | str:
        from training.data.features import clism_features

        return clism_features(row, self.encoder, self.limits)

    def batch(self, examples: Sequence[ClismFeatures], keys: Sequence[tuple[int, int]]) -> ClismBatch:
        if self.mlm is None:
            return clism_batch(examples, [unmasked(each) for each in examples])
        masked = [
            mask_tokens(each, self.mlm, stateless_random.key(self.seed, _MASKS, passes, row))
            for each, (row, passes) in zip(examples, keys, strict=True)
        ]
        return clism_batch(examples, masked)


@dataclass(frozen=True)
class WaeCollator:
    """Wiki Anchor Extraction."""

    encoder: TextEncoder
    limits: Limits

    def features(self, row: Mapping[str, Any]) -> WaeFeatures | str:
        from training.data.features import wae_features

        return wae_features(row, self.encoder, self.limits)

    def batch(self, examples: Sequence[WaeFeatures], keys: Sequence[tuple[int, int]]) -> WaeBatch:
        return wae_batch(examples)
