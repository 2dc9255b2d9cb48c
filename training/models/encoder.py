"""An encoder over packed sequences, with its layers in view.

This file, `layers.py` and `disentangled.py` alone know how transformers builds these models (5.17 to before 6). Their
oracle is the model's own forward over padded sequences, `Encoder.padded`.

Shapes: N sequences, T tokens of a packed batch, Q tokens that give queries, L tokens of the longest sequence, D hidden
size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, PreTrainedModel

from schemas.errors import ConfigError
from training.models.attention import Bounds
from training.models.disentangled import Disentangled
from training.models.files import FAMILIES
from training.models.layers import PostNorm, PreNorm
from training.models.row_dropout import Replay

if TYPE_CHECKING:
    from training.data.batches import Packed

LAYERS: dict[str, type[PostNorm]] = {
    "xlm-roberta": PostNorm,
    "roberta": PostNorm,
    "bert": PostNorm,
    "xlm-roberta-xl": PreNorm,
    "deberta-v2": Disentangled,
}
"""How the layers of each of `FAMILIES` run."""

Mix = Callable[[Tensor, Tensor], Tensor]
"""What `Encoder.run_mixed` calls: (sum_TD, hidden_TD) → sum_TD."""


class Encoder(nn.Module):
    """Runs an encoder of one of `FAMILIES` over packed sequences. The model keeps its weights.

    In training mode it differs from the model's own forward in one thing: packed attention has no dropout of attention
    probabilities (`attention_probs_dropout_prob`); all other dropout is the model's. Every token has token type 0.
    `checkpoint_activations` keeps only each layer's input and computes the rest again in the backward pass, which is a
    third slower, takes far less memory and gives the same numbers.
    """

    def __init__(self, model: PreTrainedModel, checkpoint_activations: bool = False) -> None:
        super().__init__()
        if model.config.model_type not in FAMILIES:
            raise ConfigError(
                f"{type(model).__name__} has model_type {model.config.model_type!r}. "
                f"Expected one of {', '.join(FAMILIES)}, such as xlm-roberta-base"
            )
        self.parts = LAYERS[model.config.model_type](model)
        self.model: Any = model
        self.checkpoint_activations = checkpoint_activations
        self.first_position: int = model.config.pad_token_id + 1 if FAMILIES[model.config.model_type] else 0

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Encoder:
        """Loads the encoder, without heads, from a folder that holds safetensors."""
        model = AutoModel.from_pretrained(folder, use_safetensors=True, dtype=torch.float32)
        if hasattr(model, "pooler"):
            model.pooler = None
        return cls(model)

    @property
    def layers(self) -> nn.ModuleList:
        return self.model.encoder.layer

    @property
    def hidden_size(self) -> int:
        """Returns D."""
        return self.model.config.hidden_size

    @property
    def max_tokens(self) -> int:
        """Returns the maximum length of a sequence, special tokens included."""
        return self.model.config.max_position_embeddings - self.first_position

    @property
    def positions(self) -> int:
        """Returns the number of relative positions that each token is compared with, which is 0 but for DeBERTa."""
        return self.model.encoder.rel_embeddings.num_embeddings if self.position_products else 0

    @property
    def position_products(self) -> tuple[str, ...]:
        """Returns DeBERTa's products of contents with relative positions, "c2p" and "p2c"; none for other families."""
        config = self.model.config
        return tuple(config.pos_att_type or ()) if getattr(config, "relative_attention", False) else ()

    def forward(self, inputs: Packed) -> Tensor:
        """Returns the last layer's representations, (T, D). A batch without sequences gives all parameters zero
        gradients."""
        if inputs.longest == 0:
            return self(_one_token(inputs))[:0]
        return self.run(self.embed(inputs), 0, len(self.layers), inputs.bounds_N1, inputs.longest)

    def embed(self, inputs: Packed) -> Tensor:
        """Returns the first layer's input, (T, D). Raises `ConfigError` if a sequence has more than `max_tokens`."""
        if inputs.longest > self.max_tokens:
            raise ConfigError(
                f"a sequence has {inputs.longest} tokens, but this encoder has positions for {self.max_tokens}. "
                "Lower the recipe's limit of tokens"
            )
        positions_T = inputs.positions_T + self.first_position
        return self.model.embeddings(inputs.ids_T.unsqueeze(0), position_ids=positions_T.unsqueeze(0)).squeeze(0)

    def run(self, hidden_TD: Tensor, first: int, last: int, bounds_N1: Tensor, longest: int) -> Tensor:
        """Runs layers `first` to `last` - 1, (T, D) to (T, D), with these bounds of sequences (int32).

        Tokens between the same bounds see each other. Later layers may have other bounds, for instance to read a
        sentence and its translation first apart and then together.
        """
        hidden_1TD, sequences = hidden_TD.unsqueeze(0), self.parts.sequences(Bounds(bounds_N1, longest))
        for layer in range(first, last):
            hidden_1TD = self._kept(partial(self.parts.run, layer, sequences=sequences), hidden_1TD)
        return hidden_1TD.squeeze(0)

    def run_mixed(self, hidden_TD: Tensor, layer: int, bounds_N1: Tensor, longest: int, mix: Mix) -> Tensor:
        """Runs one layer, (T, D) to (T, D), in which `mix` replaces the sum of attention and its input (X-Mixup, 4.1).

        `mix(sum_TD, hidden_TD)` gets the sum u, before the norm, and the norm's output x = LN(u); it returns a sum for
        each token, (T, D), whose norm the feed-forward sublayer takes. What `mix` returns unchanged gives what `run`
        gives. In a pre-norm layer (XLM-R XL) both are u, which the feed-forward sublayer takes without a norm.

        With `checkpoint_activations`, `mix` is called again in the backward pass, with the same numbers.
        """
        sequences = self.parts.sequences(Bounds(bounds_N1, longest))

        def mixed(hidden_1TD: Tensor) -> Tensor:
            sum_1TD = self.parts.attention_sum(layer, hidden_1TD, sequences)
            mixed_TD = mix(sum_1TD.squeeze(0), self.parts.attention_norm(layer, sum_1TD).squeeze(0))
            out_1TD = self.parts.feed_forward(layer, self.parts.attention_norm(layer, mixed_TD.unsqueeze(0)))
            return self.parts.finish(layer, out_1TD, hidden_1TD, sequences)

        return self._kept(mixed, hidden_TD.unsqueeze(0)).squeeze(0)

    def cross_attention(self, layer: int, query_QD: Tensor, queries: Bounds, key_TD: Tensor, keys: Bounds) -> Tensor:
        """Returns c = MultiHead(query, key, key) + query, (Q, D), with the layer's own weights (X-Mixup, equation 3).

        The n-th sequence of `queries` sees the n-th of `keys`; their lengths may differ, and each sequence of `keys`
        has at least one token. Dropout is the layer's, but attention probabilities have none. Like a sum in `mix`, the
        result has no norm yet.
        """
        return self.parts.cross_attention(layer, query_QD.unsqueeze(0), queries, key_TD.unsqueeze(0), keys).squeeze(0)

    def _kept(self, call: Callable[[Tensor], Tensor], hidden_1TD: Tensor) -> Tensor:
        """Calls a layer, and keeps its activations or only its input."""
        if self.checkpoint_activations and self.training:
            replay = Replay()

            def again(hidden_1TD: Tensor) -> Tensor:
                with replay():
                    return call(hidden_1TD)

            kept: Tensor = checkpoint(again, hidden_1TD, use_reentrant=False)
            return kept
        return call(hidden_1TD)

    def padded(self, inputs: Packed) -> Tensor:
        """Returns what `forward` returns, (T, D), computed by the model's own forward: slower; tests compare both."""
        ids_NL, mask_NL = inputs.padded(self.model.config.pad_token_id)
        return self.model(input_ids=ids_NL, attention_mask=mask_NL.long()).last_hidden_state[mask_NL]


def _one_token(none: Packed) -> Packed:
    """Returns a sequence of one token. The layers of transformers take no empty tensor, but the loss of an empty batch
    must depend on the parameters, so that its backward pass runs and leaves gradients of zero."""
    return replace(
        none,
        ids_T=none.ids_T.new_zeros(1),
        positions_T=none.positions_T.new_zeros(1),
        bounds_N1=torch.arange(2, dtype=torch.int32, device=none.bounds_N1.device),
        longest=1,
    )
