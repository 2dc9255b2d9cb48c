"""Plans which rows make which step, as a pure function of (seed, step); a rank's share also depends on rank and world
size.

Draws are numbered from 0; step s takes the draws [s·B, (s + 1)·B). Each pair of dataset and language is a group of
rows. An epoch has as many draws as there are rows. In every epoch each group has a fixed quota of draws, which the mix
decides, and takes the next rows of its own endless stream: all its rows in a random order, then all in another order.
In the natural mix the quota is the group's size, so an epoch draws every row once. A random permutation of each epoch
interleaves the groups. An example with groups X (6 rows, quota 5) and Y (4 rows, quota 5) and B = 3 examples a step:

    epoch               0                   │ 1
    draw                0 1 2 3 4 5 6 7 8 9 │ 10 …
    step                0     1     2     3 │ 3 …
    place, permuted     7 0 4 9 2 5 1 8 3 6 │ 3 …          places 0 to 4 are X's quota, 5 to 9 are Y's
    group               Y X X Y X Y X Y X Y │ X
    number in stream    2 0 4 4 2 0 1 3 3 1 │ 8 = 5 + 3    the draws of earlier epochs come first
    pass                0 0 0 1 0 0 0 0 0 0 │ 1            number // size: a new order of X begins at 6, of Y at 4

Permutations are computed for the places that are needed (`stateless_random.permuted`) and not stored, so step 1,000,000
costs what step 0 costs. The plan stores 8 bytes for each row, its index and its length, in addition to the 8 of
`ShardRows`: 1.6 GB for 100 million rows.
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
from training.data.datasets import ShardRows
from training.runtime import stateless_random

_EPOCH, _GROUP, _WINDOW = 1, 2, 5  # numbers of these streams of random numbers


@dataclass(frozen=True)
class Mix:
    """How often rows of each dataset and language are drawn: in proportion to weight · rows ** exponent."""

    exponent: float = 1.0  # 1: natural (mPMR, decision 22); 0: all languages alike; XLM-R was pre-trained with 0.3
    weights: tuple[float, ...] = ()  # one for each dataset; empty: all 1


class Drawn(NamedTuple):
    """Drawn rows. The plan never draws the same (row, pass) twice."""

    rows: np.ndarray  # int64
    passes: np.ndarray  # int64: how often the row was drawn before


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
        """`groups[row]` is the row's group, `weights[group]` the group's weight, `lengths[row]` an estimate of its
        tokens.

        If `bucket_batches` is above 1, the draws of that many steps are sorted by length, cut into batches, and the
        batches shuffled, which saves padding. Packed input has no padding; with 1 all steps have similar numbers of
        tokens.
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
        """Returns the number of epochs before `step`."""
        return step * self.batch_size / self.rows

    def batch(self, step: int) -> Drawn:
        """Returns the `batch_size` examples of one step, over all ranks."""
        first, end, parts = step * self.batch_size, (step + 1) * self.batch_size, []
        while first < end:
            start, stop = self._window_around(first)
            drawn = self._shuffled(start, stop)
            upto = min(end, stop)
            parts.append(Drawn(*(values[first - start : upto - start] for values in drawn)))
            first = upto
        return Drawn(*map(np.concatenate, zip(*parts, strict=True)))

    def share(self, step: int, rank: int, world_size: int) -> Drawn:
        """Returns one rank's part of the batch. All ranks have about the same number of tokens."""
        drawn = self.batch(step)
        mine = balanced(self._lengths[drawn.rows], world_size)[rank]
        return Drawn(drawn.rows[mine], drawn.passes[mine])

    def micro_batches(self, step: int, world_size: int, most_tokens: int) -> int:
        """Returns the number of parts that each rank cuts its share into, so that none has over about `most_tokens`.

        It is the same for all ranks, because they exchange gradients and representations together. A longer example is
        a part of its own.
        """
        lengths = self._lengths[self.batch(step).rows]
        shares = [lengths[part] for part in balanced(lengths, world_size)]
        return max(len(_filled(share, max(most_tokens, float(lengths.max())))) for share in shares)

    def _window_around(self, draw: int) -> tuple[int, int]:
        """Returns the draws [start, stop) that are bucketed with `draw`: `bucket_batches` steps, within one epoch.

        epoch       0             │ 1             bucket_batches 2, 13 draws an epoch, 4 a step
        step        0   1   2   3 │ 3 4   5
        window      [0,     8) [8, 13) [13,  20)
        """
        first = draw // self.rows * self.rows  # of the epoch
        steps = self.bucket_batches
        window = (draw // self.batch_size - first // self.batch_size) // steps
        start = (first // self.batch_size + window * steps) * self.batch_size
        return max(first, start), min(first + self.rows, start + steps * self.batch_size)

    def _shuffled(self, start: int, stop: int) -> Drawn:
        """Returns the draws of a window, in the order in which steps take them."""
        if self.bucket_batches == 1:
            return self._draw(np.arange(start, stop))
        if self._window and self._window[0] == (start, stop):
            return self._window[1]
        drawn = self._draw(np.arange(start, stop))
        ascending = np.argsort(self._lengths[drawn.rows], kind="stable")
        # Each step's part of the window takes a piece of the ascending order; an epoch begins and ends within a step.
        cuts = np.arange(start // self.batch_size + 1, -(-stop // self.batch_size)) * self.batch_size
        sizes = np.diff([start, *cuts, stop])
        pieces = stateless_random.permuted(
            np.arange(len(sizes)), len(sizes), stateless_random.key(self.seed, _WINDOW, start)
        )
        turns = np.empty(len(sizes), np.int64)  # for each piece, in ascending order, the step that takes it
        turns[pieces] = np.arange(len(sizes))
        ends = np.cumsum(sizes[turns])
        taken = np.concatenate([ascending[ends[piece] - sizes[turns[piece]] : ends[piece]] for piece in pieces])
        self._window = (start, stop), Drawn(drawn.rows[taken], drawn.passes[taken])
        return self._window[1]

    def _draw(self, numbers: np.ndarray) -> Drawn:
        """Returns the rows of these draws, which may be of several epochs; the module's docstring has an example."""
        epochs, places = np.divmod(numbers, self.rows)
        for epoch in np.unique(epochs).tolist():
            these = epochs == epoch
            places[these] = stateless_random.permuted(
                places[these], self.rows, stateless_random.key(self.seed, _EPOCH, epoch)
            )
        groups = np.searchsorted(self._quota_ends, places, side="right")
        # The number of each draw in its group's stream: the quotas of earlier epochs, and earlier draws of this one.
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
    """Makes the plan for dataset folders. Raises `ConfigError` if the batch or the mix does not fit them.

    `bytes_per_token` (`measure_bytes_per_token`) estimates tokens from bytes, for each language; the default is 4.
    `longest` is the most tokens of an example.
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
    """Measures the UTF-8 bytes per token of each language in `sample` of its rows: 4.2 in English, 12 in Thai."""
    rates = {}
    for code, lang in enumerate(rows.langs):
        own = np.flatnonzero(rows.lang_of_row == code)
        chosen = own[stateless_random.permuted(np.arange(min(sample, len(own))), len(own), stateless_random.key(code))]
        texts = [row[name] for row in map(rows.__getitem__, chosen.tolist()) for name in rows.texts]
        # A placeholder becomes one token, but the tokenizer would spell it out.
        tokens = sum(count_tokens(text.replace(QUE_TOKEN, "?").replace(MASK_TOKEN, "?")) for text in texts)
        rates[lang] = sum(len(text.encode()) for text in texts) / max(1, tokens)
    return rates


def balanced(lengths: np.ndarray, parts: int) -> list[np.ndarray]:
    """Divides the indices of `lengths` into `parts` of about the same sum, each ascending.

    The longest example goes first, and each goes to the part with the least sum so far (LPT scheduling):

        lengths [7, 2, 5, 3], 2 parts:  7 → part 0,  5 → part 1,  3 → part 1 (8),  2 → part 0 (9):  [0, 1], [2, 3]
    """
    members: list[list[int]] = [[] for _ in range(parts)]
    sums = [(0.0, part) for part in range(parts)]
    for index in np.argsort(-lengths, kind="stable").tolist():
        total, part = sums[0]
        members[part].append(index)
        # Every example counts at least 1, so that each part has one example before any has two.
        heapq.heapreplace(sums, (total + max(1.0, float(lengths[index])), part))
    return [np.array(sorted(indices), np.int64) for indices in members]


def consecutive(lengths: np.ndarray, parts: int) -> list[np.ndarray]:
    """Cuts the indices of `lengths` into `parts` of neighbours, so that the largest sum is about the least possible.

    lengths [7, 2, 5, 3], 2 parts:  [0, 1], [2, 3]
    """
    low, high = float(max(lengths.max(initial=0.0), lengths.sum() / parts)), float(lengths.sum())
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(lengths, middle)) <= parts else (middle, high)
    found = _filled(lengths, high)
    while len(found) < parts and (longest := max(found, key=len)).size > 1:
        place = next(place for place, part in enumerate(found) if part is longest)
        found[place : place + 1] = np.array_split(longest, 2)
    return [*found, *[np.empty(0, np.int64)] * (parts - len(found))]


def _filled(lengths: np.ndarray, room: float) -> list[np.ndarray]:
    """Fills parts of neighbours one after another, each with up to `room`, or with one longer example."""
    parts: list[list[int]] = [[]]
    total = 0.0
    for index, length in enumerate(lengths.tolist()):
        if parts[-1] and total + length > room:
            parts.append([])
            total = 0.0
        parts[-1].append(index)
        total += length
    return [np.array(part, np.int64) for part in parts]


def _quotas(weights: np.ndarray, total: int) -> np.ndarray:
    """Returns whole numbers in proportion to `weights` that add up to `total`, at least 1 for each weight above 0."""
    exact = weights * (total / weights.sum())
    quotas = np.maximum(np.floor(exact), weights > 0).astype(np.int64)
    while (missing := total - quotas.sum()) > 0:
        nearest = np.argsort(quotas - exact, kind="stable")[: min(missing, (weights > 0).sum())]
        quotas[nearest] += 1
    for _ in range(-missing):
        quotas[np.argmax(quotas)] -= 1
    return quotas
