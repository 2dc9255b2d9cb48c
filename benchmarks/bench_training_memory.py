"""How much memory does fine-tuning take? An encoder of XLM-R base's size with random weights, on a CPU.

    python -m benchmarks.bench_training_memory [--tokens 1024 0] [--batch-size 32]

Fine-tunes plain_qa for two steps of sequences of 384 tokens, each --micro-batch-tokens in a process of its own, and
prints the process's peak of resident memory and the loss of both steps. A step takes minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from transformers import XLMRobertaConfig, XLMRobertaModel

from training.engine.run_setup import CPU_TOKENS
from training.finetune import finetune
from training.models.tiny import train_tokenizer
from training.recipes.finetuning import PLAIN_QA, FinetuneConfig

WORDS = ("Anna", "lives", "in", "Hanoi", "and", "has", "moved", "to", "Lima", "where", "Bao", "works")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", default=[CPU_TOKENS, 0], help="values of --micro-batch-tokens")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(Path(options.run), options.tokens[0], options.batch_size)
        return
    print("| --micro-batch-tokens | peak (GB) | losses |\n|---|---|---|")
    for tokens in options.tokens:
        with tempfile.TemporaryDirectory(prefix="polyspan-memory-") as folder:
            prepare(Path(folder), 2 * options.batch_size)
            command = [sys.executable, "-m", "benchmarks.bench_training_memory", "--run", folder]
            command += ["--tokens", str(tokens), "--batch-size", str(options.batch_size)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            print(f"| {tokens or 'all'} | {done.stdout.strip()} |", flush=True)


def prepare(folder: Path, records: int) -> None:
    """Writes the model and a file of questions whose sequences are full."""
    text = " ".join(WORDS[number * 7 % len(WORDS)] for number in range(290))
    tokenizer = train_tokenizer(iter([text, "Where is she ?"]))
    tokenizer.save_pretrained(folder / "model")
    config = XLMRobertaConfig(vocab_size=250_002, max_position_embeddings=514, type_vocab_size=1)
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder / "model")
    answer = {"text": "Hanoi", "answer_start": text.index("Hanoi")}
    paragraphs = [
        {"context": text, "qas": [{"id": f"q{number}", "question": "Where is she ?", "answers": [answer]}]}
        for number in range(records)
    ]
    data = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / "train.json").write_text(json.dumps(data), "utf-8")


def run(folder: Path, tokens: int, batch_size: int) -> None:
    """Prints the peak of this process and the losses."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    recipe = replace(PLAIN_QA, model=str(folder / "model"), batch_size=batch_size, steps=2)
    train = (folder / "train.json",)
    finetune(
        FinetuneConfig(recipe, train, ("en",), output=str(folder / "run"), device="cpu", micro_batch_tokens=tokens)
    )
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    losses = ", ".join(f"{row['loss']:.4f}" for row in rows)
    print(f"{peak / 1e9:.1f} | {losses}; {rows[0]['tokens']:,.0f} tokens a step")


if __name__ == "__main__":
    main()
