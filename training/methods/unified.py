"""Solves every task as machine reading comprehension with mPMR's extractor (mPMR, 3 and table 6; decision 23).

The extractor gives each pair of tokens i <= j a score S_ij, the log-odds that an answer begins with i and ends with j;
the score of the [CLS] pair says whether there is an answer. The loss is that of pre-training, over all pairs.

N windows, T tokens of a packed batch, H size of the extractor's factors, K spans of a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from schemas.mrc import MrcExample, PairExample, TaggingExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.data.windows import question_windows
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.methods.label_queries import (
    check_label,
    entity_scores,
    label_windows,
    probability,
    without_overlaps,
    word_edges,
)
from training.methods.questions import WindowAnswers, question_predictions, window_answers
from training.models.folder import Pretrained
from training.models.heads import WaeExtractor
from training.objectives import Loss
from training.objectives.wae import valid_pairs, wae_loss
from training.objectives.wae_spans import LikelySpans, best_spans, cls_scores, likely_spans
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Unified
from training.tasks.predictions import BEST, Prediction
from training.tasks.queries import pair_queries


@dataclass(frozen=True)
class _Unified(OnePass):
    """The base class for all kinds of task."""

    settings: InferenceSettings
    encoder: TextEncoder

    @property
    def method(self) -> Unified:
        assert isinstance(self.settings.method, Unified)
        return self.settings.method

    @property
    def weights(self) -> dict[str, float]:
        return {"wae": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        hidden_size = start.language_model.config.hidden_size
        with seeded(seed):
            extractor = WaeExtractor(hidden_size, self.method.extractor_inner, self.method.extractor_dropout)
            return load_pretrained_heads({"wae": extractor}, start)

    def batch(self, features: Sequence[MrcWindow]) -> MrcBatch:
        return mrc_batch(features)

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        return {"wae": valid_pairs(batch)}

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        return {"wae": wae_loss(*self.factors(model, batch), batch)}

    def factors(self, model: EncoderWithHeads, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        """Returns start_TH, end_TH: S_ij = start_i · end_j."""
        start_TH, end_TH = model.heads["wae"](model.encoder(batch.inputs))
        return start_TH, end_TH


@dataclass(frozen=True)
class UnifiedQuestions(_Unified):
    """Answers a question with the spans of the best S; σ(S) is their probability."""

    best: int = BEST  # spans that `outputs` keeps of a window, and `predictions` of a record

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        return question_windows(records, self.encoder, self.settings)

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[WindowAnswers]:
        factors = self.factors(model, batch)
        top = best_spans(*factors, batch, self.best, self.settings.max_answer_tokens)
        log_p_NK = F.logsigmoid(top.score_NK)  # differs between spans even if σ is 1 in fp32
        return window_answers(top.first_NK, top.last_NK, log_p_NK, F.logsigmoid(-cls_scores(*factors, batch)))

    def predictions(
        self, records: Sequence[MrcExample], features: Sequence[MrcWindow], outputs: Sequence[WindowAnswers]
    ) -> list[Prediction]:
        """Predicts the best spans of each record. `no_answer` is 1 − σ(S of [CLS]) of the window with the largest S of
        [CLS]."""
        return question_predictions(records, features, outputs, self.best)


@dataclass(frozen=True)
class UnifiedTags(_Unified):
    """Reads a sentence with one query per label; spans of whole words that are likely enough are entities of it."""

    def features(self, records: Sequence[TaggingExample]) -> list[MrcWindow]:
        return label_windows(records, self.encoder, self.settings)

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[LikelySpans]:
        longest = self.settings.max_answer_tokens
        return likely_spans(*self.factors(model, batch), batch, self.method.threshold, longest)

    def predictions(
        self, records: Sequence[TaggingExample], features: Sequence[MrcWindow], outputs: Sequence[LikelySpans]
    ) -> list[Prediction]:
        """Predicts the spans of whole words with σ(S) > `threshold`, without overlaps (`without_overlaps`).
        `unresolved` has all of them."""
        found = entity_scores(records, features, map(_whole_words, features, outputs))
        return [
            without_overlaps(record, scores, self.settings.labels)._replace(unresolved=tuple(sorted(scores)))
            for record, scores in zip(records, found, strict=True)
        ]


@dataclass(frozen=True)
class UnifiedPairs(_Unified):
    """Reads a pair with one query per label; [CLS] is the answer to the query of its label."""

    def features(self, records: Sequence[PairExample]) -> list[MrcWindow]:
        """Returns one window for each label of each record. A pair that is too long is cut at its end, which is the
        premise's, and gets the note `truncated_pair`. Raises `InputError` for a label that `settings.labels` lack."""
        labels = self.settings.labels
        for pair in records:
            if pair.label is not None:
                check_label(pair.label, labels, pair.id)
        queries = [query for record in records for query in pair_queries(record, labels)]
        windows: list[MrcWindow] = []
        before = -1
        for window in question_windows(queries, self.encoder, self.settings):
            if window.record == before:
                windows[-1] = windows[-1]._replace(notes=tuple(dict.fromkeys((*windows[-1].notes, "truncated_pair"))))
                continue
            before = window.record
            record = window.record // len(labels)
            windows.append(window._replace(record=record, answerable=window.label == records[record].label))
        return windows

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        """Returns the loss without the figure `exact`, which concerns answers within the text: there are none."""
        loss = super().losses(model, batch, shared)["wae"]
        return {"wae": loss._replace(figures={"answerable": loss.figures["answerable"]})}

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[float]:
        """Returns S of [CLS] in each window."""
        scores: list[float] = cls_scores(*self.factors(model, batch), batch).tolist()
        return scores

    def predictions(
        self, records: Sequence[PairExample], features: Sequence[MrcWindow], outputs: Sequence[float]
    ) -> list[Prediction]:
        """Predicts the label with the best S, the first of equal ones. `scores` are σ(S), which need not sum to 1: the
        model learns for each label separately whether it is true."""
        scores_of: list[dict[str, float]] = [{} for _ in records]
        for window, score in zip(features, outputs, strict=True):
            assert window.label is not None
            scores_of[window.record][window.label] = score
        return [
            Prediction(
                record.id,
                (),
                label=max(scores, key=scores.__getitem__, default=None),
                scores={label: probability(score) for label, score in scores.items()},
            )
            for record, scores in zip(records, scores_of, strict=True)
        ]


def _whole_words(window: MrcWindow, found: LikelySpans) -> Iterator[tuple[int, int, float]]:
    """Yields start and end, in code points, and S of the spans that begin and end at words' edges."""
    begins, stops = word_edges(window)
    first, last = found.first_K - window.context[0], found.last_K - window.context[0]
    whole = begins[first] & stops[last]
    yield from zip(
        window.starts[first[whole]].tolist(),
        window.ends[last[whole]].tolist(),
        found.score_K[whole].tolist(),
        strict=True,
    )
