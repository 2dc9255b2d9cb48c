"""Solves every task as machine reading comprehension with mPMR's extractor (mPMR, 3 and table 6; decision 23).

The extractor gives each pair of tokens i <= j a score S_ij, the log-odds that an answer begins with i and ends with j;
the score of the [CLS] pair says whether there is an answer. The loss is that of pre-training, over the pairs of tokens
that `Unified.cells` names. Pairs of sentences are in `unified_pairs`.

N windows, T tokens of a packed batch, H size of the extractor's factors, K spans of a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from schemas.mrc import MrcExample, TaggingExample
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.data.windows import question_windows
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.methods.label_queries import entity_scores, label_windows, without_overlaps, word_edges
from training.methods.questions import WindowAnswers, question_predictions, window_answers
from training.models.folder import Pretrained
from training.models.heads import WaeExtractor
from training.objectives import Loss
from training.objectives.wae import cls_scores, valid_pairs, wae_loss
from training.objectives.wae_spans import LikelySpans, best_spans, likely_spans
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Unified
from training.tasks.predictions import BEST, Prediction


@dataclass(frozen=True)
class WithExtractor(OnePass):
    """The base class for all kinds of task."""

    settings: InferenceSettings
    encoder: TextEncoder

    @property
    def method(self) -> Unified:
        assert isinstance(self.settings.method, Unified)
        return self.settings.method

    @property
    def with_cls(self) -> bool:
        """Whether the loss is over [CLS] in addition to the context."""
        return self.method.cells_of(self.settings.kind) == "all"

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
        return {"wae": valid_pairs(batch, self.with_cls)}

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        return {"wae": wae_loss(*self.factors(model, batch), batch, with_cls=self.with_cls)}

    def factors(self, model: EncoderWithHeads, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        """Returns start_TH, end_TH: S_ij = start_i · end_j."""
        start_TH, end_TH = model.heads["wae"](model.encoder(batch.inputs))
        return start_TH, end_TH


@dataclass(frozen=True)
class UnifiedQuestions(WithExtractor):
    """Answers a question with the spans of the best S; σ(S) is their probability."""

    best: int = BEST  # spans that `outputs` keeps of a window, and `predictions` of a record

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        return question_windows(records, self.encoder, self.settings)

    def outputs(self, model: EncoderWithHeads, batch: MrcBatch) -> list[WindowAnswers]:
        factors = self.factors(model, batch)
        top = best_spans(*factors, batch, self.best, self.settings.max_answer_tokens)
        log_p_NK = F.logsigmoid(top.score_NK)  # differs between spans even if σ is 1 in fp32
        answered_N = cls_scores(*factors, batch) if self.with_cls else top.score_NK[:, 0]
        return window_answers(top.first_NK, top.last_NK, log_p_NK, F.logsigmoid(-answered_N))

    def predictions(
        self, records: Sequence[MrcExample], features: Sequence[MrcWindow], outputs: Sequence[WindowAnswers]
    ) -> list[Prediction]:
        """Predicts the best spans of each record. `no_answer` is 1 − σ(S) of the best span or, if the model was trained
        with [CLS], of the [CLS] pair, in the window where it is least."""
        return question_predictions(records, features, outputs, self.best)


@dataclass(frozen=True)
class UnifiedTags(WithExtractor):
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
