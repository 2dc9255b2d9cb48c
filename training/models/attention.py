"""Attention over packed sequences: a token sees its own sequence and no other.

In cross-attention, the queries of the n-th sequence of one pack see the keys of the n-th sequence of another.

Shapes: N sequences, T tokens, Q tokens that give queries, H attention heads, K width of a head. G sequences have L
tokens each and see M tokens each.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # the kernel is a young part of torch
    varlen_attn = None  # type: ignore[assignment]

PACKED_ATTENTION = "polyspan_packed"


class Bounds(NamedTuple):
    """Where the sequences of a pack begin and end."""

    bounds_N1: Tensor  # int32, as in `Packed`
    longest: int  # tokens


def register_packed_attention() -> None:
    """Makes `PACKED_ATTENTION` a name that `model.set_attn_implementation` knows. Any number of calls are as one."""
    AttentionInterface.register(PACKED_ATTENTION, packed_attention)
    AttentionMaskInterface.register(PACKED_ATTENTION, sdpa_mask)  # only the model's own forward makes masks


def packed_attention(
    module: nn.Module,
    query_1HTK: Tensor,
    key_1HTK: Tensor,
    value_1HTK: Tensor,
    attention_mask: Tensor | None,
    bounds_N1: Tensor | None = None,
    longest: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What a layer calls for its attention, in Hugging Face's form: returns (1, T, H, K) and no probabilities.

    With `bounds_N1` (int32, as in `Packed`) and `longest`, attention stays within each sequence, and two keywords are
    passed over: `dropout`, since the kernel has none, and CPU and GPU shall train alike; and `scaling`, since
    1 / √K is the default here and what every encoder of `FAMILIES` has. Without bounds, that is from the model's own
    forward, this is its usual attention, with masks and dropout.
    """
    if bounds_N1 is None or longest is None:
        return sdpa_attention_forward(module, query_1HTK, key_1HTK, value_1HTK, attention_mask, **kwargs)
    bounds = Bounds(bounds_N1, longest)
    return attention(query_1HTK, key_1HTK, value_1HTK, bounds, bounds), None


def attention(q_1HQK: Tensor, k_1HTK: Tensor, v_1HTK: Tensor, queries: Bounds, keys: Bounds) -> Tensor:
    """Returns (1, Q, H, K): the tokens of each sequence of `queries` see those of the same sequence of `keys`.

    Each sequence of `keys` has at least one token. There is no dropout.
    """
    if _kernel_takes(q_1HQK):
        q_QHK, k_THK, v_THK = (x.squeeze(0).transpose(0, 1) for x in (q_1HQK, k_1HTK, v_1HTK))
        out_QHK: Any = varlen_attn(
            q_QHK, k_THK, v_THK, queries.bounds_N1, keys.bounds_N1, queries.longest, keys.longest
        )
        return out_QHK.unsqueeze(0)
    return attention_by_length(q_1HQK, k_1HTK, v_1HTK, queries.bounds_N1, keys.bounds_N1).transpose(1, 2)


class _Equals(NamedTuple):
    """G sequences of equal lengths, L tokens with queries and M with keys."""

    length: int
    key_length: int
    starts: list[int]
    key_starts: list[int]


# Not compiled: the loop over lengths would be compiled anew for each batch.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def attention_by_length(
    q_1HQK: Tensor, k_1HTK: Tensor, v_1HTK: Tensor, query_bounds_N1: Tensor, key_bounds_N1: Tensor
) -> Tensor:
    """Computes packed attention without the kernel: one dense attention for all sequences of equal lengths. Returns
    (1, H, Q, K)."""
    groups = _by_length(query_bounds_N1, key_bounds_N1)
    device, heads, width = q_1HQK.device, q_1HQK.shape[1], q_1HQK.shape[3]
    places_Q = torch.cat([_places(group.starts, group.length, device) for group in groups])
    places_T = torch.cat([_places(group.key_starts, group.key_length, device) for group in groups])
    # One selection for all lengths: each would have a gradient of the size of the whole.
    queries = torch.split(q_1HQK.index_select(2, places_Q), [len(g.starts) * g.length for g in groups], dim=2)
    sorted_2HTK = torch.cat((k_1HTK, v_1HTK)).index_select(2, places_T)
    keys = torch.split(sorted_2HTK, [len(g.starts) * g.key_length for g in groups], dim=2)
    outs = []
    for group, q_1HPK, kv_2HPK in zip(groups, queries, keys, strict=True):
        # Heads come first here, sequences second: attention looks at the last two dimensions only.
        q_HGLK = q_1HPK.reshape(heads, len(group.starts), group.length, width)
        k_HGMK, v_HGMK = kv_2HPK.reshape(2, heads, len(group.starts), group.key_length, width)
        outs.append(scaled_dot_product_attention(q_HGLK, k_HGMK, v_HGMK).flatten(1, 2))
    return torch.cat(outs, dim=1).index_select(1, places_Q.argsort()).unsqueeze(0)


def _by_length(query_bounds_N1: Tensor, key_bounds_N1: Tensor) -> list[_Equals]:
    groups: dict[tuple[int, int], _Equals] = {}
    sequences = zip(pairwise(query_bounds_N1.tolist()), pairwise(key_bounds_N1.tolist()), strict=True)
    for (start, end), (key_start, key_end) in sequences:
        if start < end:
            lengths = (end - start, key_end - key_start)
            group = groups.setdefault(lengths, _Equals(*lengths, [], []))
            group.starts.append(start)
            group.key_starts.append(key_start)
    return list(groups.values())


def _places(starts: list[int], length: int, device: torch.device) -> Tensor:
    """Returns the tokens of sequences of that length, one sequence after another."""
    return (torch.tensor(starts, device=device).unsqueeze(1) + torch.arange(length, device=device)).flatten()


def _kernel_takes(query_1HTK: Tensor) -> bool:
    """Half precision on a GPU of compute capability 8.0 (A100) or later; a head's width is a multiple of 8."""
    return (
        varlen_attn is not None
        and query_1HTK.is_cuda
        and query_1HTK.dtype in (torch.bfloat16, torch.float16)
        and query_1HTK.shape[-1] % 8 == 0
        and torch.cuda.get_device_properties(query_1HTK.device).major >= 8
    )
