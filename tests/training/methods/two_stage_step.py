"""One step of two-stage training, alone or on each of two ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from tests.training.methods.fitting import reader_of
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.engine.gradients import GradientBuckets
from training.engine.loop import weighted
from training.methods.two_stage import TwoStageQuestions
from training.models.folder import Pretrained, load_model
from training.objectives import normalised, step_counts
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import TwoStage
from training.runtime import distributed

# Rank 0 has more than rank 1, which has an empty micro-batch too.
SHARES = [[slice(0, 3), slice(3, 4)], [slice(4, 6), slice(6, 6)]]
READING = InferenceSettings(TwoStage(contrast_candidates=8), "qa", (), 64, 24, 8, 12)


def question(query: str, context: str, answer: str, lang: str = "en") -> MrcExample:
    start = context.index(answer)
    return MrcExample(query, lang, query, context, (CharSpan(start, start + len(answer)),), (answer,), True, "x", None)


ANNA, FINAL = "Anna Smith founded the school in 1999.", "Im Finale gewann Berlin gegen Hanoi."
RECORDS = [
    question("Who founded it?", ANNA, "Anna Smith"),
    question("When was it founded?", ANNA, "1999"),
    question("Wer gewann?", FINAL, "Berlin", "de"),
    question("谁住在河内?", "安娜住在河内。", "安娜", "zh"),
    question("Wer verlor?", FINAL, "Hanoi", "de"),
    replace(question("When?", ANNA, "1999"), answers=(), answer_texts=(), answerable=False),
]
BASELINE = {
    RECORDS[0]: [CharSpan(0, 4), CharSpan(0, 10), CharSpan(19, 29)],
    RECORDS[1]: [CharSpan(30, 37), CharSpan(0, 10)],
    RECORDS[2]: [CharSpan(17, 23), CharSpan(30, 35)],
    RECORDS[4]: [CharSpan(17, 23)],
}


def two_stage(start: Pretrained, **method: object) -> TwoStageQuestions:
    settings = replace(READING, method=replace(READING.method, **method))
    return TwoStageQuestions(settings, TextEncoder(start.tokenizer), candidates=BASELINE)


def step(folder: str | Path, shares: Sequence[slice]) -> tuple[Tensor, dict[str, Tensor]]:
    """What the loop does with these micro-batches: this rank's part of the loss, and the averaged gradients."""
    start = load_model(folder)
    formulation = two_stage(start)
    model = reader_of(formulation, start)
    features: list[MrcWindow] = formulation.features(RECORDS)
    batches = [formulation.batch(features[share]) for share in shares]
    counts = step_counts([formulation.counts(batch) for batch in batches])
    value, buckets = torch.zeros(()), GradientBuckets(model)
    buckets.begin()
    known_of_each = formulation.precompute(model, batches, lambda at: nullcontext())
    for batch, known in zip(batches, known_of_each, strict=True):
        part = normalised(weighted(formulation.losses(model, batch, known), formulation.weights), counts)
        part.backward()
        value += part.detach()
    buckets.finish()
    # What no loss of this one needs is None in one process.
    return value, {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def on_rank(rank: int, port: int, folder: Path, output: Path) -> None:
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in values.items()})
    torch.set_num_threads(1)
    with distributed.process_group():
        value, gradients = step(folder, SHARES[rank])
        torch.save((distributed.all_reduce_sum(value) / 2, gradients), output / f"{rank}.pt")
