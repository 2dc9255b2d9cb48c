"""Iterates over batches in the plan's order, from any step. Worker processes make the same batches as this process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from schemas.errors import ConfigError
from training.data.batches import as_arrays, as_tensors
from training.data.collators import Collator, StepCollator
from training.data.plan import Plan, consecutive
from training.runtime.errors import TrainingError


class Rows(Protocol):
    """The rows that the loader reads: `ShardRows`, or any other numbered rows."""

    def __getitem__(self, row: int) -> Any: ...

    def file_of(self, row: int) -> str:
        """Returns the file and the position of a row, for messages."""


class StepBatches(NamedTuple):
    """One rank's batches of one step."""

    step: int
    micro_batches: tuple[Any, ...]  # one is empty if all of its rows were refused
    refused: dict[str, int]  # reason → number of this rank's rows that cannot be used
    notes: dict[str, int]  # reason → number of questions or answers lost or changed within used rows
    seconds_waited: float  # for the loader


class _Share(NamedTuple):
    """A rank's rows of a step, and the number of micro-batches that they make."""

    step: int
    rows: list[int]
    passes: list[int]
    parts: int


class Batches:
    """One rank's batches. `for batches in loader.starting(step)` never ends.

    A step depends on the plan, the rows, the collator and the rank alone, not on the step that iteration began with or
    the number of workers. Torch's global generator is left as it is.
    """

    def __init__(
        self,
        rows: Rows,
        plan: Plan,
        collator: Collator,
        *,
        rank: int = 0,
        world_size: int = 1,
        micro_batches: int = 1,
        most_tokens: int | None = None,
        workers: int = 0,
        prefetch: int = 4,
        pin_memory: bool = False,
    ) -> None:
        """Cuts each rank's share into `micro_batches`, or more if one would have over about `most_tokens` tokens.

        `workers` processes prepare `prefetch` steps each in advance. Raises `ConfigError` if a step has fewer examples
        than all ranks have micro-batches.
        """
        if plan.batch_size < world_size * micro_batches:
            raise ConfigError(
                f"a step of {plan.batch_size} examples cannot be divided over {world_size} ranks and {micro_batches} "
                f"micro-batches each. Expected a batch of at least {world_size * micro_batches}"
            )
        self._rows, self._plan, self._collator = rows, plan, collator
        self._rank, self._world_size = rank, world_size
        self._micro_batches, self._most_tokens = micro_batches, most_tokens
        self._workers, self._prefetch, self._pin_memory = workers, prefetch, pin_memory

    def starting(self, step: int) -> Iterator[StepBatches]:
        """Iterates over the batches from step `step`. Raises `TrainingError`, naming the example, if one fails."""
        loader: DataLoader[Any] = DataLoader(
            _Steps(self._rows, self._collator, as_values=self._workers > 0),
            sampler=_Shares(self, step),
            batch_size=None,  # each share is one item
            num_workers=self._workers,
            prefetch_factor=self._prefetch if self._workers else None,
            generator=torch.Generator(),  # the default is the global one, which decides dropout
        )
        steps = iter(loader)
        while True:
            began = time.perf_counter()
            made: StepBatches = next(steps)
            batches = tuple(as_tensors(batch) for batch in made.micro_batches)
            if self._pin_memory:
                batches = tuple(batch.pin_memory() for batch in batches)
            yield made._replace(micro_batches=batches, seconds_waited=time.perf_counter() - began)

    def _share(self, step: int) -> _Share:
        parts = self._micro_batches
        if self._most_tokens is not None:
            parts = max(parts, self._plan.micro_batches(step, self._world_size, self._most_tokens))
        drawn = self._plan.share(step, self._rank, self._world_size)
        return _Share(step, drawn.rows.tolist(), drawn.passes.tolist(), parts)


class _Shares(Sampler[Any]):
    def __init__(self, batches: Batches, first: int) -> None:
        self._batches, self._first = batches, first

    def __iter__(self) -> Iterator[_Share]:
        return map(self._batches._share, count(self._first))


class _Steps(Dataset[Any]):
    """Makes features of a share's rows, and micro-batches of these, in a worker process."""

    def __init__(self, rows: Rows, collator: Collator, as_values: bool) -> None:
        self._rows, self._collator, self._as_values = rows, collator, as_values

    def __getitem__(self, share: _Share) -> StepBatches:
        examples, keys, refused, notes = [], [], Counter[str](), Counter[str]()
        for row, passes in zip(share.rows, share.passes, strict=True):
            features = self._features(row, share.step)
            if isinstance(features, str):
                refused[features] += 1
            else:
                examples.append(features)
                notes.update(features.notes)
                keys.append((row, passes))
        lengths = np.array([len(example.ids) for example in examples], np.int64)
        made = [self._batch(examples, keys, part.tolist(), share.step) for part in consecutive(lengths, share.parts)]
        batches = tuple(as_arrays(batch) for batch in made) if self._as_values else tuple(made)
        return StepBatches(share.step, batches, dict(refused), dict(notes), 0.0)

    def _features(self, row: int, step: int) -> Any:
        values = self._rows[row]
        try:
            return self._collator.features(values)
        except Exception as error:
            raise TrainingError(
                f"{self._rows.file_of(row)}: example {_id(values)} of step {step} gave no features: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _batch(self, examples: Sequence[Any], keys: Sequence[tuple[int, int]], part: Sequence[int], step: int) -> Any:
        chosen = [examples[place] for place in part]
        collator = self._collator.at_step(step) if isinstance(self._collator, StepCollator) else self._collator
        try:
            return collator.batch(chosen, [keys[place] for place in part])
        except Exception as error:
            ids = ", ".join(example.id for example in chosen)
            raise TrainingError(
                f"step {step}: no batch could be made of the examples {ids}: {type(error).__name__}: {error}"
            ) from error


def _id(row: Any) -> Any:
    return row.get("id") if isinstance(row, dict) else row.id
