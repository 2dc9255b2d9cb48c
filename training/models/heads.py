"""The heads on top of the encoder: spans for `[QUE]` (CLISM), anchors (mPMR), masked tokens (MLM), and the standard
heads of fine-tuning.

Every head takes `hidden_TD` of a packed batch. New heads are initialised as in transformers: normal weights, zero
biases.

Shapes: N sequences, T tokens of a packed batch, D hidden size, Q questions, M masked tokens, V vocabulary, W words,
C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers.activations import ACT2FN

from training.recipes.methods import METHODS


class Head(nn.Module):
    """A head that a model's folder can hold."""

    purpose: ClassVar[str]
    """What the head does, as the model card says it."""
    settings: dict[str, Any]
    """The arguments that its class was made with, as JSON values."""

    def name_in_model(self, key: str) -> str:
        """Returns the name that a weight of a standard head has in the whole model of transformers."""
        return key


class SpanHead(Head):
    """Scores where each `[QUE]`'s answer starts and ends (CLISM, equations 1 to 3), in fp32.

    The paper's head is linear: s_q = W_s x_q, e_q = W_e x_q. The `deep` head is Splinter's: question and tokens first
    go through layers of their own, x → LayerNorm(GELU(V x)).
    """

    purpose = "finds the start and the end of the answer to each `[QUE]` (CLISM, section 3.1)"

    def __init__(self, hidden_size: int, deep: bool = False) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "deep": deep}
        self.start = _Boundary(hidden_size, deep)
        self.end = _Boundary(hidden_size, deep)
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor, que_Q: Tensor) -> tuple[Tensor, Tensor]:
        """Returns start_QT, end_QT: x_k · s_q and x_k · e_q for every token of the batch.

        The loss selects the tokens of each question's own sequence. Scores across sequences are computed but not used:
        one product over T costs less than gathering each question's sequence.
        """
        return self.start(hidden_TD, que_Q), self.end(hidden_TD, que_Q)


class _Boundary(nn.Module):
    """Scores every token as one boundary, start or end, of the answer to each question."""

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
    """Initialises a layer with the deviation of XLM-R's `initializer_range`; torch's default would give narrow models
    large scores."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _transform(hidden_size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size))


class WaeExtractor(Head):
    """Computes the two factors of the score S_ij that the span from token i to token j is an answer (mPMR, 2.1).

    As in the released code: S = H · (W2 dropout(GELU(W1 H)))ᵀ, so only the end's side is transformed.
    """

    purpose = "scores every span of a context as an answer to a query (mPMR, section 2.1)"

    def __init__(self, hidden_size: int, inner_size: int = 1024, dropout: float = 0.1) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "inner_size": inner_size, "dropout": dropout}
        self.inner = nn.Linear(hidden_size, inner_size)  # W1
        self.outer = nn.Linear(inner_size, hidden_size)  # W2
        self.dropout = nn.Dropout(dropout)
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Returns start_TD, end_TD in fp32: S_ij = start_TD[i] · end_TD[j]. The loss computes the T × T scores."""
        end_TD = self.outer(self.dropout(gelu(self.inner(hidden_TD))))
        return hidden_TD.float(), end_TD.float()


class MlmHead(nn.Module):
    """Applies the pre-trained head of a masked language model to masked positions. Its decoder shares the embedding's
    weights."""

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        self.head: Any = language_model.cls if hasattr(language_model, "cls") else language_model.lm_head

    def forward(self, hidden_TD: Tensor, masked_M: Tensor) -> Tensor:
        """Returns logits_MV."""
        return self.head(hidden_TD[masked_M])


class QaHead(Head):
    """Scores each token as the start and as the end of an answer, in fp32, like transformers' head for questions."""

    purpose = "scores every token as the start and as the end of the answer"

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size}
        self.qa_outputs = nn.Linear(hidden_size, 2)
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Returns start_T, end_T."""
        with torch.autocast(hidden_TD.device.type, enabled=False):
            start_T, end_T = self.qa_outputs(hidden_TD.float()).unbind(dim=1)
        return start_T, end_T


class TagHead(Head):
    """Scores the tags of each word from its first token, in fp32, like transformers' head for tokens. `labels` are the
    tags' names."""

    purpose = "scores the tags of each word, at its first token"

    def __init__(self, hidden_size: int, labels: Sequence[str], dropout: float = 0.1) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "labels": list(labels), "dropout": dropout}
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden_size, len(labels))
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor, words_W: Tensor) -> Tensor:
        """Returns logits_WC."""
        with torch.autocast(hidden_TD.device.type, enabled=False):
            return self.classifier(self.dropout(hidden_TD[words_W].float()))


class PairHead(Head):
    """Scores the labels of each sequence from its first token, in fp32, like transformers' head for sequences of that
    `family` (a model_type): outer(dropout(activation(inner(first_dropout(x))))).

    Only DeBERTa's head has a `first_dropout` and an `activation` of its own choice. BERT's has no first dropout, and
    the others' has `dropout` in both places; their activation is tanh.
    """

    purpose = "scores the labels of two sentences, at the first token"

    def __init__(
        self,
        hidden_size: int,
        labels: Sequence[str],
        dropout: float = 0.1,
        family: str = "xlm-roberta",
        first_dropout: float | None = None,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "labels": list(labels), "dropout": dropout, "family": family}
        if first_dropout is None:
            first_dropout = 0.0 if family == "bert" else dropout
        else:
            self.settings |= {"first_dropout": first_dropout, "activation": activation}
        self.family, self.activation = family, ACT2FN[activation]
        self.dropout, self.first_dropout = nn.Dropout(dropout), nn.Dropout(first_dropout)
        inner, outer = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, len(labels))
        self.pools = family in ("bert", "deberta-v2")
        self.classifier: Any = outer if self.pools else nn.ModuleDict({"dense": inner, "out_proj": outer})
        if self.pools:
            self.pooler: Any = nn.ModuleDict({"dense": inner})
        self.apply(_begin)

    def forward(self, hidden_TD: Tensor, cls_N: Tensor) -> Tensor:
        """Returns logits_NC."""
        inner, outer = (
            (self.pooler["dense"], self.classifier)
            if self.pools
            else (self.classifier["dense"], self.classifier["out_proj"])
        )
        with torch.autocast(hidden_TD.device.type, enabled=False):
            first_ND = self.first_dropout(hidden_TD[cls_N].float())
            return outer(self.dropout(self.activation(inner(first_ND))))

    def name_in_model(self, key: str) -> str:
        """Returns the name in the whole model, where BERT's pooler is part of the encoder."""
        return f"bert.{key}" if self.family == "bert" and key.startswith("pooler.") else key


class MixingRatio(Head):
    """Turns the entropy of an alignment into the share of the source's hidden states: λ = λ0 σ(entropy W + b), with
    trainable numbers W and b (X-Mixup, 4.1, Mixup Ratio).

    Both begin with 0, so that every ratio is λ0 / 2 at first; the paper does not say how they begin.
    """

    purpose = "decides how much of a translation's representations is mixed into a text's (X-Mixup, section 4.1)"

    def __init__(self, max_ratio: float) -> None:
        super().__init__()
        self.settings = {"max_ratio": max_ratio}
        self.max_ratio = max_ratio
        self.weight = nn.Parameter(torch.zeros(1))  # W
        self.bias = nn.Parameter(torch.zeros(1))  # b

    def forward(self, entropy_N: Tensor) -> Tensor:
        """Returns the ratio of each pair of sequences, 0 to λ0, from H(A) + H(Aᵀ) (`objectives.mixing`)."""
        return self.max_ratio * torch.sigmoid(entropy_N * self.weight + self.bias)


HEADS: dict[str, type[Head]] = {"span": SpanHead, "wae": WaeExtractor}
"""Name → head of pre-training, which a model's folder holds in a file of its own, heads.safetensors."""
TASK_HEADS: dict[str, type[Head]] = {"qa": QaHead, "tags": TagHead, "pairs": PairHead}
"""Name → standard head of a kind of task, which is a part of the model of transformers, under its own names."""


def head_class(name: str) -> type[Head] | None:
    """Returns the class of a head by its name in a model's folder, or None for an unknown name."""
    if name in HEADS or name in TASK_HEADS:
        return (HEADS | TASK_HEADS)[name]
    path = next((method.heads[name] for method in METHODS.values() if name in method.heads), None)
    return None if path is None else resolve_name(path)


def task_head(name: str, config: Any, classes: Sequence[str] = ()) -> Head:
    """Makes a new head of `TASK_HEADS` for an encoder of that configuration; `classes` are its tags or labels."""
    if name == "qa":
        return QaHead(config.hidden_size)
    pooled = name == "pairs" and config.model_type == "deberta-v2"
    own = getattr(config, "cls_dropout" if pooled else "classifier_dropout", None)
    dropout = config.hidden_dropout_prob if own is None else own
    if name == "tags":
        return TagHead(config.hidden_size, classes, dropout)
    chosen = {"first_dropout": config.pooler_dropout, "activation": config.pooler_hidden_act} if pooled else {}
    return PairHead(config.hidden_size, classes, dropout, config.model_type, **chosen)
