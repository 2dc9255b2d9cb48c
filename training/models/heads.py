"""What reads the encoder's representations: spans for `[QUE]` (CLISM), anchors (mPMR), masked tokens (MLM).

Every head takes `hidden_TD` of a packed batch. New heads begin as transformers begins its own: normal weights, biases
of zero.

Shapes: T tokens of a packed batch, D hidden size, Q questions, M masked tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu


class SpanHead(nn.Module):
    """Where each `[QUE]`'s answer starts and ends (CLISM, equations 1 to 3), in fp32.

    A linear head is the paper's: s_q = W_s x_q, e_q = W_e x_q. `deep` is Splinter's: both the question and the tokens
    first go through layers of their own, x → LayerNorm(GELU(V x)).
    """

    def __init__(self, hidden_size: int, deep: bool = False) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"hidden_size": hidden_size, "deep": deep}
        self.start = _Boundary(hidden_size, deep)
        self.end = _Boundary(hidden_size, deep)
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor, que_Q: Tensor) -> tuple[Tensor, Tensor]:
        """start_QT, end_QT: x_k · s_q and x_k · e_q for every token of the batch.

        Which tokens a question chooses among, those of its own sequence, is the loss's to say. Scores across sequences
        are computed in vain, yet one product over T costs less than gathering each question's sequence.
        """
        return self.start(hidden_TD, que_Q), self.end(hidden_TD, que_Q)


class _Boundary(nn.Module):
    """Scores of every token as one boundary, start or end, of the answer to each question."""

    def __init__(self, hidden_size: int, deep: bool) -> None:
        super().__init__()
        self.question = _transform(hidden_size) if deep else nn.Identity()
        self.token = _transform(hidden_size) if deep else nn.Identity()
        self.weight = nn.Linear(hidden_size, hidden_size, bias=False)  # W_s or W_e

    def forward(self, hidden_TD: Tensor, que_Q: Tensor) -> Tensor:
        x_QD, x_TD = self.question(hidden_TD[que_Q]), self.token(hidden_TD)
        with torch.autocast(hidden_TD.device.type, enabled=False):
            return self.weight(x_QD.float()) @ x_TD.float().T


def _begin(module: nn.Module) -> None:
    """With the deviation of XLM-R's `initializer_range`: torch's own would give narrow models large scores."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _transform(hidden_size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size))


class WaeExtractor(nn.Module):
    """The two factors of the score S_ij that the span from token i to token j is an answer (mPMR, 2.1).

    As released: S = H · (W2 dropout(GELU(W1 H)))ᵀ, so only the end's side is transformed.
    """

    def __init__(self, hidden_size: int, inner_size: int = 1024, dropout: float = 0.1) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"hidden_size": hidden_size, "inner_size": inner_size, "dropout": dropout}
        self.inner = nn.Linear(hidden_size, inner_size)  # W1
        self.outer = nn.Linear(inner_size, hidden_size)  # W2
        self.dropout = nn.Dropout(dropout)
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor) -> tuple[Tensor, Tensor]:
        """start_TD, end_TD in fp32: S_ij = start_TD[i] · end_TD[j]. The scores, T × T, are left to the loss."""
        end_TD = self.outer(self.dropout(gelu(self.inner(hidden_TD))))
        return hidden_TD.float(), end_TD.float()


class MlmHead(nn.Module):
    """The pre-trained head of a masked language model, on masked positions only. Its decoder stays the embedding's."""

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        self.head: Any = language_model.cls if hasattr(language_model, "cls") else language_model.lm_head

    def forward(self, hidden_TD: Tensor, masked_M: Tensor) -> Tensor:
        """logits_MV."""
        return self.head(hidden_TD[masked_M])


Head = SpanHead | WaeExtractor
HEADS: dict[str, type[Head]] = {"span": SpanHead, "wae": WaeExtractor}
"""The heads that a model's folder holds beside the MLM head, by the names that they have there."""
