"""Teaches a model with a fixed teacher's probabilities (FILTER, Self-Teaching Loss; Hinton, Vinyals and Dean 2015).

R rows (windows, words or pairs), C classes (tokens or labels).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.objectives import Loss, at_least_fp32, hit_rate


def self_teaching_loss(scores: Sequence[Tensor], teacher: Sequence[Tensor], temperature: float = 1.0) -> Loss:
    """Sums KL(p_teacher ‖ p_student) over rows (FILTER, equation 5). Its count is R.

    `scores` are the student's, (R, C), one tensor for each distribution that a row has: start and end of an answer, or
    the label. `teacher` are the teacher's probabilities, in the same form. A `temperature` other than 1 softens both
    distributions, and the loss is multiplied by its square, so that its gradient keeps its size (Hinton et al., 2).
    Figures: `same`, the share of rows of which both find the same class most likely.
    """
    rows = scores[0].shape[0]
    total = scores[0].new_zeros((), dtype=torch.promote_types(scores[0].dtype, torch.float32))
    same_R = torch.ones(rows, dtype=torch.bool, device=scores[0].device)
    for scores_RC, p_RC in zip(scores, teacher, strict=True):
        p_RC = softened(p_RC, temperature)
        absent_RC = p_RC == 0
        log_q_RC = (at_least_fp32(scores_RC) / temperature).log_softmax(dim=1).masked_fill(absent_RC, value=0.0)
        log_p_RC = p_RC.masked_fill(absent_RC, value=1.0).log()
        total = total + (p_RC * (log_p_RC - log_q_RC)).sum()
        if rows:
            same_R &= scores_RC.argmax(dim=1) == p_RC.argmax(dim=1)
    return Loss(temperature**2 * total, torch.full_like(same_R.sum(), rows), {"same": hit_rate(same_R)})


def softened(p_RC: Tensor, temperature: float) -> Tensor:
    """Returns the softmax of log p / temperature over each row's classes."""
    if temperature == 1.0:
        return p_RC
    return (p_RC.log() / temperature).softmax(dim=1)
