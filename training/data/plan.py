"""Which rows make which step: a pure function of (seed, step), and of the rank and the world size for a rank's share.

Draws are numbered through from 0; step s has the draws [s·B, (s + 1)·B). Rows fall into groups, one for each dataset
and language. An epoch is as many draws as there are rows; in it each group has a fixed quota, which the mix decides,
and goes on in its own endless stream: all its rows in a random order, then all in another one. In the natural mix a
quota is the group's size, so an epoch holds every row once. Groups are interleaved at random over the whole epoch.

Permutations are computed where they are looked at (`stateless_random.permuted`) and never stored, so step 1,000,000
costs what step 0 costs. What is stored is 8 bytes a row, its place and its length, besides the 8 of `ShardRows`: 1.6 GB
for 100 million rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schemas.anchor_mrc import MASK_TOKEN
from schemas.clism import QUE_TOKEN
from schemas.errors import ConfigError
from training.data import stateless_random
from training.data.datasets import ShardRows

_EPOCH, _GROUP, _WINDOW = 1, 2, 5  # streams of random numbers of their own


@dataclass(frozen=True)
class Mix:
    """How often datasets and languages are drawn: each pair of them in proportion to weight · rows ** exponent."""

    exponent: float = 1.0  # 1: natural (mPMR, decision 22); 0: all languages alike; XLM-R pre-trained with 0.3
    weights: tuple[float, ...] = ()  # of each dataset; all 1 if there are none


class Drawn(NamedTuple):
    """Rows, and how often the plan has drawn each before: (row, pass) never comes twice."""

    rows: np.ndarray  # int64
    passes: np.ndarray  # int64


class Plan:
    """The global batches of a run. `batch(step)` does not depend on the number of ranks; `share` divides it."""

    def __init__(
        self,
        groups: np.ndarray,
        weights: Sequence[float],
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        bucket_batches: int = 1,
    ) -> None:
        """`groups[row]` is the row's group, `weights[group]` how often it is drawn, `lengths[row]` its tokens, about.

        With `bucket_batches` of more than 1, the draws of so many steps are sorted by length, cut into batches, and
        these shuffled: for padded input. Packed input has no padding to save, and with 1 all steps have about the same
        number of tokens.
        """
        self.rows = len(groups)
        self.batch_size, self.seed, self.bucket_batches = batch_size, seed, max(1, bucket_batches)
        self._lengths = lengths
        sizes = np.bincount(groups, minlength=len(weights))
        self._sizes, self._starts = sizes, np.cumsum(sizes) - sizes
        self.quotas = _quotas(np.where(sizes > 0, weights, 0.0), self.rows)
        self._quota_ends = np.cumsum(self.quotas)
        order = np.argsort(groups, kind="stable")
        self._order = order.astype(np.int32 if self.rows < 2**31 else np.int64)
        self._window: tuple[tuple[int, int], Drawn] | None = None

    def epoch(self, step: int) -> float:
        """Epochs that have passed before `step`."""
        return step * self.batch_size / self.rows

    def batch(self, step: int) -> Drawn:
        """The `batch_size` examples of one step, over all ranks."""
        at, end, parts = step * self.batch_size, (step + 1) * self.batch_size, []
        while at < end:
            start, stop = self._window_around(at)
            drawn = self._shuffled(start, stop)
            upto = min(end, stop)
            parts.append(Drawn(*(values[at - start : upto - start] for values in drawn)))
            at = upto
        return Drawn(*map(np.concatenate, zip(*parts, strict=True)))

    def share(self, step: int, rank: int, world_size: int) -> Drawn:
        """One rank's part of the batch, divided so that all ranks have about the same number of tokens."""
        drawn = self.batch(step)
        mine = balanced(self._lengths[drawn.rows], world_size)[rank]
        return Drawn(drawn.rows[mine], drawn.passes[mine])

    def micro_batches(self, step: int, world_size: int, most_tokens: int) -> int:
        """Into how many parts each rank cuts its share, so that none has more than `most_tokens` tokens, about.

        The same for all ranks, because they exchange gradients and representations together. An example that is longer
        than that is a part of its own.
        """
        lengths = self._lengths[self.batch(step).rows]
        room = max(most_tokens, float(lengths.max()))
        count = max(1, int(np.ceil(lengths.sum() / (world_size * room))))
        while any(lengths[part].sum() > room for part in balanced(lengths, world_size * count)):
            count += 1
        return count

    def _window_around(self, at: int) -> tuple[int, int]:
        """The draws [start, stop) that are bucketed with draw `at`: so many steps, but of one epoch only."""
        first = at // self.rows * self.rows  # of the epoch
        steps = self.bucket_batches
        window = (at // self.batch_size - first // self.batch_size) // steps
        start = (first // self.batch_size + window * steps) * self.batch_size
        return max(first, start), min(first + self.rows, start + steps * self.batch_size)

    def _shuffled(self, start: int, stop: int) -> Drawn:
        """The draws of a window, in the order in which steps take them."""
        if self.bucket_batches == 1:
            return self._draw(np.arange(start, stop))
        if self._window and self._window[0] == (start, stop):
            return self._window[1]
        drawn = self._draw(np.arange(start, stop))
        ascending = np.argsort(self._lengths[drawn.rows], kind="stable")
        # The steps' parts of the window (an epoch begins and ends within a step), each a piece of the ascending order.
        cuts = np.arange(start // self.batch_size + 1, -(-stop // self.batch_size)) * self.batch_size
        sizes = np.diff([start, *cuts, stop])
        pieces = stateless_random.permuted(
            np.arange(len(sizes)), len(sizes), stateless_random.key(self.seed, _WINDOW, start)
        )
        turns = np.empty(len(sizes), np.int64)  # of each piece, ascending: which step has it
        turns[pieces] = np.arange(len(sizes))
        ends = np.cumsum(sizes[turns])
        taken = np.concatenate([ascending[ends[each] - sizes[turns[each]] : ends[each]] for each in pieces])
        self._window = (start, stop), Drawn(drawn.rows[taken], drawn.passes[taken])
        return self._window[1]

    def _draw(self, numbers: np.ndarray) -> Drawn:
        epochs, places = np.divmod(numbers, self.rows)
        for epoch in np.unique(epochs).tolist():
            these = epochs == epoch
            places[these] = stateless_random.permuted(
                places[these], self.rows, stateless_random.key(self.seed, _EPOCH, epoch)
            )
        groups = np.searchsorted(self._quota_ends, places, side="right")
        # What precedes each in its group's stream: the quotas of earlier epochs, and the draws of this one.
        before = epochs * self.quotas[groups] + places - (self._quota_ends - self.quotas)[groups]
        passes, within = np.divmod(before, self._sizes[groups])
        for group, one_pass in sorted(set(zip(groups.tolist(), passes.tolist(), strict=True))):
            these = (groups == group) & (passes == one_pass)
            key = stateless_random.key(self.seed, _GROUP, group, one_pass)
            within[these] = stateless_random.permuted(within[these], int(self._sizes[group]), key)
        return Drawn(self._order[self._starts[groups] + within].astype(np.int64), passes)


def plan_for(
    rows: ShardRows,
    batch_size: int,
    seed: int,
    mix: Mix = Mix(),
    bucket_batches: int = 1,
    bytes_per_token: Mapping[str, float] | None = None,
    longest: int | None = None,
) -> Plan:
    """The plan for dataset folders. Raises `ConfigError` if the batch or the mix does not fit them.

    `bytes_per_token` of each language turns sizes into numbers of tokens (`measure_bytes_per_token`); without it all
    languages count 4. `longest` is where examples are truncated.
    """
    weights = mix.weights or (1.0,) * len(rows.folders)
    if batch_size < 1:
        raise ConfigError(f"expected a batch of 1 or more examples, found {batch_size}")
    if len(weights) != len(rows.folders):
        raise ConfigError(
            f"expected a weight for each of {len(rows.folders)} datasets, found {len(weights)}: {weights}"
        )
    if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise ConfigError(f"expected weights of 0 or more, not all of them 0; found {weights}")
    if not 0 <= mix.exponent <= 1:
        raise ConfigError(f"expected a mix exponent from 0 (all languages alike) to 1 (natural), found {mix.exponent}")
    groups = rows.dataset_of_row * len(rows.langs) + rows.lang_of_row
    sizes = np.bincount(groups, minlength=len(weights) * len(rows.langs))
    lengths = rows.tokens(bytes_per_token or dict.fromkeys(rows.langs, 4.0), longest)
    group_weights = np.repeat(weights, len(rows.langs)) * sizes**mix.exponent
    return Plan(groups, group_weights.tolist(), lengths, batch_size, seed, bucket_batches)


def measure_bytes_per_token(rows: ShardRows, count_tokens: Callable[[str], int], sample: int = 200) -> dict[str, float]:
    """UTF-8 bytes per token of each language, from `sample` of its rows: 4.2 in English, 12 in Thai, say."""
    found = {}
    for code, lang in enumerate(rows.langs):
        places = np.flatnonzero(rows.lang_of_row == code)
        chosen = places[
            stateless_random.permuted(np.arange(min(sample, len(places))), len(places), stateless_random.key(code))
        ]
        texts = [row[name] for row in map(rows.__getitem__, chosen.tolist()) for name in rows.texts]
        # A placeholder is one token, whereas the tokenizer would spell it out.
        tokens = sum(count_tokens(text.replace(QUE_TOKEN, "?").replace(MASK_TOKEN, "?")) for text in texts)
        found[lang] = sum(len(text.encode()) for text in texts) / max(1, tokens)
    return found


def balanced(lengths: np.ndarray, parts: int) -> list[np.ndarray]:
    """Places of `lengths` in `parts` of about the same sum, each ascending: the longest first, to the emptiest part."""
    members: list[list[int]] = [[] for _ in range(parts)]
    sums = [(0.0, part) for part in range(parts)]
    for place in np.argsort(-lengths, kind="stable").tolist():
        total, part = sums[0]
        members[part].append(place)
        # No example is without cost: every part has one before any has two.
        heapq.heapreplace(sums, (total + max(1.0, float(lengths[place])), part))
    return [np.array(sorted(each), np.int64) for each in members]


def _quotas(weights: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `weights` that add up to `total`, at least 1 for every weight above 0."""
    exact = weights * (total / weights.sum())
    quotas = np.maximum(np.floor(exact), weights > 0).astype(np.int64)
    while (missing := total - quotas.sum()) > 0:
        nearest = np.argsort(quotas - exact, kind="stable")[: min(missing, (weights > 0).sum())]
        quotas[nearest] += 1
    for _ in range(-missing):
        quotas[np.argmax(quotas)] -= 1
    return quotas
