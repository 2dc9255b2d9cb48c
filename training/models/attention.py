"""Attention over packed sequences: a token sees its own sequence and no other.

Shapes: N sequences, T tokens, H attention heads, K width of a head, L tokens of each of G sequences of equal length.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

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
    if _kernel_takes(query_1HTK):
        q_THK, k_THK, v_THK = (x.squeeze(0).transpose(0, 1) for x in (query_1HTK, key_1HTK, value_1HTK))
        out_THK: Any = varlen_attn(q_THK, k_THK, v_THK, bounds_N1, bounds_N1, longest, longest)
        return out_THK.unsqueeze(0), None
    return attention_by_length(query_1HTK, key_1HTK, value_1HTK, bounds_N1).transpose(1, 2), None


def attention_by_length(q_1HTK: Tensor, k_1HTK: Tensor, v_1HTK: Tensor, bounds_N1: Tensor) -> Tensor:
    """Computes packed attention without the kernel: one dense attention for all sequences of a length. Returns
    (1, H, T, K)."""
    starts_of: dict[int, list[int]] = {}
    for start, end in pairwise(bounds_N1.tolist()):
        if start < end:
            starts_of.setdefault(end - start, []).append(start)
    device = q_1HTK.device
    places_T = torch.cat(
        [
            (torch.tensor(starts, device=device).unsqueeze(1) + torch.arange(length, device=device)).flatten()
            for length, starts in starts_of.items()
        ]
    )
    # One selection for all lengths: each would have a gradient of the size of the whole.
    sorted_3HTK = torch.cat((q_1HTK, k_1HTK, v_1HTK)).index_select(2, places_T)
    outs = []
    pieces = torch.split(sorted_3HTK, [length * len(starts) for length, starts in starts_of.items()], dim=2)
    for piece_3HPK, (length, starts) in zip(pieces, starts_of.items(), strict=True):
        # Heads come first here, sequences second: attention looks at the last two dimensions only.
        shape_HGLK = (q_1HTK.shape[1], len(starts), length, q_1HTK.shape[3])
        q_HGLK, k_HGLK, v_HGLK = piece_3HPK.reshape(3, *shape_HGLK)
        outs.append(scaled_dot_product_attention(q_HGLK, k_HGLK, v_HGLK).flatten(1, 2))
    return torch.cat(outs, dim=1).index_select(1, places_T.argsort()).unsqueeze(0)


def _kernel_takes(query_1HTK: Tensor) -> bool:
    """Half precision on a GPU of compute capability 8.0 (A100) or later; a head's width is a multiple of 8."""
    return (
        varlen_attn is not None
        and query_1HTK.is_cuda
        and query_1HTK.dtype in (torch.bfloat16, torch.float16)
        and query_1HTK.shape[-1] % 8 == 0
        and torch.cuda.get_device_properties(query_1HTK.device).major >= 8
    )
