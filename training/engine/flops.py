"""Model FLOPs: how much of a device's arithmetic a run uses (MFU), by one stated formula.

Counted: multiplications and additions of matrix products, forward once and backward twice. D is the hidden size, F the
inner size, V the vocabulary. For a sequence of n tokens each of the encoder's layers has 2·n·(4·D² + 2·D·F) for its
projections and 4·n²·D for attention; a token that MLM predicts has 2·(D² + D·V). Not counted: embeddings, norms, the
small span heads, and whatever is computed again (activation checkpointing, GradCache): memory bought with time lowers
the MFU, as it should.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from training.data.batches import Packed

FORWARD_AND_BACKWARD = 3  # the gradient of a product is two products
# Dense bf16 products per second, of the makers' data sheets; the first name that occurs in the device's counts.
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


def model_flops(size: EncoderSize, passes: Iterable[Packed], predicted_tokens: int = 0) -> float:
    """Of a training step that runs the encoder over `passes`, all of them on one device."""
    total = 2.0 * predicted_tokens * size.hidden * (size.hidden + size.vocabulary)
    for packed in passes:
        lengths_N = packed.bounds_N1.diff().double()
        projections = 2 * packed.tokens * (4 * size.hidden**2 + 2 * size.hidden * size.inner)
        total += size.layers * (projections + 4 * size.hidden * float(lengths_N.square().sum()))
    return FORWARD_AND_BACKWARD * total


def peak_flops(device_name: str) -> float | None:
    """None where nobody has stated it: no MFU is shown there, as on a CPU."""
    return next((peak for name, peak in PEAK_FLOPS.items() if name in device_name), None)
