"""An encoder of the XLM-R family over packed sequences, with its layers in view.

This file alone knows how transformers builds these models (5.17 to before 6). Its oracle is the model's own forward
over padded sequences, `Encoder.padded`.

Shapes: N sequences, T tokens of a packed batch, L tokens of the longest sequence, D hidden size.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, PreTrainedModel

from schemas.errors import ConfigError
from training.models.attention import PACKED_ATTENTION, register_packed_attention
from training.models.files import FAMILIES

if TYPE_CHECKING:
    from training.data.batches import Packed


class Encoder(nn.Module):
    """An `XLMRobertaModel` (`RobertaModel`, `BertModel`) that reads packed sequences. The weights stay the model's own.

    Differs from the model's own forward in training mode in one thing: packed attention has no dropout of attention
    probabilities (`attention_probs_dropout_prob`); all other dropout is the model's. Every token has token type 0.
    `checkpoint_activations` keeps each layer's input only and computes the rest again in the backward pass: a third
    slower, far less memory, the same numbers.
    """

    def __init__(self, model: PreTrainedModel, checkpoint_activations: bool = False) -> None:
        super().__init__()
        if model.config.model_type not in FAMILIES:
            raise ConfigError(
                f"{type(model).__name__} has model_type {model.config.model_type!r}. "
                f"Expected one of {', '.join(FAMILIES)}, such as xlm-roberta-base"
            )
        register_packed_attention()
        model.set_attn_implementation(PACKED_ATTENTION)
        self.model: Any = model
        self.checkpoint_activations = checkpoint_activations
        self.first_position: int = model.config.pad_token_id + 1 if FAMILIES[model.config.model_type] else 0

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Encoder:
        """The encoder alone, without heads, of a folder that holds safetensors."""
        kwargs: dict[str, Any] = {"add_pooling_layer": False, "use_safetensors": True, "dtype": torch.float32}
        return cls(AutoModel.from_pretrained(folder, **kwargs))

    @property
    def layers(self) -> nn.ModuleList:
        return self.model.encoder.layer

    @property
    def hidden_size(self) -> int:
        """D."""
        return self.model.config.hidden_size

    @property
    def max_tokens(self) -> int:
        """How long a sequence may be, special tokens included."""
        return self.model.config.max_position_embeddings - self.first_position

    def forward(self, inputs: Packed) -> Tensor:
        """The last layer's representations, (T, D). Also of no sequence: then every parameter's gradient is zero."""
        if inputs.longest == 0:
            return self(_one_token(inputs))[:0]
        return self.run(self.embed(inputs), 0, len(self.layers), inputs.bounds_N1, inputs.longest)

    def embed(self, inputs: Packed) -> Tensor:
        """What the first layer reads, (T, D). Raises `ConfigError` if a sequence has more than `max_tokens`."""
        if inputs.longest > self.max_tokens:
            raise ConfigError(
                f"a sequence has {inputs.longest} tokens, but this encoder has positions for {self.max_tokens}. "
                "Lower the recipe's limit of tokens"
            )
        positions_T = inputs.positions_T + self.first_position
        return self.model.embeddings(inputs.ids_T.unsqueeze(0), position_ids=positions_T.unsqueeze(0)).squeeze(0)

    def run(self, hidden_TD: Tensor, first: int, last: int, bounds_N1: Tensor, longest: int) -> Tensor:
        """Layers `first` to before `last`, (T, D) to (T, D), under any bounds (int32).

        The bounds decide which tokens see each other; other bounds may follow in the next layers, as when a sentence
        and its translation are read apart first and together later.
        """
        hidden_1TD = hidden_TD.unsqueeze(0)
        for layer in self.layers[first:last]:
            call = partial(layer, bounds_N1=bounds_N1, longest=longest)
            if self.checkpoint_activations and self.training:
                hidden_1TD = checkpoint(call, hidden_1TD, use_reentrant=False)
            else:
                hidden_1TD = call(hidden_1TD)
        return hidden_1TD.squeeze(0)

    def padded(self, inputs: Packed) -> Tensor:
        """What `forward` returns, (T, D), through the model's own forward: slower, and the oracle for it."""
        ids_NL, mask_NL = inputs.padded(self.model.config.pad_token_id)
        return self.model(input_ids=ids_NL, attention_mask=mask_NL).last_hidden_state[mask_NL]


def _one_token(none: Packed) -> Packed:
    """The layers of transformers take no empty tensor, yet under DDP every rank's parameters must have a gradient."""
    return replace(
        none,
        ids_T=none.ids_T.new_zeros(1),
        positions_T=none.positions_T.new_zeros(1),
        bounds_N1=torch.arange(2, dtype=torch.int32, device=none.bounds_N1.device),
        longest=1,
    )
