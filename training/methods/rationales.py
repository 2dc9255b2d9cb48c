"""Finds the words of a sentence pair that make its label true: rationales (mPMR, 4 and table 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from schemas.mrc import MrcExample, PairExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.windows import question_windows
from training.methods.base import EncoderWithHeads
from training.methods.questions import WindowAnswers, question_predictions, window_answers
from training.methods.unified import UnifiedQuestions
from training.methods.unified_pairs import UnifiedPairs
from training.objectives.wae_spans import best_spans
from training.tasks.predictions import Prediction
from training.tasks.queries import rationale_queries
from training.tasks.words import words_of


class WordsWindow(NamedTuple):
    """A window of a sentence, and the tokens of the whole sequence at which its words begin and end."""

    window: MrcWindow
    begins: np.ndarray  # bool, one for each token
    ends: np.ndarray

    @property
    def id(self) -> str:
        return self.window.id

    @property
    def record(self) -> int:
        return self.window.record

    @property
    def ids(self) -> np.ndarray:
        return self.window.ids

    @property
    def notes(self) -> tuple[str, ...]:
        return self.window.notes


@dataclass(frozen=True)
class WordsBatch(MrcBatch):
    begins_T: Tensor
    ends_T: Tensor


@dataclass(frozen=True)
class RationaleQuestions(UnifiedQuestions):
    """Answers with the spans of the best S among those that begin and end with a word (`training.tasks.words`) that has
    a letter or digit. No span is blank, so a record has `best` answers if it has that many such spans."""

    def features(self, records: Sequence[MrcExample]) -> list[WordsWindow]:  # type: ignore[override]
        windows = question_windows(records, self.encoder, self.settings)
        return [WordsWindow(window, *_word_tokens(window, records[window.record].context)) for window in windows]

    def batch(self, features: Sequence[WordsWindow]) -> WordsBatch:  # type: ignore[override]
        packed = mrc_batch([feature.window for feature in features])
        begins, ends = (
            torch.from_numpy(np.concatenate([np.zeros(0, bool), *masks]))
            for masks in ([feature.begins for feature in features], [feature.ends for feature in features])
        )
        values = {field.name: getattr(packed, field.name) for field in fields(packed)}
        return WordsBatch(**values, begins_T=begins, ends_T=ends)

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[WindowAnswers]:
        assert isinstance(batch, WordsBatch)
        edges, longest = (batch.begins_T, batch.ends_T), self.settings.max_answer_tokens
        top = best_spans(*self.factors(model, batch), batch, self.best, longest, edges)
        log_p_NK = F.logsigmoid(top.score_NK)
        return window_answers(top.first_NK, top.last_NK, log_p_NK, F.logsigmoid(-top.score_NK[:, 0]))

    def predictions(  # type: ignore[override]
        self, records: Sequence[MrcExample], features: Sequence[WordsWindow], outputs: Sequence[WindowAnswers]
    ) -> list[Prediction]:
        return question_predictions(records, [feature.window for feature in features], outputs, self.best)


def with_rationales(
    formulation: UnifiedPairs,
    records: Sequence[PairExample],
    predictions: Sequence[Prediction],
    predict: Callable[[RationaleQuestions, Sequence[MrcExample]], Sequence[Prediction]],
    best: int = 1,
) -> list[Prediction]:
    """Returns the predictions with `spans`: the `best` spans of whole words of each sentence under the template
    `label Sen-1 [SEP] Sen-2`, the most likely first. Positions are in the sentence that `Span.label` names.

    `predict` answers questions with the model: two for each record, with its predicted label and one of its sentences
    as Sen-2. A sentence in the query is cut if it takes more than half of `max_tokens`.
    """
    settings = formulation.settings
    most = max(settings.max_query_tokens, settings.max_tokens // 2)  # a whole sentence, not only a label's query
    asking = RationaleQuestions(
        replace(settings, kind="qa", labels=(), max_query_tokens=most), formulation.encoder, best=best
    )
    explained = [index for index, prediction in enumerate(predictions) if prediction.label is not None]
    questions = [
        question
        for index in explained
        for question in rationale_queries(records[index], predictions[index].label or "")
    ]
    answers = predict(asking, questions)
    with_spans = list(predictions)
    for number, index in enumerate(explained):
        both = range(2 * number, 2 * number + 2)
        spans = [span._replace(label=questions[which].label) for which in both for span in answers[which].spans]
        # The sort is stable: of equally likely spans, the first sentence's comes first.
        with_spans[index] = with_spans[index]._replace(spans=tuple(sorted(spans, key=lambda span: -span.score)))
    return with_spans


def _word_tokens(window: MrcWindow, context: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tokens of the window at which a word of the context begins, and those at which one ends."""
    words = [word for word in words_of(context) if any(map(str.isalnum, word.of(context)))]
    word_starts, word_ends = {word.start for word in words}, {word.end for word in words}
    begins, ends = np.zeros(len(window.ids), bool), np.zeros(len(window.ids), bool)
    for place, (start, end) in enumerate(zip(window.starts.tolist(), window.ends.tolist(), strict=True)):
        text = context[start:end]
        if text.strip():  # not a "▁" alone
            begins[window.context[0] + place] = end - len(text.lstrip()) in word_starts
            ends[window.context[0] + place] = start + len(text.rstrip()) in word_ends
    return begins, ends
