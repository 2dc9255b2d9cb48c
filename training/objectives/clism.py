"""CLISM's span loss: every [QUE] finds its answer in its own sequence (CLISM, 3.1).

Q questions, T tokens of the packed batch, L tokens of its longest sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, share

if TYPE_CHECKING:
    from training.data.batches import ClismBatch


def clism_loss(start_QT: Tensor, end_QT: Tensor, batch: ClismBatch, target_only: bool = False) -> Loss:
    """−log P(s = a_s | X) − log P(e = a_e | X), summed over questions (CLISM, equation 4). Its count is Q.

    The probabilities are softmaxes over all tokens of X, the question's own sequence with source, target and special
    tokens (equations 2 and 3); `target_only` keeps the target's tokens alone, where every answer is.
    `start_QT` and `end_QT` hold x_k · s_q and x_k · e_q of each question and token of the packed batch; what belongs
    to other sequences is never looked at. Figures: `exact`, `start`, `end`: how many most likely places are right.
    """
    bounds_N1, sequence_Q = batch.inputs.bounds_N1.long(), batch.sequence_Q
    first_Q1 = bounds_N1[sequence_Q].unsqueeze(1)
    # At least one column, so that a batch without a sequence passes.
    places_QL = first_Q1 + torch.arange(max(batch.inputs.longest, 1), device=first_Q1.device)
    if target_only:
        target_Q2 = batch.target_N2[sequence_Q]
        from_Q1, to_Q1 = target_Q2[:, :1], target_Q2[:, 1:]
    else:
        from_Q1, to_Q1 = first_Q1, bounds_N1[sequence_Q + 1].unsqueeze(1)
    allowed_QL = (from_Q1 <= places_QL) & (places_QL < to_Q1)

    def one_end(scores_QT: Tensor, answer_Q: Tensor) -> tuple[Tensor, Tensor]:
        scores_QL = scores_QT.gather(1, places_QL.clamp(max=scores_QT.shape[1] - 1))
        scores_QL = at_least_fp32(scores_QL).masked_fill(~allowed_QL, -torch.inf)
        label_Q = answer_Q - first_Q1.squeeze(1)
        return F.cross_entropy(scores_QL, label_Q, reduction="sum"), scores_QL.argmax(dim=1) == label_Q

    start, start_right_Q = one_end(start_QT, batch.answer_start_Q)
    end, end_right_Q = one_end(end_QT, batch.answer_end_Q)
    return Loss(
        start + end,
        torch.full_like(sequence_Q.sum(), len(sequence_Q)),
        {"exact": share(start_right_Q & end_right_Q), "start": share(start_right_Q), "end": share(end_right_Q)},
    )
