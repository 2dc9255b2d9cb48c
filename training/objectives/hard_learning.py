"""Hard learning trains on the best answers of a baseline as candidates (two-stage, Hard-Learning Algorithm; decision
24).

N windows, K candidates of each (Z: the baseline's best by rank, the true one first or at its rank), T tokens of the
packed batch, L tokens of its longest window. A window without an answer has one candidate, its [CLS], and therefore the
plain loss.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from training.data.task_batches import MrcBatch
from training.objectives import Loss, at_least_fp32

Hard = Literal["weighted", "mml", "hard_em"]


class RankWeights(nn.Module):
    """Learns w of equation 5: a softmax over a window's own candidates, with one number for each rank. Prediction does
    not need it.

    The weights begin at 9/10, 9/100, 9/1000 …; equal weights would demand twenty answers of the same probability.
    Minimising over w moves weight to the easiest ranks. If the true answer comes first, that is its own rank; if it
    keeps the baseline's rank (`TwoStage.gold_first`), the loss does not prefer it to a wrong answer. At an encoder's
    learning rate the numbers change by a few tenths in a whole training, so w stays close to its first values.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"size": size}
        self.rank = nn.Parameter(-math.log(10) * torch.arange(size, dtype=torch.float32))

    def forward(self, own_NK: Tensor) -> Tensor:
        """Returns w_NK, which is 0 beyond a window's own candidates. Every window has at least one."""
        return self.rank[: own_NK.shape[1]].masked_fill(~own_NK, -torch.inf).softmax(dim=1)


def candidate_log_probs(start_NL: Tensor, end_NL: Tensor, batch: MrcBatch) -> Tensor:
    """Returns log_NK in at least fp32: log P(z) = log P(start) + log P(end) of each candidate, −inf beyond a window's
    own.

    The probabilities are softmaxes over the whole window (equation 2); scores beyond the window are −inf.
    """
    own_NK = batch.candidate_start_NK >= 0
    first_N1 = batch.inputs.bounds_N1[:-1].long().unsqueeze(1)

    def one_end(scores_NL: Tensor, place_NK: Tensor) -> Tensor:
        return at_least_fp32(scores_NL).log_softmax(dim=1).gather(1, (place_NK - first_N1).clamp(min=0))

    log_NK = one_end(start_NL, batch.candidate_start_NK) + one_end(end_NL, batch.candidate_end_NK)
    return log_NK.masked_fill(~own_NK, -torch.inf)


def hard_loss(log_NK: Tensor, kind: Hard, ranks: nn.Module | None = None, gold_first: bool = False) -> Loss:
    """Sums the loss over windows. Its count is N. Only the weighted loss uses `ranks`.

    weighted: −Σ_l w_l log P(z_l) (equation 5, without the sum inside the logarithm, which has no l);
    mml: −log Σ_l P(z_l) (equation 4); hard_em: −log max_l P(z_l) (Min et al. 2019).

    mml and hard_em are as small where the model is sure of a wrong candidate as where it is sure of the true one. With
    `gold_first`, z_1 is the true answer, and the loss is the mean of the one above and −log P(z_1) (equation 3).
    """
    with torch.autocast(log_NK.device.type, enabled=False):
        if not len(log_NK):  # without a window there is no largest candidate
            total = log_NK.sum()
        elif kind == "mml":
            total = -log_NK.logsumexp(dim=1).sum()
        elif kind == "hard_em":
            total = -log_NK.amax(dim=1).sum()
        elif ranks is None:
            raise ValueError("the weighted loss needs the weights of ranks")
        else:
            own_NK = log_NK > -torch.inf
            total = -(ranks(own_NK) * log_NK.masked_fill(~own_NK, 0)).sum()
        if gold_first and kind != "weighted" and len(log_NK):
            total = (total - log_NK[:, 0].sum()) / 2
    return Loss(total, torch.full((), len(log_NK), dtype=torch.int64, device=log_NK.device), {})
