"""A model's prediction for one record, the same for every method: plain values for JSON and for scorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from training.metrics.tags import Entity

BEST = 20  # the most answers that are kept for a record


class Span(NamedTuple):
    """A span is `text[start_char:end_char]` of the record, in code points, half-open."""

    start_char: int
    end_char: int
    text: str
    score: float  # a probability
    label: str | None = None  # of an entity or target; for a rationale its sentence, "sentence1" or "sentence2"


class Prediction(NamedTuple):
    """What a model predicts for one record.

    `spans` are a question's answers, best first; the entities of a sentence, in its order; or the rationales of a pair,
    best first.
    """

    id: str
    spans: tuple[Span, ...]
    label: str | None = None  # of a pair
    scores: Mapping[str, float] = {}  # of a pair: label → probability; of a question: "no_answer", if the model has it
    tags: tuple[str, ...] = ()  # IOB2, one for each word of a sentence
    unresolved: tuple[Entity, ...] | None = None  # likely entities, which may overlap: mPMR's span F1 is over these

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"id": self.id, "spans": [span._asdict() for span in self.spans]}
        if self.label is not None:
            values["label"] = self.label
        if self.scores:
            values["scores"] = dict(self.scores)
        if self.tags:
            values["tags"] = list(self.tags)
        return values
