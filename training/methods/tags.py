"""Tags each word, for entities and targets of sentiments: token classification (CLISM, appendix C).

Shapes: W words of a batch, C tags, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from schemas.mrc import TaggingExample
from training.data.tag_windows import tag_names, tag_windows
from training.data.task_batches import TagBatch, TagWindow, tag_batch
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads, OnePass, load_pretrained_heads, seeded
from training.metrics.tags import entities, tags_of
from training.models.folder import Pretrained
from training.models.heads import task_head
from training.objectives import Loss
from training.objectives.labels import UNLABELLED, label_loss, probabilities
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction, Span


@dataclass(frozen=True)
class PlainTags(OnePass):
    """Predicts a word's tag from its first token."""

    settings: InferenceSettings
    encoder: TextEncoder

    @property
    def weights(self) -> dict[str, float]:
        return {"tags": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        config, tags = start.language_model.config, tag_names(self.settings.labels)
        with seeded(seed):
            return load_pretrained_heads({"tags": task_head("tags", config, tags)}, start)

    def features(self, records: Sequence[TaggingExample]) -> list[TagWindow]:
        return tag_windows(records, self.encoder, self.settings)

    def batch(self, features: Sequence[TagWindow]) -> TagBatch:
        return tag_batch(features)

    def counts(self, batch: TagBatch) -> dict[str, int | Tensor]:
        return {"tags": (batch.labels_W != UNLABELLED).sum()}

    def scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: TagBatch) -> tuple[Tensor]:
        """Returns the logits of each word's tags, (W, C)."""
        return (model.heads["tags"](hidden_TD, batch.words_W),)

    def losses(self, model: EncoderWithHeads, batch: TagBatch, shared: Any) -> dict[str, Loss]:
        return {"tags": self.loss_of(self.scores(model, model.encoder(batch.inputs), batch), batch)}

    def loss_of(self, scores: tuple[Tensor], batch: TagBatch) -> Loss:
        return label_loss(*scores, batch.labels_W)

    def outputs(self, model: EncoderWithHeads, batch: TagBatch) -> list[np.ndarray]:
        return self.outputs_of(self.scores(model, model.encoder(batch.inputs), batch), batch)

    def outputs_of(self, scores: tuple[Tensor], batch: TagBatch) -> list[np.ndarray]:
        """Returns P(tag) of each window's words, (words, C)."""
        p_WC = probabilities(*scores).cpu().numpy()
        words_N = np.bincount(batch.sequence_W.cpu().numpy(), minlength=batch.inputs.sequences)
        return np.split(p_WC, np.cumsum(words_N)[:-1]) if len(words_N) else []

    def predictions(
        self, records: Sequence[TaggingExample], features: Sequence[TagWindow], outputs: Sequence[np.ndarray]
    ) -> list[Prediction]:
        """Predicts the most likely tag of every word, in IOB2; a word without a token is `O`. Entities are read as
        CoNLL's scorer reads them, so that an `I-` without a `B-` begins one.

        An entity's score is the mean of the probabilities of its words' tags.
        """
        names = tag_names(self.settings.labels)
        tags = [["O"] * len(record.tokens) for record in records]
        scores = [[0.0] * len(record.tokens) for record in records]
        for window, p_WC in zip(features, outputs, strict=True):
            for word, p_C in zip(window.words, p_WC, strict=True):
                best = int(p_C.argmax())
                tags[window.record][word], scores[window.record][word] = names[best], float(p_C[best])
        return [_prediction(*of_record) for of_record in zip(records, tags, scores, strict=True)]


def _prediction(record: TaggingExample, tags: Sequence[str], scores: Sequence[float]) -> Prediction:
    tagged = entities(tags)
    spans = []
    for start, end, label in tagged:
        start_char, end_char = record.tokens[start].start, record.tokens[end - 1].end
        score = sum(scores[start:end]) / (end - start)
        spans.append(Span(start_char, end_char, record.text[start_char:end_char], score, label))
    return Prediction(record.id, tuple(spans), tags=tags_of(tagged, len(tags)))
