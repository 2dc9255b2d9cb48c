"""Counts the model FLOPs of a step, from which the log computes model FLOPs utilisation (MFU).

FLOPs are the multiplications and additions of matrix products, forward once and backward twice. D is the hidden size, F
the inner size, V the vocabulary. For a sequence of n tokens each layer of the encoder takes 2·n·(4·D² + 2·D·F) for its
projections and 4·n²·D for attention; a token that MLM predicts takes 2·(D² + D·V). DeBERTa's layers also compare each
token with R relative positions in each of P products: 2·P·n·R·D, and the projections of the positions, 2·P·R·D² for
each pass. Embeddings, norms, the small span heads and recomputation (activation checkpointing, GradCache) are not
counted: recomputation lowers the MFU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from training.data.batches import Packed

FORWARD_AND_BACKWARD = 3  # the gradient of a product is two products
# Dense bf16 FLOPs per second, from the makers' data sheets. The first name that occurs in the device's name applies.
PEAK_FLOPS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10G": 70e12,
    "A10": 125e12,
    "RTX 4090": 165e12,
}


class EncoderSize(NamedTuple):
    layers: int
    hidden: int  # D
    inner: int  # F
    vocabulary: int  # V
    positions: int = 0  # R
    position_products: int = 0  # P


def model_flops(size: EncoderSize, passes: Iterable[Packed], predicted_tokens: int = 0) -> float:
    """Returns the FLOPs of a training step that runs the encoder over `passes` on one device."""
    total = 2.0 * predicted_tokens * size.hidden * (size.hidden + size.vocabulary)
    for packed in passes:
        lengths_N = packed.bounds_N1.diff().double()
        projections = 2 * packed.tokens * (4 * size.hidden**2 + 2 * size.hidden * size.inner)
        positions = 2 * size.position_products * size.positions * size.hidden * (packed.tokens + size.hidden)
        total += size.layers * (projections + positions + 4 * size.hidden * float(lengths_N.square().sum()))
    return FORWARD_AND_BACKWARD * total


def peak_flops(device_name: str) -> float | None:
    """Returns a device's peak in FLOPs per second, or None for a CPU or an unlisted GPU, which get no MFU."""
    return next((peak for name, peak in PEAK_FLOPS.items() if name in device_name), None)
