"""Classifies words and sentence pairs. W words or pairs, C labels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32

UNLABELLED = -1


def label_loss(logits_WC: Tensor, labels_W: Tensor) -> Loss:
    """Sums −log P(label) over the words or pairs that have a label, not `UNLABELLED`. Its count is their number.

    Figures: `correct`, the share of them whose label is the most likely.
    """
    known_W = labels_W != UNLABELLED
    return Loss(
        F.cross_entropy(at_least_fp32(logits_WC), labels_W, ignore_index=UNLABELLED, reduction="sum"),
        known_W.sum(),
        {"correct": torch.stack([(logits_WC.argmax(dim=1) == labels_W).sum(), known_W.sum()]).double()},
    )


def probabilities(logits_WC: Tensor) -> Tensor:
    """Computes the softmax in fp32."""
    return torch.softmax(at_least_fp32(logits_WC), dim=1)
