"""Masks tokens for masked language modelling (MLM; CLISM, 3.3 and footnote 4)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from training.runtime import stateless_random

if TYPE_CHECKING:
    from training.data.features import ClismFeatures
    from training.data.tokens import TextEncoder


@dataclass(frozen=True)
class Mlm:
    """BERT's rule: 15% of the tokens are predicted; 80% of these are masked, 10% replaced, 10% left as they are.

      mask?    [0, rate) predicted                                [rate, 1) not
      what?    [0, masked) <mask>   [masked, masked + replaced) a random token   the rest: unchanged

    Each token has two uniform numbers, `chance` for the first line and `what` for the second.
    """

    mask_id: int
    vocabulary: int  # ids are below it: the tokenizer's length, not the model's padded one
    special_ids: Collection[int]  # never predicted, never a replacement: <s>, </s>, <pad>, <unk>, <mask>, [QUE]
    rate: float = 0.15
    masked: float = 0.8
    replaced: float = 0.1
    is_ordinary: np.ndarray = field(init=False, repr=False, compare=False)  # bool, for each id
    ordinary_ids: np.ndarray = field(init=False, repr=False, compare=False)  # possible replacements

    def __post_init__(self) -> None:
        is_ordinary = np.ones(self.vocabulary, bool)
        is_ordinary[list(self.special_ids)] = False
        object.__setattr__(self, "is_ordinary", is_ordinary)
        object.__setattr__(self, "ordinary_ids", np.flatnonzero(is_ordinary))


def mlm_for(encoder: TextEncoder, rate: float = 0.15) -> Mlm:
    """Returns the rule for a tokenizer's vocabulary."""
    special = encoder.special_ids | set(encoder.tokenizer.all_special_ids) | {encoder.que_id}
    return Mlm(encoder.mask_id, len(encoder.tokenizer), sorted(special), rate)


class Masked(NamedTuple):
    """An example after masking."""

    ids: np.ndarray
    places: np.ndarray  # positions of the predicted tokens, ascending
    labels: np.ndarray  # their original ids


def mask_tokens(features: ClismFeatures, mlm: Mlm, key: int) -> Masked:
    """Masks tokens of source and target, except special tokens, `[QUE]` and answers, which CLISM itself predicts.

    Each token is drawn independently, so an example may have no masked token. The result is a function of the arguments
    alone; `key` is `stateless_random.key` of seed, stream, pass and row.
    """
    ids = np.array(features.ids, np.int64)
    free = np.zeros(len(ids), bool)
    for start, end in (features.source, features.target):
        free[start:end] = True
    free[list(features.que)] = False
    for first, last in features.answers:
        free[first : last + 1] = False
    free &= mlm.is_ordinary[ids]

    chance, what = stateless_random.uniforms(key, 2 * len(ids)).reshape(2, -1)
    places = np.flatnonzero(free & (chance < mlm.rate))
    labels, what = ids[places], what[places]
    # Within the share of replacements `what` is uniform, so its position there selects the replacing token.
    which = (what - mlm.masked) / mlm.replaced if mlm.replaced else np.ones(len(what))
    replacements = mlm.ordinary_ids.take((which * len(mlm.ordinary_ids)).astype(np.int64), mode="clip")
    ids[places] = np.where(what < mlm.masked, mlm.mask_id, np.where(which < 1, replacements, labels))
    return Masked(ids, places, labels)


def unmasked(features: ClismFeatures) -> Masked:
    """Returns an example whose tokens are unchanged, for training without MLM."""
    none = np.empty(0, np.int64)
    return Masked(np.array(features.ids, np.int64), none, none)
