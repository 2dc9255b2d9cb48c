"""Counts the correct labels of sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence


def correct(gold: Sequence[str], predicted: Sequence[str]) -> list[int]:
    """Returns 1 for each pair whose label is correct, else 0."""
    if len(gold) != len(predicted):
        raise ValueError(f"expected {len(gold)} labels, found {len(predicted)}")
    return [int(label == guess) for label, guess in zip(gold, predicted, strict=True)]
