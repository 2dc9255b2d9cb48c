"""How long does a checkpoint stop the training? XLM-R base with random weights and Adam's moments, on a CPU.

    python -m benchmarks.bench_training_checkpoints [--folder FOLDER] [--repeat 3]

Writes 3.3 GB for each checkpoint. Prints, for a writer in the foreground and one in the background, the seconds that
`save` blocks the training and the seconds until the checkpoint is complete: the median of all but the first, which
also allocates the copies.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import XLMRobertaConfig, XLMRobertaModel

from training.engine.checkpoint_writer import CheckpointWriter

BASE = {"vocab_size": 250_002, "max_position_embeddings": 514, "type_vocab_size": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    parser.add_argument("--repeat", type=int, default=3, help="checkpoints of each kind, after the first one")
    options = parser.parse_args()
    model = XLMRobertaModel(XLMRobertaConfig(**BASE), add_pooling_layer=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    print(f"{sum(each.numel() for each in model.parameters()) / 1e6:.0f} million weights")
    print("| writer | the first blocks (s) | others block (s) | complete after (s) |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="polyspan-checkpoints-") as temporary:
        folder = options.folder or Path(temporary)
        for in_background in (False, True):
            with CheckpointWriter(folder / "checkpoints", 1, in_background) as writer:
                times = [timed(writer, step, model, optimizer) for step in range(1, options.repeat + 2)]
            blocked, complete = (statistics.median(column) for column in zip(*times[1:], strict=True))
            name = "background" if in_background else "foreground"
            print(f"| {name} | {times[0][0]:.2f} | {blocked:.2f} | {complete:.2f} |", flush=True)


def timed(
    writer: CheckpointWriter, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[float, float]:
    """Returns the seconds until `save` returns, and until the checkpoint is complete."""
    began = time.perf_counter()
    writer.save(step, model, optimizer)
    blocked = time.perf_counter() - began
    writer.wait()
    return blocked, time.perf_counter() - began


if __name__ == "__main__":
    main()
