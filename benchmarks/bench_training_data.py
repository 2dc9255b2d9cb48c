"""From shards to batches: speed of one core, padding by way of batching, and Hugging Face `datasets` beside it.

    python -m benchmarks.bench_training_data DATASET [DATASET …] [--batch-size 64] [--tokenizer FOLDER]

The datasets are folders of one schema, such as `polyspan-data demo` makes; epochs repeat them. Without a tokenizer
one of XLM-R's form is trained on them. Speeds are per CPU second, with the word cache warm. `datasets` is measured if
it is installed; it pads batches and neither finds answers nor masks tokens, so its figure flatters it.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import numpy as np
import torch
from transformers import AddedToken, AutoTokenizer, PreTrainedTokenizerBase

from schemas import manifest
from schemas.clism import QUE_TOKEN
from training.data.collators import ClismCollator, Collator, WaeCollator
from training.data.datasets import ShardRows, open_datasets
from training.data.features import Limits
from training.data.loader import Batches
from training.data.masking import mlm_for
from training.data.plan import Plan, measure_bytes_per_token, plan_for
from training.data.tokens import TextEncoder
from training.methods.pretraining_tasks import CLISM, WAE
from training.models.tiny import MOST_TEXTS, texts, train_tokenizer

RANKS = 8
WINDOW = 100  # batches
PLANNED = 20_000_000  # rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--tokenizer")
    options = parser.parse_args()
    torch.set_num_threads(1)

    task = CLISM if manifest.load(options.datasets[0]).schema == CLISM.schema else WAE
    rows = open_datasets(options.datasets, task.texts)
    tokenizer = (
        AutoTokenizer.from_pretrained(options.tokenizer)
        if options.tokenizer
        else train_tokenizer(itertools.islice(texts(options.datasets, task.vocabulary_texts), MOST_TEXTS))
    )
    tokenizer.add_tokens([AddedToken(QUE_TOKEN, special=True)], special_tokens=True)
    encoder = TextEncoder(tokenizer)
    collator: Collator = (
        ClismCollator(encoder, Limits(), mlm_for(encoder), seed=0) if task is CLISM else WaeCollator(encoder, Limits())
    )
    rates = measure_bytes_per_token(rows, lambda text: len(encoder.encode(text).ids))
    plan = plan_for(rows, options.batch_size, seed=0, bytes_per_token=rates)
    print(f"{rows.schema}, {len(rows):,} rows, {len(rows.langs)} languages, batches of {options.batch_size}\n")
    report_padding(rows, collator, plan)
    report_speed(rows, collator, plan)
    report_plan(options.batch_size)
    if find_spec("datasets"):
        report_hugging_face(options.datasets, rows, tokenizer, options.batch_size)


def report_padding(rows: ShardRows, collator: Collator, plan: Plan) -> None:
    features = [collator.features(rows[row]) for row in range(len(rows))]
    true = np.array([0 if isinstance(each, str) else len(each.ids) for each in features])
    used = true > 0
    off = np.abs(plan._lengths + 4 - true)[used] / true[used]
    print(f"tokens of an example       10% {np.quantile(true[used], 0.1):.0f}, 50% {np.median(true[used]):.0f}, "
          f"90% {np.quantile(true[used], 0.9):.0f}, most {true.max()}")  # fmt: skip
    print(f"error of their estimate    50% {np.median(off):.1%}, 90% {np.quantile(off, 0.9):.1%}")

    # Two rows of one step may be the same where the datasets are small; lengths alone matter here.
    window = min(WINDOW, max(1, len(rows) // plan.batch_size))
    groups = np.zeros(len(rows), np.int16)
    bucketed = Plan(groups, [1.0], plan._lengths, plan.batch_size, plan.seed, window)
    for name, each in (("random", plan), (f"bucketed over {window}", bucketed)):
        batches = [true[each.batch(step).rows] for step in range(max(50, window))]
        used_share = sum(batch.sum() for batch in batches) / sum(batch.max() * len(batch) for batch in batches)
        spread = np.std([batch.sum() for batch in batches]) / np.mean([batch.sum() for batch in batches])
        print(f"{name:27}{used_share:.1%} of a padded batch is text; tokens of a step vary by {spread:.1%}")
    slowest = []
    for step in range(50):
        tokens = [true[plan.share(step, rank, RANKS).rows].sum() for rank in range(RANKS)]
        slowest.append(np.mean(tokens) / np.max(tokens))
    print(f"{'random, packed':27}100% is text; {RANKS} ranks wait for the one with most tokens: "
          f"{np.mean(slowest):.1%} busy\n")  # fmt: skip


def report_speed(rows: ShardRows, collator: Collator, plan: Plan) -> None:
    steps = max(20, 3_000 // plan.batch_size)
    for _ in itertools.islice(Batches(rows, plan, collator).starting(0), 2 * len(rows) // plan.batch_size):
        pass  # warms the word cache
    drawn = [plan.batch(step) for step in range(steps)]
    number = steps * plan.batch_size
    values = [rows[row] for each in drawn for row in each.rows.tolist()]
    features = [collator.features(row) for row in values]
    show("rows", number, lambda: [rows[row] for each in drawn for row in each.rows.tolist()])
    show("features of rows", number, lambda: [collator.features(row) for row in values])
    good = [[each for each in features[at : at + plan.batch_size] if not isinstance(each, str)]
            for at in range(0, number, plan.batch_size)]  # fmt: skip
    show("tensors of features", number, lambda: [collator.batch(each, [(0, 0)] * len(each)) for each in good])
    seconds = show("all, through the loader", number,
                   lambda: list(itertools.islice(Batches(rows, plan, collator).starting(0), steps)))  # fmt: skip
    print(f"{'':27}{steps / seconds:10,.0f} batches per CPU second\n")


def report_plan(batch_size: int) -> None:
    lengths = np.random.default_rng(0).integers(20, 400, PLANNED).astype(np.float32)
    for window in (1, WINDOW):
        plan = Plan(np.zeros(PLANNED, np.int16), [1.0], lengths, batch_size, 0, window)
        name = f"plan, {PLANNED // 10**6} M rows, window {window}"
        show(name, 500 * batch_size, lambda plan=plan: [plan.share(step, 0, RANKS) for step in range(500)])  # type: ignore[misc]


def report_hugging_face(
    folders: Iterable[str], rows: ShardRows, tokenizer: PreTrainedTokenizerBase, batch_size: int
) -> None:
    from datasets import load_dataset

    files = [f"{folder}/{shard.file}" for folder in folders for shard in manifest.load(folder).shards]
    with tempfile.TemporaryDirectory() as cache:
        dataset = load_dataset("arrow", data_files=files, split="train", cache_dir=cache).shuffle(seed=0)
        first, second = rows.texts

        def collate(chosen: list[dict[str, str]]) -> object:
            sides = [[row[name] for row in chosen] for name in (first, second)]
            return tokenizer(*sides, padding=True, truncation=True, max_length=512, return_tensors="pt")

        steps = min(len(dataset) // batch_size, max(20, 3_000 // batch_size))
        loader = torch.utils.data.DataLoader(dataset, batch_size, collate_fn=collate, generator=torch.Generator())
        print()
        show("datasets: rows", steps * batch_size, lambda: [dataset[at] for at in range(steps * batch_size)])
        show("datasets: padded batches", steps * batch_size, lambda: list(itertools.islice(loader, steps)))


def show(name: str, examples: int, work: Callable[[], object]) -> float:
    """Prints the best of three passes and returns its CPU seconds."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    print(f"{name:27}{examples / best:10,.0f} examples per CPU second")
    return best


if __name__ == "__main__":
    main()
