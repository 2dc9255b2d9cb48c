"""The consistency losses of X-Mixup: a text and its translation shall have similar representations and predictions
(X-Mixup, equation 7).

P pairs of a source and a target sequence, N sequences of a packed batch, T tokens, D hidden size, C labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.objectives import Loss, at_least_fp32


def sequence_means(hidden_TD: Tensor, bounds_N1: Tensor, counted_T: Tensor) -> Tensor:
    """Returns the mean of each sequence's tokens where `counted_T` (bool) is true, (N, D) in at least fp32; zeros for a
    sequence without such a token."""
    with torch.autocast(hidden_TD.device.type, enabled=False):
        hidden_TD = at_least_fp32(hidden_TD)
        places_T = torch.arange(len(hidden_TD), device=hidden_TD.device)
        inside_NT = (bounds_N1[:-1, None] <= places_T) & (places_T < bounds_N1[1:, None]) & counted_T
        inside_NT = inside_NT.to(hidden_TD.dtype)
        return (inside_NT @ hidden_TD) / inside_NT.sum(dim=1, keepdim=True).clamp(min=1)


def representation_consistency(source_PD: Tensor, target_PD: Tensor) -> Loss:
    """Sums MSE(r_S, r_T), the mean over D of squared differences, over pairs (X-Mixup, equation 7). Its count is P.
    Gradients reach both sides."""
    with torch.autocast(source_PD.device.type, enabled=False):
        total = (at_least_fp32(source_PD) - at_least_fp32(target_PD)).square().mean(dim=1).sum()
    return Loss(total, _number(source_PD), {})


def prediction_consistency(source_PC: Tensor, target_PC: Tensor) -> Loss:
    """Sums KL(p_S ‖ p_T) = Σ p_S (log p_S − log p_T) over pairs, from logits (X-Mixup, equation 7). Its count is P.
    Gradients reach both sides: the paper stops neither."""
    with torch.autocast(source_PC.device.type, enabled=False):
        log_s_PC = torch.log_softmax(at_least_fp32(source_PC), dim=1)
        log_t_PC = torch.log_softmax(at_least_fp32(target_PC), dim=1)
        total = (log_s_PC.exp() * (log_s_PC - log_t_PC)).sum()
    return Loss(total, _number(source_PC), {})


def _number(rows: Tensor) -> Tensor:
    return torch.tensor(len(rows), device=rows.device)
