"""Compares the fine-tuning methods' cost: CPU seconds of a step and peak memory, relative to the plain method.

    python -m benchmarks.bench_training_methods              # some ten minutes
    python -m benchmarks.bench_training_methods --rounds 1 --steps 4

Every method trains on the same 64 questions, or pairs, of 120 words with a translation of the same length, 8 records
in a step, with an encoder of 6 layers of 256 and random weights. Each run is a process of its own on one thread;
methods take turns, and the median over rounds counts. A step of a method that reads translations has twice the tokens
of a plain one's, whose figures are for the records alone.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.learning.generate import squad_file

RECORDS, WORDS, BATCH = 64, 120, 8
METHODS = {
    "plain": "Plain()",
    "translate-train": "Filter(24, 0)",
    "concatenation": "Filter(0, 24)",
    "FILTER": "Filter(1, 20)",
    "X-Mixup": "XMixup()",
    "X-Mixup, no mixup": "XMixup(mixup=False)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--child", nargs=3, metavar=("METHOD", "TASK", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(*options.child, steps=options.steps)))
        return
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_files(folder)
        costs: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(options.rounds):
            for task in ("questions", "pairs"):
                for name in METHODS:
                    command = [sys.executable, "-m", "benchmarks.bench_training_methods", "--steps", str(options.steps)]
                    done = subprocess.run([*command, "--child", name, task, work], capture_output=True, text=True)
                    if done.returncode:
                        sys.exit(done.stderr)
                    costs.setdefault((task, name), []).append(json.loads(done.stdout))
    print("| method | questions: time | memory | pairs: time | memory |\n| --- | --- | --- | --- | --- |")
    for name in METHODS:
        cells = [cell for task in ("questions", "pairs") for cell in cells_of(costs[task, name], costs[task, "plain"])]
        print(f"| {name} | {' | '.join(cells)} |")


def cells_of(costs: list[dict[str, float]], plain: list[dict[str, float]]) -> list[str]:
    ratios = []
    for figure in ("step_s", "peak_mib"):
        mine, theirs = (statistics.median(cost[figure] for cost in of) for of in (costs, plain))
        ratios.append(f"{mine / theirs:.2f}")
    return ratios


def measured(method: str, task: str, folder: str, steps: int) -> dict[str, float]:
    """CPU seconds of a step, without the first two, and the process's peak memory."""
    import torch

    from training.engine import loop
    from training.finetune import finetune
    from training.recipes.finetuning import PLAIN_QA, FinetuneConfig
    from training.recipes.methods import Filter, Plain, XMixup

    torch.set_num_threads(1)
    seconds: list[float] = []

    @contextmanager
    def timed_steps() -> Iterator[None]:
        take_step = loop.take_step

        def timed(*arguments: Any, **more: Any) -> Any:
            begun = time.process_time()
            taken = take_step(*arguments, **more)
            seconds.append(time.process_time() - begun)
            return taken

        loop.take_step = timed
        yield
        loop.take_step = take_step

    made = eval(METHODS[method], {"Plain": Plain, "Filter": Filter, "XMixup": XMixup})
    questions = task == "questions"
    recipe = PLAIN_QA.__class__(
        name="cost",
        method=made,
        task="squad" if questions else "paws_x",
        model=str(model_in(Path(folder))),
        max_tokens=256,
        batch_size=BATCH,
        steps=steps,
    )
    files = Path(folder)
    train = files / ("train.json" if questions else "train-en.tsv")
    translations = files / ("train.en-de.json" if questions else "en-de-translated.tsv")
    with tempfile.TemporaryDirectory() as output, timed_steps():
        finetune(
            FinetuneConfig(
                recipe,
                train=(train,),
                train_langs=("en",),
                translations=(translations,) if made.reads_translations else (),
                micro_batch_tokens=100_000,
                output=f"{output}/run",
                device="cpu",
            )
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"step_s": statistics.median(seconds[2:]), "peak_mib": peak}


def model_in(folder: Path) -> Path:
    """The model that every method starts from; the first run writes it."""
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    from training.models.tiny import train_tokenizer

    model = folder / "model"
    if not model.exists():
        tokenizer = train_tokenizer(iter((folder / "texts.txt").read_text("utf-8").splitlines()))
        config = XLMRobertaConfig(
            vocab_size=len(tokenizer),
            hidden_size=256,
            num_hidden_layers=6,
            num_attention_heads=4,
            intermediate_size=1024,
            max_position_embeddings=514,
            type_vocab_size=1,
        )
        torch.manual_seed(1)
        XLMRobertaForMaskedLM(config).save_pretrained(model)
        tokenizer.save_pretrained(model)
    return model


def write_files(folder: Path) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abdegiklmnoprstu", k=6)) for _ in range(500)]
    texts = {lang: [" ".join(draw.choices(words, k=WORDS)) for _ in range(RECORDS)] for lang in ("en", "de")}
    (folder / "texts.txt").write_text("\n".join(text for side in texts.values() for text in side), "utf-8")
    for lang, name in (("en", "train.json"), ("de", "train.en-de.json")):
        rows = []
        for number, text in enumerate(texts[lang]):
            answer = {"text": text.split()[7], "answer_start": len(" ".join(text.split()[:7])) + 1}
            question = {"id": f"q{number}", "question": text.split()[8], "answers": [answer]}
            rows.append({"context": text, "qas": [question]})
        squad_file(folder / name, rows)
    halves = {
        lang: [(" ".join(t.split()[:60]), " ".join(t.split()[60:])) for t in side] for lang, side in texts.items()
    }
    pairs = list(zip(halves["en"], halves["de"], strict=True))
    english = [f"{first}\t{second}\t{number % 2}" for number, ((first, second), _) in enumerate(pairs)]
    both = [f"{a}\t{b}\t{c}\t{d}\t{number % 2}" for number, ((a, b), (c, d)) in enumerate(pairs)]
    for name, lines in (("train-en.tsv", english), ("en-de-translated.tsv", both)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
