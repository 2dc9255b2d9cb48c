"""Random batches, and models small enough to follow, for the tests of objectives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.data.batches import ClismBatch, Packed, WaeBatch, pack
from training.objectives import Loss, normalised, step_counts
from training.objectives.cacr import cached_gradients, cacr_loss, mean_pool, replayed
from training.objectives.clism import clism_loss
from training.objectives.mlm import mlm_loss
from training.objectives.wae import valid_pairs, wae_loss

VOCABULARY = 50


def clism_examples(number: int, seed: int = 0) -> list[dict]:
    """Places within the sequence `<s> source </s></s> target </s>`; questions in the source, answers in the target."""
    rng = random.Random(seed)
    examples = []
    for _ in range(number):
        source, target = rng.randint(3, 6), rng.randint(3, 8)
        starts = [source + 3 + rng.randrange(target) for _ in range(rng.randint(1, 3))]
        answers = [(start, min(start + rng.randrange(3), source + 2 + target)) for start in starts]
        examples.append(
            {
                "ids": [rng.randrange(VOCABULARY) for _ in range(source + target + 4)],
                "source_ids": [rng.randrange(VOCABULARY) for _ in range(source + 4)],
                "que": rng.sample(range(1, source + 1), len(answers)),
                "answers": answers,
                "source": (1, source + 1),
                "target": (source + 3, source + 3 + target),
                "masked": rng.sample(range(1, source + 1), 2),
            }
        )
    return examples


def clism_batch(examples: Sequence[dict]) -> ClismBatch:
    inputs, sources = (pack([each[key] for each in examples]) for key in ("ids", "source_ids"))
    placed = list(zip(examples, inputs.bounds_N1[:-1].tolist(), strict=True))

    def shifted(key: str, width: int) -> Tensor:
        values = [(torch.tensor(each[key]) + first).reshape(-1, width) for each, first in placed]
        return torch.cat([torch.empty(0, width, dtype=torch.int64), *values])

    answers, masked = shifted("answers", 2), shifted("masked", 1)[:, 0]
    return ClismBatch(
        inputs=inputs,
        sources=sources,
        que_Q=shifted("que", 1)[:, 0],
        sequence_Q=numbers(examples, "que"),
        answer_start_Q=answers[:, 0],
        answer_end_Q=answers[:, 1],
        source_N2=shifted("source", 2),
        target_N2=shifted("target", 2),
        source_only_N2=torch.stack([sources.bounds_N1[:-1] + 1, sources.bounds_N1[1:] - 1], dim=1).long(),
        masked_M=masked,
        labels_M=(inputs.ids_T[masked] + 7) % VOCABULARY,
        example_ids=tuple(map(str, range(len(examples)))),
    )


def wae_examples(number: int, seed: int = 0) -> list[dict]:
    """Places within the sequence `<s> query </s></s> context </s>`. Every third is without answer."""
    rng = random.Random(seed)
    examples = []
    for index in range(number):
        query, context = rng.randint(2, 4), rng.randint(3, 9)
        spans = [(i, j) for i in range(context) for j in range(i, context)]
        answers = rng.sample(spans, rng.randint(1, 3)) if index % 3 < 2 else []
        first = query + 3
        examples.append(
            {
                "ids": [rng.randrange(VOCABULARY) for _ in range(query + context + 4)],
                "context": (first, first + context),
                "answers": [(first + i, first + j) for i, j in answers],
            }
        )
    return examples


def wae_batch(examples: Sequence[dict]) -> WaeBatch:
    inputs = pack([each["ids"] for each in examples])
    placed = list(zip(examples, inputs.bounds_N1[:-1].tolist(), strict=True))
    answers = torch.tensor([[first + i, first + j] for each, first in placed for i, j in each["answers"]])
    answers = answers.reshape(-1, 2).long()
    contexts = torch.tensor([[first + place for place in each["context"]] for each, first in placed])
    return WaeBatch(
        inputs=inputs,
        context_N2=contexts.reshape(-1, 2).long(),
        longest_context=max((end - start for start, end in contexts.tolist()), default=0),
        answer_start_A=answers[:, 0],
        answer_end_A=answers[:, 1],
        sequence_A=numbers(examples, "answers"),
        answerable_N=torch.tensor([bool(each["answers"]) for each in examples], dtype=torch.bool),
        example_ids=tuple(map(str, range(len(examples)))),
    )


def numbers(examples: Sequence[dict], key: str) -> Tensor:
    return torch.tensor([n for n, each in enumerate(examples) for _ in each[key]], dtype=torch.int64)


class Encoder(nn.Module):
    """Tokens see their own place, their own id, and the mean of their sequence."""

    def __init__(self, size: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.ids = nn.Embedding(VOCABULARY, size)
        self.positions = nn.Embedding(32, size)
        self.layers = nn.Sequential(
            nn.Linear(2 * size, 4 * size), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * size, size)
        )

    def forward(self, inputs: Packed) -> Tensor:
        embedded_TD = self.ids(inputs.ids_T) + self.positions(inputs.positions_T)
        lengths_N = inputs.bounds_N1.diff().long()
        sequence_T = torch.arange(len(lengths_N)).repeat_interleave(lengths_N)
        sums_ND = embedded_TD.new_zeros(len(lengths_N), embedded_TD.shape[1]).index_add(0, sequence_T, embedded_TD)
        mean_TD = (sums_ND / lengths_N.unsqueeze(1))[sequence_T]
        return self.layers(torch.cat([embedded_TD, mean_TD], dim=1))


class ClismModel(nn.Module):
    """CLISM, CACR's three representations and MLM: all that a step needs, in one forward."""

    def __init__(self, size: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = Encoder(size, dropout)
        self.start, self.end = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.words = nn.Linear(size, VOCABULARY)

    def forward(self, batch: ClismBatch) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        hidden_TD = self.encoder(batch.inputs)
        source = mean_pool(self.encoder(batch.sources), batch.source_only_N2)
        que_QD = hidden_TD[batch.que_Q]
        return (
            self.start(que_QD) @ hidden_TD.T,
            self.end(que_QD) @ hidden_TD.T,
            self.words(hidden_TD[batch.masked_M]),
            (source, mean_pool(hidden_TD, batch.source_N2), mean_pool(hidden_TD, batch.target_N2)),
        )


class WaeModel(nn.Module):
    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.encoder = Encoder(size)
        self.extractor = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, batch: WaeBatch) -> tuple[Tensor, Tensor]:
        hidden_TD = self.encoder(batch.inputs)
        return hidden_TD, self.extractor(hidden_TD)


# What a step may train on: the names of its losses, and whether the contrast is symmetric.
OBJECTIVES = {
    "clism": ({"clism"}, False),
    "mlm": ({"mlm"}, False),
    "cacr": ({"cacr"}, False),
    "cacr symmetric": ({"cacr"}, True),
    "all of CLISM": ({"clism", "mlm", "cacr"}, False),
    "wae": ({"wae"}, False),
}


def model_for(objective: str, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return (WaeModel() if objective == "wae" else ClismModel(dropout=dropout)).double()


def accumulate(objective: str, model: nn.Module, shares: Sequence[Sequence[dict]]) -> Tensor:
    """One step over this rank's micro-batches: gradients into the model, and the loss times the number of ranks."""
    names, symmetric = OBJECTIVES[objective]
    contrast = partial(cacr_loss, temperature=0.5, symmetric=symmetric)
    batches = [(wae_batch if objective == "wae" else clism_batch)(examples) for examples in shares]
    counts = step_counts([counts_of(batch) for batch in batches])
    value = torch.zeros((), dtype=torch.float64)

    if "cacr" in names:
        represent = getattr(model, "module", model)
        with torch.no_grad():
            first = [dropped_alike(number, represent, batch)[3] for number, batch in enumerate(batches)]
        contrastive, gradients = cached_gradients(first, contrast)
        value += normalised({"cacr": contrastive}, counts)

    for number, batch in enumerate(batches):
        more_to_come = isinstance(model, DistributedDataParallel) and number < len(batches) - 1
        with model.no_sync() if more_to_come else nullcontext():
            outputs = dropped_alike(number, model, batch)
            losses = direct_losses(outputs, batch, names - {"cacr"})
            value += normalised(losses, counts).detach()
            if "cacr" in names:
                losses["cacr"] = contrastive._replace(total=replayed(outputs[3], gradients[number]))
            normalised(losses, counts).backward()
    return value


def direct_losses(outputs: tuple, batch: ClismBatch | WaeBatch, names: set[str]) -> dict[str, Loss]:
    if isinstance(batch, WaeBatch):
        return {"wae": wae_loss(*outputs, batch, tile=200)}
    start_QT, end_QT, words_MV, _ = outputs
    losses = {"clism": clism_loss(start_QT, end_QT, batch), "mlm": mlm_loss(words_MV, batch.labels_M)}
    return {name: loss for name, loss in losses.items() if name in names}


def counts_of(batch: ClismBatch | WaeBatch) -> dict[str, int | Tensor]:
    if isinstance(batch, WaeBatch):
        return {"wae": valid_pairs(batch)}
    return {"clism": len(batch.que_Q), "mlm": len(batch.labels_M), "cacr": len(batch.example_ids)}


def dropped_alike(number: int, model: nn.Module, batch: ClismBatch | WaeBatch) -> tuple:
    """The model's outputs, with the dropout of the step's micro-batch of this number."""
    torch.manual_seed(number)
    return model(batch)


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    return {
        name.removeprefix("module."): torch.zeros_like(each) if each.grad is None else each.grad.clone()
        for name, each in model.named_parameters()
    }
