"""Classifies pairs of sentences with mPMR's extractor: [CLS] answers the query of the right label (mPMR, table 6 and
section 4).

All sequences of a pair are in one batch, whose size counts pairs. N sequences of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from schemas.mrc import MrcExample, PairExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.data.windows import question_windows
from training.methods.base import EncoderWithHeads
from training.methods.label_queries import check_label, probability
from training.methods.unified import WithExtractor
from training.objectives import Loss
from training.objectives.wae import cls_loss, cls_scores, valid_pairs, wae_loss
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction
from training.tasks.queries import pair_queries, sentence_queries


class PairWindows(NamedTuple):
    """The sequences of a pair: one for each query."""

    id: str
    record: int
    ids: np.ndarray  # int32, the tokens of all sequences
    windows: tuple[MrcWindow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PairWindowBatch(MrcBatch):
    """`example_ids` are the pairs'."""

    pair_N: Tensor  # number of each sequence's pair in the batch


@dataclass(frozen=True)
class UnifiedPairs(WithExtractor):
    """Reads a pair with one or two queries per label; [CLS] is the answer to the queries of its label.

    The loss is the mean over [CLS] of all sequences (`wae`). If the spans of the context are trained too, the mean over
    them is a loss of its own (`spans`): as a part of the first one, they would outnumber [CLS] by thousands.
    """

    unit = "pairs with all their queries"

    @property
    def weights(self) -> dict[str, float]:
        return {"wae": 1.0, "spans": 1.0} if self.with_cls else {"wae": 1.0}

    def features(self, records: Sequence[PairExample]) -> list[PairWindows]:
        """Returns the sequences of each record, in the order of labels. One that is too long is cut at its end, with
        the note `truncated_pair`. Raises `InputError` for a label that `settings.labels` lack."""
        labels = self.settings.labels
        for pair in records:
            if pair.label is not None:
                check_label(pair.label, labels, pair.id)
        asked = [(index, query) for index, record in enumerate(records) for query in self._queries(record)]
        windows = _first_windows([query for _, query in asked], self.encoder, self._reading)
        found = []
        for index, group in groupby(windows, key=lambda window: asked[window.record][0]):
            record = records[index]
            own = tuple(
                window._replace(record=index, answerable=record.label is not None and window.label == record.label)
                for window in group
            )
            ids = np.concatenate([window.ids for window in own])
            notes = tuple(dict.fromkeys(note for window in own for note in window.notes))
            found.append(PairWindows(record.id, index, ids, own, notes))
        return found

    @property
    def _reading(self) -> InferenceSettings:
        """The settings, with room for a whole sentence in the query if the template puts one there."""
        if self.method.template == "label":
            return self.settings
        most = max(self.settings.max_query_tokens, self.settings.max_tokens // 2)
        return replace(self.settings, max_query_tokens=most)

    def _queries(self, record: PairExample) -> Sequence[MrcExample]:
        ask = sentence_queries if self.method.template == "sentences" else pair_queries
        return ask(record, self.settings.labels)

    def batch(self, features: Sequence[PairWindows]) -> PairWindowBatch:  # type: ignore[override]
        packed = mrc_batch([window for feature in features for window in feature.windows])
        counts = torch.tensor([len(feature.windows) for feature in features], dtype=torch.int64)
        values = {field.name: getattr(packed, field.name) for field in fields(packed)}
        values["example_ids"] = tuple(feature.id for feature in features)
        return PairWindowBatch(**values, pair_N=torch.arange(len(features)).repeat_interleave(counts))

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        counts: dict[str, int | Tensor] = {"wae": batch.inputs.sequences, "spans": valid_pairs(batch, with_cls=False)}
        return {name: counts[name] for name in self.weights}

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        factors = self.factors(model, batch)
        losses = {"wae": cls_loss(*factors, batch)}
        if "spans" in self.weights:  # without the figure `exact`: no span is an answer
            losses["spans"] = wae_loss(*factors, batch, with_cls=False)._replace(figures={})
        return losses

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[tuple[float, ...]]:
        """Returns for each pair S of [CLS] in its sequences."""
        assert isinstance(batch, PairWindowBatch)
        scores = zip(batch.pair_N.tolist(), cls_scores(*self.factors(model, batch), batch).tolist(), strict=True)
        return [tuple(score for _, score in group) for _, group in groupby(scores, key=lambda each: each[0])]

    def predictions(
        self, records: Sequence[PairExample], features: Sequence[PairWindows], outputs: Sequence[Sequence[float]]
    ) -> list[Prediction]:
        """Predicts the label with the best mean S over its sequences, the first of equal ones. `scores` are σ(mean S),
        which need not sum to 1: the model learns for each label separately whether it is true."""
        predictions = [Prediction(record.id, ()) for record in records]
        for pair, of_windows in zip(features, outputs, strict=True):
            scores: dict[str, list[float]] = {}
            for window, score in zip(pair.windows, of_windows, strict=True):
                assert window.label is not None
                scores.setdefault(window.label, []).append(score)
            means = {label: float(np.mean(found)) for label, found in scores.items()}
            predictions[pair.record] = predictions[pair.record]._replace(
                label=max(means, key=means.__getitem__),
                scores={label: probability(mean) for label, mean in means.items()},
            )
        return predictions


def _first_windows(
    queries: Sequence[MrcExample], encoder: TextEncoder, settings: InferenceSettings
) -> Iterator[MrcWindow]:
    """Yields the first window of each query."""
    windows = question_windows(queries, encoder, settings)
    for _, group in groupby(windows, key=lambda window: window.record):
        first, *more = group
        yield first._replace(notes=(*first.notes, "truncated_pair")) if more else first
