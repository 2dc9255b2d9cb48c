"""The entropy that decides how much of the source's hidden states is mixed into the target's (X-Mixup, equation 5).

P pairs of a source and a target sequence, N sequences of a packed batch, T tokens, D hidden size, I and J tokens of a
target and of a source sequence, L tokens of the longest sequence.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.objectives import at_least_fp32


def alignment_entropy(hidden_TD: Tensor, source_P2: Tensor, target_P2: Tensor, longest: int) -> Tensor:
    """Returns H(A) + H(Aᵀ) of each pair, (P,), in nats and at least fp32 (X-Mixup, equation 5; decision 27).

    `source_P2` and `target_P2` are each sequence's [start, end) in T, of at most `longest` tokens. A_ij =
    softmax_j(h_Ti · h_Sj / √D), and H(A) is the mean over target tokens i of the entropy of A_i. Aᵀ has its own
    softmax, over target tokens, and H(Aᵀ) is the mean over source tokens: the transposed matrix of equation 5 would
    have no distributions as rows. Lower entropy means a clearer alignment. A pair with an empty side has entropy 0.
    """
    with torch.autocast(hidden_TD.device.type, enabled=False):
        hidden_TD = at_least_fp32(hidden_TD)
        source_PJD, is_source_PJ = rows_of(hidden_TD, source_P2, longest)
        target_PID, is_target_PI = rows_of(hidden_TD, target_P2, longest)
        scores_PIJ = target_PID @ source_PJD.transpose(1, 2) / math.sqrt(hidden_TD.shape[1])
        forward_P = _mean_entropy(scores_PIJ, is_target_PI, is_source_PJ)
        return forward_P + _mean_entropy(scores_PIJ.transpose(1, 2), is_source_PJ, is_target_PI)


def rows_of(hidden_TD: Tensor, ranges_P2: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Returns each range's hidden states, (P, L, D), and where they are tokens of the range, (P, L); the others repeat
    some token of the batch."""
    places_PL = ranges_P2[:, :1].long() + torch.arange(longest, device=hidden_TD.device)
    inside_PL = places_PL < ranges_P2[:, 1:]
    return hidden_TD[places_PL.clamp(max=len(hidden_TD) - 1)], inside_PL


def _mean_entropy(scores_PIJ: Tensor, is_row_PI: Tensor, is_column_PJ: Tensor) -> Tensor:
    """Returns the mean over each pair's real rows of the entropy of a softmax over its real columns, (P,)."""
    # A large negative number instead of -inf: rows without a real column would have a gradient of nan.
    masked_PIJ = scores_PIJ.masked_fill(~is_column_PJ.unsqueeze(1), torch.finfo(scores_PIJ.dtype).min)
    log_PIJ = torch.log_softmax(masked_PIJ, dim=2)
    inside_PIJ = is_row_PI.unsqueeze(2) & is_column_PJ.unsqueeze(1)
    entropy_P = -(log_PIJ.exp() * log_PIJ).masked_fill(~inside_PIJ, 0.0).sum(dim=(1, 2))
    return entropy_P / is_row_PI.sum(dim=1).clamp(min=1)
