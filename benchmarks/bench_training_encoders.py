"""Times DeBERTa's packed layers beside the model's own padded forward, and beside packed layers of XLM-R.

Two layers of mDeBERTa's size with random weights, forward and backward in training mode, fp32, one thread. The three
take turns; the first round does not count.

    python -m benchmarks.bench_training_encoders [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import DebertaV2Config, DebertaV2Model, XLMRobertaConfig, XLMRobertaModel

from training.data.batches import Packed, pack
from training.models.encoder import Encoder

SIZES: dict[str, Any] = {
    "vocab_size": 1_000,
    "hidden_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "intermediate_size": 3_072,
}
MDEBERTA: dict[str, Any] = {
    "max_position_embeddings": 512,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = {
        "windows of 384 tokens": [384, 384, 384, 350],
        "24 sequences of 10 to 119 tokens": torch.randint(10, 120, (24,)).tolist(),
        "8 sequences of 20 to 383 tokens": torch.randint(20, 384, (8,)).tolist(),
    }
    deberta = Encoder(DebertaV2Model(DebertaV2Config(**SIZES, **MDEBERTA))).train()
    config = XLMRobertaConfig(**SIZES, max_position_embeddings=514)
    xlmr = Encoder(XLMRobertaModel(config, add_pooling_layer=False)).train()
    print("| sequences | packed, s | its own padded forward | ratio | packed XLM-R | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, own in lengths.items():
        inputs = pack([torch.randint(5, 1_000, (length,)).numpy() for length in own])
        packed, padded, other = seconds([deberta, deberta.padded, xlmr], inputs, rounds)
        print(
            f"| {name} | {packed:.2f} | {padded:.2f} | {packed / padded:.2f} | {other:.2f} | {packed / other:.2f} |",
            flush=True,
        )


def seconds(forwards: list[Callable[[Packed], Tensor]], inputs: Packed, rounds: int) -> list[float]:
    """Returns the median seconds of a forward and backward pass of each."""
    found: list[list[float]] = [[] for _ in forwards]
    for _ in range(rounds + 1):
        for forward, times in zip(forwards, found, strict=True):
            start = time.perf_counter()
            forward(inputs).square().mean().backward()  # type: ignore[no-untyped-call]
            times.append(time.perf_counter() - start)
    return [median(times[1:]) for times in found]


if __name__ == "__main__":
    main()
