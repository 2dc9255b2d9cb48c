"""Masked language modelling (CLISM, 3.3; BERT). M masked tokens, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, hit_rate


def mlm_loss(logits_MV: Tensor, labels_M: Tensor) -> Loss:
    """Sums −log P(original token) over the masked positions. Its count is M.

    Figures: `correct`, the share of positions whose original token is the most likely.
    """
    # The softmax reads bf16 and writes fp32: an fp32 copy of the logits would take gigabytes.
    log_p_MV = F.log_softmax(logits_MV, dim=1, dtype=torch.promote_types(logits_MV.dtype, torch.float32))
    return Loss(
        F.nll_loss(log_p_MV, labels_M, reduction="sum"),
        torch.full_like(labels_M.sum(), len(labels_M)),
        {"correct": hit_rate(logits_MV.argmax(dim=1) == labels_M)},
    )
