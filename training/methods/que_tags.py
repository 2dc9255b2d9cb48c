"""Finds entities with [QUE] and the pre-trained head, one query per label, to compare with one tag per word (decision
10).

A label has any number of entities in a sentence, so each token has its own probability that one starts or ends there;
in pre-training and for questions, the tokens share one distribution (CLISM, equation 4).

N windows, T tokens of a packed batch, L tokens of its longest window, P positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.mrc import TaggingExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.methods.label_queries import entity_scores, label_windows, without_overlaps, word_edges
from training.models.folder import Pretrained
from training.models.heads import SpanHead
from training.objectives import Loss
from training.objectives.spans import own_rows
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Que
from training.tasks.predictions import Prediction

THRESHOLD = 0.5  # probability above which a token is an edge of an entity


class Edges(NamedTuple):
    """The likely edges of one window's entities: positions in the window, ascending, and log P."""

    start_P: np.ndarray
    start_log_p_P: np.ndarray
    end_P: np.ndarray  # the LAST token's
    end_log_p_P: np.ndarray


@dataclass(frozen=True)
class QueTags(OnePass):
    """Reads each label's query, which ends in [QUE]. The head's scores are the log-odds that an entity starts or ends
    at a token."""

    settings: InferenceSettings
    encoder: TextEncoder

    @property
    def weights(self) -> dict[str, float]:
        return {"span": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        assert isinstance(self.settings.method, Que)
        with seeded(seed):
            head = SpanHead(start.language_model.config.hidden_size, self.settings.method.deep_head)
        return load_pretrained_heads({"span": head}, start)

    def features(self, records: Sequence[TaggingExample]) -> list[MrcWindow]:
        """Returns the windows of `label_windows` with [QUE] after the query."""
        shorter = replace(self.settings, max_tokens=self.settings.max_tokens - 1)
        return [_with_que(window, self.encoder.que_id) for window in label_windows(records, self.encoder, shorter)]

    def batch(self, features: Sequence[MrcWindow]) -> MrcBatch:
        return mrc_batch(features)

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        return {"span": 2 * batch.context_N2.diff().sum()}

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        """Returns the binary cross-entropy over the tokens of contexts, once for starts and once for ends."""
        scores = self._scores(model, batch)
        edges = batch.answer_start_A, batch.answer_end_A
        bounds_N1 = batch.inputs.bounds_N1.long()
        total = torch.zeros((), device=bounds_N1.device)
        for score_NL, edge_A in zip(scores, edges, strict=True):
            labels_NL = torch.zeros_like(score_NL)
            labels_NL[batch.sequence_A, edge_A - bounds_N1[batch.sequence_A]] = 1
            inside_NL = score_NL > -torch.inf
            total = total + F.binary_cross_entropy_with_logits(
                score_NL[inside_NL], labels_NL[inside_NL], reduction="sum"
            )
        return {"span": Loss(total, 2 * batch.context_N2.diff().sum(), {})}

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[Edges]:
        starts, ends = (_likely(score_NL) for score_NL in self._scores(model, batch))
        return [Edges(*start, *end) for start, end in zip(starts, ends, strict=True)]

    def predictions(
        self, records: Sequence[TaggingExample], features: Sequence[MrcWindow], outputs: Sequence[Edges]
    ) -> list[Prediction]:
        """Joins each likely start and the nearest likely end, then removes overlaps (`without_overlaps`)."""
        longest = self.settings.max_answer_tokens
        matched = (_matched(window, edges, longest) for window, edges in zip(features, outputs, strict=True))
        found = entity_scores(records, features, matched)
        return [
            without_overlaps(record, scores, self.settings.labels)
            for record, scores in zip(records, found, strict=True)
        ]

    def _scores(self, model: EncoderWithHeads, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        """Returns start_NL, end_NL of each window's tokens; -inf outside its context."""
        start_NT, end_NT = model.heads["span"](model.encoder(batch.inputs), batch.que_N)
        context_N2 = batch.context_N2 - batch.inputs.bounds_N1[:-1].unsqueeze(1)
        start_NL, end_NL = own_rows(start_NT, batch.inputs), own_rows(end_NT, batch.inputs)
        position_L = torch.arange(start_NL.shape[1], device=start_NL.device)
        outside_NL = (position_L < context_N2[:, :1]) | (position_L >= context_N2[:, 1:])
        return start_NL.masked_fill(outside_NL, -torch.inf), end_NL.masked_fill(outside_NL, -torch.inf)


def _with_que(window: MrcWindow, que_id: int) -> MrcWindow:
    position = window.query[1]
    return window._replace(
        ids=np.insert(window.ids, position, que_id),
        que=position,
        context=(window.context[0] + 1, window.context[1] + 1),
        answers=tuple((first + 1, last + 1) for first, last in window.answers),
    )


def _likely(score_NL: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns each row's positions with σ(score) > `THRESHOLD`, ascending, and their log P, in the host's memory."""
    likely_NL = score_NL.sigmoid() > THRESHOLD
    row_P, position_P = (indices.cpu().numpy() for indices in likely_NL.nonzero(as_tuple=True))
    log_p_P = F.logsigmoid(score_NL[likely_NL].double()).cpu().numpy()
    edges = np.searchsorted(row_P, np.arange(len(score_NL) + 1))
    return [(position_P[first:end], log_p_P[first:end]) for first, end in pairwise(edges.tolist())]


def _matched(window: MrcWindow, edges: Edges, longest: int) -> Iterator[tuple[int, int, float]]:
    """Yields spans at words' edges: start and end, in code points, and the log-odds of P(start) · P(end)."""
    offset = window.context[0]
    begins, stops = word_edges(window)
    ends = [
        (last - offset, log_p)
        for last, log_p in zip(edges.end_P.tolist(), edges.end_log_p_P.tolist(), strict=True)
        if stops[last - offset]
    ]
    for position, log_p in zip(edges.start_P.tolist(), edges.start_log_p_P.tolist(), strict=True):
        first = position - offset
        last, last_log_p = next((end for end in ends if end[0] >= first), (first + longest, 0.0))
        if begins[first] and last - first < longest:
            yield int(window.starts[first]), int(window.ends[last]), _log_odds(log_p + last_log_p)


def _log_odds(log_p: float) -> float:
    with np.errstate(divide="ignore"):
        return float(log_p - np.log(-np.expm1(log_p)))
