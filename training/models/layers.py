"""What the layers of each family do, in parts: the sum of attention and its input, the norm, the feed-forward sublayer.

h is a layer's input, u the sum of h and its attention, and x what the feed-forward sublayer takes. In a post-norm layer
(BERT, RoBERTa, XLM-R) x = LN(u), where LN is the norm of the attention's output. In a pre-norm layer (XLM-R XL) x = u:
each sublayer has a norm of its own for what it reads.

Shapes: T tokens of a packed batch, Q tokens that give queries, H attention heads, K width of a head, D hidden size.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from training.models.attention import PACKED_ATTENTION, Bounds, attention, register_packed_attention


class PostNorm:
    """The layers of an `XLMRobertaModel`, `RobertaModel` or `BertModel`."""

    def __init__(self, model: Any) -> None:
        register_packed_attention()
        model.set_attn_implementation(PACKED_ATTENTION)
        self.encoder: Any = model.encoder

    def sequences(self, bounds: Bounds) -> Any:
        """Returns what the attention of one or more layers has to know of the sequences."""
        return bounds

    def run(self, layer: int, hidden_1TD: Tensor, sequences: Any) -> Tensor:
        """Runs a whole layer."""
        bounds_N1, longest = sequences
        out_1TD = self.encoder.layer[layer](hidden_1TD, bounds_N1=bounds_N1, longest=longest)
        return self.finish(layer, out_1TD, hidden_1TD, sequences)

    def attention_sum(self, layer: int, hidden_1TD: Tensor, sequences: Any) -> Tensor:
        """Returns u, with dropout as in the layer."""
        sublayer, (bounds_N1, longest) = self.encoder.layer[layer].attention, sequences
        out_1TD, _ = sublayer.self(hidden_1TD, bounds_N1=bounds_N1, longest=longest)
        return add_output(sublayer.output, out_1TD, hidden_1TD)

    def attention_norm(self, layer: int, sum_1TD: Tensor) -> Tensor:
        """Returns x from u."""
        return self.encoder.layer[layer].attention.output.LayerNorm(sum_1TD)

    def cross_attention(self, layer: int, query_1QD: Tensor, queries: Bounds, key_1TD: Tensor, keys: Bounds) -> Tensor:
        """Returns (1, Q, D): the attention of `query_1QD` on `key_1TD`, plus `query_1QD`."""
        sublayer = self.encoder.layer[layer].attention
        out_1QD = attend(sublayer.self, query_1QD, queries, key_1TD, keys)
        return add_output(sublayer.output, out_1QD, query_1QD)

    def feed_forward(self, layer: int, hidden_1TD: Tensor) -> Tensor:
        """Returns the feed-forward sublayer's output from x."""
        return self.encoder.layer[layer].feed_forward_chunk(hidden_1TD)

    def finish(self, layer: int, out_1TD: Tensor, hidden_1TD: Tensor, sequences: Any) -> Tensor:
        """Returns the layer's output from the feed-forward sublayer's output and the layer's input."""
        return out_1TD


class PreNorm(PostNorm):
    """The layers of an `XLMRobertaXLModel`. The last layer includes the norm that follows all layers."""

    def attention_sum(self, layer: int, hidden_1TD: Tensor, sequences: Any) -> Tensor:
        bounds_N1, longest = sequences
        return self.encoder.layer[layer].attention(hidden_1TD, bounds_N1=bounds_N1, longest=longest)[0]

    def attention_norm(self, layer: int, sum_1TD: Tensor) -> Tensor:
        return sum_1TD

    def cross_attention(self, layer: int, query_1QD: Tensor, queries: Bounds, key_1TD: Tensor, keys: Bounds) -> Tensor:
        sublayer = self.encoder.layer[layer].attention
        norm = sublayer.self_attn_layer_norm
        return sublayer.output(attend(sublayer.self, norm(query_1QD), queries, norm(key_1TD), keys), query_1QD)

    def finish(self, layer: int, out_1TD: Tensor, hidden_1TD: Tensor, sequences: Any) -> Tensor:
        return self.encoder.LayerNorm(out_1TD) if layer == len(self.encoder.layer) - 1 else out_1TD


def add_output(output: Any, out_1TD: Tensor, hidden_1TD: Tensor) -> Tensor:
    """Returns what the norm of a post-norm sublayer takes: its projected output with dropout, plus its input."""
    return output.dropout(output.dense(out_1TD)) + hidden_1TD


def attend(module: Any, query_1QD: Tensor, queries: Bounds, key_1TD: Tensor, keys: Bounds) -> Tensor:
    """Returns the heads' outputs, joined, (1, Q, D), of an attention with this module's projections."""

    def heads(projection: nn.Module, hidden_1TD: Tensor) -> Tensor:
        return projection(hidden_1TD).unflatten(2, (-1, module.attention_head_size)).transpose(1, 2)

    q_1HQK = heads(module.query, query_1QD)
    return attention(q_1HQK, heads(module.key, key_1TD), heads(module.value, key_1TD), queries, keys).flatten(2)
