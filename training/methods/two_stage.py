"""Trains a question model with a baseline's best answers: hard learning and answer-aware contrastive learning.

N windows, T tokens of a packed batch, L tokens of its longest window, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from training.data.task_batches import MrcBatch, MrcWindow
from training.data.windows import with_candidates
from training.methods.base import EncoderWithHeads, Prepare
from training.methods.questions import PlainQuestions
from training.models.folder import Pretrained
from training.objectives import Loss
from training.objectives.answer_contrast import (
    Windows,
    answer_contrast,
    answered,
    hard_negatives,
    represented,
    windows_of,
)
from training.objectives.cacr import cached_gradients, replayed_loss, shared_out
from training.objectives.hard_learning import RankWeights, candidate_log_probs, hard_loss
from training.objectives.spans import span_loss
from training.recipes.methods import TwoStage


@dataclass(frozen=True)
class TwoStageQuestions(PlainQuestions):
    """Trains the standard head by (1 − α) · hard learning + α · contrast (two-stage, equation 9) and predicts as
    `PlainQuestions` does; the weights of ranks are not saved.

    `candidates` are the baseline's best answers to each training record, best first (`training.inference.candidates`).
    For a record without candidates, and in prediction, Z is the true answer.
    """

    candidates: Mapping[MrcExample, Sequence[CharSpan]] = field(default_factory=dict, repr=False)

    @property
    def method(self) -> TwoStage:
        assert isinstance(self.settings.method, TwoStage)
        return self.settings.method

    @property
    def weights(self) -> dict[str, float]:
        weights = {"hard": 1 - self.method.alpha, "contrast": self.method.alpha}
        return {name: weight for name, weight in weights.items() if weight}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        heads = super().heads(start, seed)
        if self.method.hard == "weighted":
            heads["ranks"] = RankWeights(self.method.candidates)
        return heads

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        windows = super().features(records)
        if self.method.hard == "none":
            return windows
        candidates = [self.candidates.get(record, ()) for record in records]
        windows = with_candidates(windows, records, candidates, self.method.candidates)
        return [gold_first(window) for window in windows] if self.method.gold_first else windows

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        counts: dict[str, int | Tensor] = {"hard": batch.inputs.sequences, "contrast": answered(batch).sum()}
        return {name: counts[name] for name in self.weights}

    def precompute(self, model: EncoderWithHeads, batches: Sequence[MrcBatch], prepare: Prepare) -> Sequence[Any]:
        """Computes the contrast over all micro-batches, since a question's negatives are in all of them. Returns for
        each micro-batch its part of loss and gradients, and the hard negatives that they belong to."""
        if len(batches) == 1 or "contrast" not in self.weights:
            return [None] * len(batches)
        representations, windows = [], []
        for index, batch in enumerate(batches):
            with torch.no_grad(), prepare(index):
                hidden_TD = model.encoder(batch.inputs)
                windows.append(self._windows(hidden_TD, *self.scores(model, hidden_TD, batch), batch))
                representations.append(represented(hidden_TD, batch, windows[-1].hard_N2))
        together = Windows(*(torch.cat(parts) for parts in zip(*windows, strict=True)))
        objective = partial(answer_contrast, windows=together, temperature=self.method.temperature)
        parts = shared_out(*cached_gradients(representations, objective))
        return [(part, of_batch.hard_N2) for part, of_batch in zip(parts, windows, strict=True)]

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        hidden_TD = model.encoder(batch.inputs)
        start_NL, end_NL = self.scores(model, hidden_TD, batch)
        losses = {}
        if "hard" in self.weights:
            losses["hard"] = self._hard(model, start_NL, end_NL, batch)
        if "contrast" in self.weights and shared:
            part, hard_N2 = shared
            losses["contrast"] = replayed_loss(represented(hidden_TD, batch, hard_N2), *part)
        elif "contrast" in self.weights:
            windows = self._windows(hidden_TD, start_NL, end_NL, batch)
            representations = represented(hidden_TD, batch, windows.hard_N2)
            losses["contrast"] = answer_contrast(*representations, windows, self.method.temperature)
        return losses

    def _hard(self, model: EncoderWithHeads, start_NL: Tensor, end_NL: Tensor, batch: MrcBatch) -> Loss:
        """Returns the hard-learning loss with the figures of the plain loss, so that runs can be compared."""
        plain = span_loss(start_NL, end_NL, batch.gold_start_N, batch.gold_end_N, batch.inputs)
        if self.method.hard == "none":
            return plain
        ranks = model.heads["ranks"] if self.method.hard == "weighted" else None
        log_NK = candidate_log_probs(start_NL, end_NL, batch)
        loss = hard_loss(log_NK, self.method.hard, ranks, gold_first=self.method.gold_first)
        return loss._replace(figures=plain.figures)

    def _windows(self, hidden_TD: Tensor, start_NL: Tensor, end_NL: Tensor, batch: MrcBatch) -> Windows:
        most, longest = self.method.contrast_candidates, self.settings.max_answer_tokens
        hard_N2 = hard_negatives(hidden_TD, start_NL, end_NL, batch, most, longest)
        return windows_of(batch, self.settings.max_query_tokens, hard_N2)


def gold_first(window: MrcWindow) -> MrcWindow:
    """Returns the window with the true answer first in Z; the others keep their order."""
    gold = window.answers[0] if window.answers else (0, 0)
    return window._replace(candidates=(gold, *(candidate for candidate in window.candidates if candidate != gold)))
