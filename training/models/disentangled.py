"""The attention of DeBERTa-v2 and DeBERTa-v3 (He et al. 2021, section 3.1) over packed sequences.

The score of query i and key j adds three products: content with content, content with the relative position i - j
("c2p"), and the relative position with content ("p2c"). Positions are places in a sequence between two bounds: in a
pair that is read together, places in its concatenation; in cross-attention, each token's place in its own sequence.

No kernel of torch computes this on packed sequences. Attention is computed densely for all sequences whose lengths are
equal when rounded up to a multiple of `STEP`, with the keys of padding masked out; all else has no padding. On a CPU
this takes less time than the model's own padded forward: `benchmarks/bench_training_encoders.py` compares them.

Shapes: T tokens of a packed batch, Q tokens that give queries, N sequences, H attention heads, K width of a head, D
hidden size, R rows of the table of relative positions. G sequences have L queries and M keys each, with padding.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.activations import ACT2FN
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from training.models.attention import Bounds
from training.models.layers import PostNorm, add_output

STEP = 16  # tokens


class Group(NamedTuple):
    """G sequences of which each has L queries and M keys, counting padding, which repeats the sequence's last token."""

    query_GL: Tensor  # places in Q
    key_GM: Tensor  # places in T
    padding_GM: Tensor  # bool

    @property
    def queries(self) -> int:
        return self.query_GL.numel()

    @property
    def keys(self) -> int:
        return self.key_GM.numel()


class Sequences(NamedTuple):
    bounds_N1: Tensor
    groups: tuple[Group, ...]
    result_Q: Tensor  # the place of each query's result in the results of all groups


class Disentangled(PostNorm):
    """The layers of a `DebertaV2Model`. The first layer includes the convolution that some models have beside it."""

    def __init__(self, model: Any) -> None:
        self.encoder: Any = model.encoder

    def sequences(self, bounds: Bounds) -> Sequences:
        return _sequences(bounds, bounds)

    def run(self, layer: int, hidden_1TD: Tensor, sequences: Sequences) -> Tensor:
        x_1TD = self.attention_norm(layer, self.attention_sum(layer, hidden_1TD, sequences))
        return self.finish(layer, self.feed_forward(layer, x_1TD), hidden_1TD, sequences)

    def attention_sum(self, layer: int, hidden_1TD: Tensor, sequences: Sequences) -> Tensor:
        return self._sum(layer, hidden_1TD, hidden_1TD, sequences)

    def cross_attention(self, layer: int, query_1QD: Tensor, queries: Bounds, key_1TD: Tensor, keys: Bounds) -> Tensor:
        return self._sum(layer, query_1QD, key_1TD, _sequences(queries, keys))

    def feed_forward(self, layer: int, hidden_1TD: Tensor) -> Tensor:
        own = self.encoder.layer[layer]
        return own.output(own.intermediate(hidden_1TD), hidden_1TD)

    def finish(self, layer: int, out_1TD: Tensor, hidden_1TD: Tensor, sequences: Sequences) -> Tensor:
        if layer or self.encoder.conv is None:
            return out_1TD
        return _convolved(self.encoder.conv, hidden_1TD, out_1TD, sequences.bounds_N1)

    def _sum(self, layer: int, query_1QD: Tensor, key_1TD: Tensor, sequences: Sequences) -> Tensor:
        sublayer = self.encoder.layer[layer].attention
        out_QD = disentangled_attention(
            sublayer.self, query_1QD.squeeze(0), key_1TD.squeeze(0), sequences, self.encoder.get_rel_embedding()
        )
        return add_output(sublayer.output, out_QD.unsqueeze(0), query_1QD)


def disentangled_attention(
    module: Any, query_QD: Tensor, key_TD: Tensor, sequences: Sequences, positions_RD: Tensor | None
) -> Tensor:
    """Returns the heads' outputs, joined, (Q, D), with a `DisentangledSelfAttention`'s weights.

    Dropout of positions is the module's; attention probabilities have none.
    """
    groups, width = sequences.groups, module.attention_head_size

    def heads(projection: Any, hidden_TD: Tensor) -> Tensor:
        return projection(hidden_TD).unflatten(1, (-1, width)).transpose(0, 1)

    queries_HPK = heads(module.query_proj, query_QD)[:, torch.cat([group.query_GL.flatten() for group in groups])]
    places_P = torch.cat([group.key_GM.flatten() for group in groups])
    keys_2HPK = torch.stack((heads(module.key_proj, key_TD), heads(module.value_proj, key_TD))).index_select(
        2, places_P
    )
    tables = {} if positions_RD is None else _position_tables(module, module.pos_dropout(positions_RD), heads)
    scale = (width * (1 + len({"c2p", "p2c"} & set(module.pos_att_type)))) ** -0.5
    outs = []
    for group, q_HPK, kv_2HPK in zip(
        groups,
        torch.split(queries_HPK, [group.queries for group in groups], dim=1),
        torch.split(keys_2HPK, [group.keys for group in groups], dim=2),
        strict=True,
    ):
        q_HGLK = torch.unflatten(q_HPK, 1, group.query_GL.shape)
        k_HGMK, v_HGMK = torch.unflatten(kv_2HPK, 2, group.key_GM.shape)
        # Heads come first here, sequences second: attention looks at the last two dimensions only.
        bias = _position_scores(module, tables, q_HGLK, k_HGMK) * scale
        bias = bias.masked_fill(group.padding_GM.unsqueeze(1), -torch.inf)
        outs.append(scaled_dot_product_attention(q_HGLK, k_HGMK, v_HGMK, bias, scale=scale).flatten(1, 2))
    return torch.cat(outs, dim=1).index_select(1, sequences.result_Q).transpose(0, 1).flatten(1)


def _position_tables(module: Any, positions_RD: Tensor, heads: Any) -> dict[str, Tensor]:
    """Returns the projected positions that queries ("c2p") and keys ("p2c") are compared with, (H, R, K) each."""
    shared = module.share_att_key
    tables = {}
    if "c2p" in module.pos_att_type:
        tables["c2p"] = heads(module.key_proj if shared else module.pos_key_proj, positions_RD)
    if "p2c" in module.pos_att_type:
        tables["p2c"] = heads(module.query_proj if shared else module.pos_query_proj, positions_RD)
    return tables


def _position_scores(module: Any, tables: dict[str, Tensor], q_HGLK: Tensor, k_HGMK: Tensor) -> Tensor:
    """Returns both products with relative positions, without the scale, (H, G, L, M)."""
    length, key_length = q_HGLK.shape[2], k_HGMK.shape[2]
    total = q_HGLK.new_zeros((*q_HGLK.shape[:3], key_length))
    if "c2p" in tables:
        differences = length - 1 - torch.arange(length + key_length, device=q_HGLK.device)
        total = total + _skewed(_products(tables["c2p"], q_HGLK, _rows(module, differences)), key_length)
    if "p2c" in tables:
        differences = torch.arange(length + key_length, device=q_HGLK.device) - (key_length - 1)
        total = total + _skewed(_products(tables["p2c"], k_HGMK, _rows(module, differences)), length).transpose(2, 3)
    return total


def _rows(module: Any, differences: Tensor) -> Tensor:
    """Returns the rows of the table for differences between the places of query and key."""
    if module.position_buckets > 0:
        differences = make_log_bucket_position(differences, module.position_buckets, module.max_relative_positions)
    span = module.pos_ebd_size
    return (differences.long() + span).clamp(0, 2 * span - 1)


def _products(table_HRK: Tensor, own_HGLK: Tensor, rows_W: Tensor) -> Tensor:
    """Returns the products of these rows of the table with each token, (H, G, L, W)."""
    products_HPW = own_HGLK.flatten(1, 2) @ table_HRK.index_select(1, rows_W).transpose(1, 2)
    return torch.unflatten(products_HPW, 1, own_HGLK.shape[1:3])


def _skewed(products_HGLW: Tensor, others: int) -> Tensor:
    """Returns (H, G, L, `others`), where [i, j] is column L - 1 - i + j of row i; W = L + `others`.

    Each row begins one column further left than the one before it, which are rows of W - 1 numbers of the same memory.
    """
    length, width = products_HGLW.shape[2:]
    flat = products_HGLW.flatten(2)[:, :, length - 1 : length * width - 1]
    return torch.unflatten(flat, 2, (length, width - 1))[..., :others]


def _convolved(own: Any, hidden_1TD: Tensor, out_1TD: Tensor, bounds_N1: Tensor) -> Tensor:
    """Adds to the first layer's output a convolution of its input, for each sequence by itself, and normalizes the
    sum (`ConvLayer`). Zeros between the sequences separate them."""
    margin = own.conv.padding[0]
    lengths_N = bounds_N1.diff()
    number_T = torch.repeat_interleave(
        torch.arange(len(lengths_N), device=bounds_N1.device), lengths_N, output_size=hidden_1TD.shape[1]
    )
    places_T = torch.arange(hidden_1TD.shape[1], device=bounds_N1.device) + margin * number_T
    apart_PD = hidden_1TD.new_zeros((hidden_1TD.shape[1] + margin * len(lengths_N), hidden_1TD.shape[2]))
    apart_PD = apart_PD.index_copy(0, places_T, hidden_1TD.squeeze(0))
    conv_PD = own.conv(apart_PD.T.unsqueeze(0)).squeeze(0).T
    conv_1TD = ACT2FN[own.conv_act](own.dropout(conv_PD.index_select(0, places_T).unsqueeze(0)))
    return own.LayerNorm(out_1TD + conv_1TD)


def _sequences(queries: Bounds, keys: Bounds) -> Sequences:
    """Groups sequences of similar lengths, in one wait for the device."""
    device = queries.bounds_N1.device
    query_bounds, key_bounds = torch.stack((queries.bounds_N1, keys.bounds_N1)).tolist()
    members: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for (start, end), (key_start, key_end) in zip(pairwise(query_bounds), pairwise(key_bounds), strict=True):
        if start < end:
            lengths = (_rounded(end - start), _rounded(key_end - key_start))
            members.setdefault(lengths, []).append((start, end, key_start, key_end))
    groups, result_Q, before = [], torch.empty(query_bounds[-1], dtype=torch.int64), 0
    for (length, key_length), own in members.items():
        starts_G1, ends_G1, key_starts_G1, key_ends_G1 = torch.tensor(own).T.unsqueeze(2)
        query_GL, key_GM = starts_G1 + torch.arange(length), key_starts_G1 + torch.arange(key_length)
        real_GL = query_GL < ends_G1
        result_Q[query_GL[real_GL]] = before + real_GL.flatten().nonzero().squeeze(1)
        before += query_GL.numel()
        padding_GM = key_GM >= key_ends_G1
        group = Group(query_GL.minimum(ends_G1 - 1), key_GM.minimum(key_ends_G1 - 1), padding_GM)
        groups.append(Group(*[each.to(device) for each in group]))
    return Sequences(queries.bounds_N1, tuple(groups), result_Q.to(device))


def _rounded(length: int) -> int:
    return -(-length // STEP) * STEP
