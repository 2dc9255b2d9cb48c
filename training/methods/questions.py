"""Answers questions by the start and end of the answer in the context, with the standard head or with [QUE].

records → windows → batches → scores of both ends → loss, or the best spans of each window → the best of each record
N windows, T tokens of a packed batch, L tokens of its longest window, D hidden size, K best spans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from schemas.mrc import MrcExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.data.windows import question_windows
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.models.folder import Pretrained
from training.models.heads import QaHead, SpanHead
from training.objectives import Loss
from training.objectives.spans import log_probabilities, own_rows, span_loss, top_spans
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Que
from training.tasks.predictions import BEST, Prediction, Span


class WindowAnswers(NamedTuple):
    """The output for one window. Positions count from its first token."""

    first_K: np.ndarray  # int64, the best spans, best first; fewer if the window has fewer
    last_K: np.ndarray  # the LAST token's
    score_K: np.ndarray  # float32, log P
    no_answer: float  # log P that the window has none


@dataclass(frozen=True)
class PlainQuestions(OnePass):
    """Predicts start and end of the answer with the standard head (two-stage, equations 1 to 3).

    In a window without the answer, [CLS] is the label of both.
    """

    settings: InferenceSettings
    encoder: TextEncoder
    best: int = field(default=BEST, kw_only=True)  # number of spans to keep of a window, and of a record

    @property
    def weights(self) -> dict[str, float]:
        return {"qa": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        with seeded(seed):
            return load_pretrained_heads({"qa": QaHead(start.language_model.config.hidden_size)}, start)

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        return question_windows(records, self.encoder, self.settings)

    def batch(self, features: Sequence[MrcWindow]) -> MrcBatch:
        return mrc_batch(features)

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        return {"qa": (batch.gold_start_N >= 0).sum()}

    def scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        """Returns start_NL, end_NL of every token of each window; -inf beyond the window."""
        start_T, end_T = model.heads["qa"](hidden_TD)
        return own_rows(start_T, batch.inputs), own_rows(end_T, batch.inputs)

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        return {"qa": self.loss_of(self.scores(model, model.encoder(batch.inputs), batch), batch)}

    def loss_of(self, scores: tuple[Tensor, Tensor], batch: MrcBatch) -> Loss:
        return span_loss(*scores, batch.gold_start_N, batch.gold_end_N, batch.inputs)

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[WindowAnswers]:
        return self.outputs_of(self.scores(model, model.encoder(batch.inputs), batch), batch)

    def outputs_of(self, scores: tuple[Tensor, Tensor], batch: MrcBatch) -> list[WindowAnswers]:
        start_NL, end_NL = scores
        context_N2 = batch.context_N2 - batch.inputs.bounds_N1[:-1].unsqueeze(1)
        top = top_spans(start_NL, end_NL, context_N2, self.best, self.settings.max_answer_tokens)
        none_N = log_probabilities(start_NL, context_N2)[:, 0] + log_probabilities(end_NL, context_N2)[:, 0]
        return window_answers(*top, none_N)

    def predictions(
        self, records: Sequence[MrcExample], features: Sequence[MrcWindow], outputs: Sequence[WindowAnswers]
    ) -> list[Prediction]:
        return question_predictions(records, features, outputs, self.best)


@dataclass(frozen=True)
class QueQuestions(PlainQuestions):
    """Ends the query in [QUE], which selects start and end with the pre-trained head (CLISM, 3.4)."""

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        assert isinstance(self.settings.method, Que)
        with seeded(seed):
            head = SpanHead(start.language_model.config.hidden_size, self.settings.method.deep_head)
            return load_pretrained_heads({"span": head}, start)

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        return question_windows(records, self.encoder, self.settings, with_que=True)

    def scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        start_NT, end_NT = model.heads["span"](hidden_TD, batch.que_N)
        return own_rows(start_NT, batch.inputs), own_rows(end_NT, batch.inputs)


def window_answers(first_NK: Tensor, last_NK: Tensor, score_NK: Tensor, no_answer_N: Tensor) -> list[WindowAnswers]:
    """Copies each window's spans, as in `TopSpans`, and log P of no answer to the host's memory."""
    first, last, score = (scores.cpu().numpy() for scores in (first_NK, last_NK, score_NK))
    count_N = (first >= 0).sum(axis=1)
    return [
        WindowAnswers(first[row, :count], last[row, :count], score[row, :count], none)
        for row, (count, none) in enumerate(zip(count_N, no_answer_N.tolist(), strict=True))
    ]


def question_predictions(
    records: Sequence[MrcExample],
    windows: Sequence[MrcWindow],
    outputs: Sequence[WindowAnswers],
    best: int = BEST,
) -> list[Prediction]:
    """Returns the `best` answers of each record among those of its windows, best first.

    Windows overlap: a span that several windows give has the highest of its probabilities. Of equally probable spans
    the earlier comes first, then the shorter. `no_answer` is the lowest of all windows' values: one window with an
    answer is enough.
    """
    spans_of: list[dict[tuple[int, int], float]] = [{} for _ in records]
    no_answer = [math.inf] * len(records)
    for window, output in zip(windows, outputs, strict=True):
        spans = spans_of[window.record]
        for start, end, score in _in_characters(window, output, records[window.record].context):
            spans[start, end] = max(score, spans.get((start, end), -math.inf))
        no_answer[window.record] = min(no_answer[window.record], output.no_answer)
    return [
        Prediction(record.id, _best(spans, record.context, best), scores=_no_answer(log_p))
        for record, spans, log_p in zip(records, spans_of, no_answer, strict=True)
    ]


def _in_characters(window: MrcWindow, output: WindowAnswers, context: str) -> list[tuple[int, int, float]]:
    """Returns start, end and log P of a window's spans that have text; in code points, without blanks at the edges."""
    spans = []
    offset = window.context[0]
    for first, last, score in zip(*(values.tolist() for values in output[:3]), strict=True):
        start, end = int(window.starts[first - offset]), int(window.ends[last - offset])
        text = context[start:end]
        start, end = end - len(text.lstrip()), start + len(text.rstrip())
        if start < end:
            spans.append((start, end, score))
    return spans


def _best(spans: Mapping[tuple[int, int], float], context: str, best: int) -> tuple[Span, ...]:
    ranked = sorted(spans.items(), key=lambda span_score: (-span_score[1], span_score[0]))
    return tuple(Span(start, end, context[start:end], math.exp(score)) for (start, end), score in ranked[:best])


def _no_answer(log_p: float) -> dict[str, float]:
    return {} if log_p == math.inf else {"no_answer": math.exp(log_p)}
