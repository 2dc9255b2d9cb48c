"""CLISM's span loss: the answer to every [QUE] is a span of its own sequence (CLISM, 3.1).

Q questions, T tokens of the packed batch, L tokens of its longest sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from training.objectives import Loss
from training.objectives.spans import own_rows, span_loss

if TYPE_CHECKING:
    from training.data.batches import ClismBatch


def clism_loss(start_QT: Tensor, end_QT: Tensor, batch: ClismBatch, target_only: bool = False) -> Loss:
    """Sums −log P(s = a_s | X) − log P(e = a_e | X) over questions (CLISM, equation 4). Its count is Q.

    The probabilities are softmaxes over all tokens of X, the question's own sequence with source, target and special
    tokens (equations 2 and 3); with `target_only`, over the target's tokens, which hold every answer. `start_QT` and
    `end_QT` hold x_k · s_q and x_k · e_q for each question and token of the packed batch; scores of other sequences are
    not read. Figures: the shares of questions whose most likely start, end, or both (`exact`) are right.
    """
    inputs, sequence_Q = batch.inputs, batch.sequence_Q
    start_QL, end_QL = (own_rows(scores_QT, inputs, sequence_Q) for scores_QT in (start_QT, end_QT))
    if target_only:
        places_L = torch.arange(start_QL.shape[1], device=sequence_Q.device)
        target_Q2 = (batch.target_N2 - inputs.bounds_N1[:-1].unsqueeze(1))[sequence_Q]
        outside_QL = (places_L < target_Q2[:, :1]) | (target_Q2[:, 1:] <= places_L)
        start_QL, end_QL = (scores_QL.masked_fill(outside_QL, -torch.inf) for scores_QL in (start_QL, end_QL))
    return span_loss(start_QL, end_QL, batch.answer_start_Q, batch.answer_end_Q, inputs, sequence_Q)
