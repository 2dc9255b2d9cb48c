"""What a fine-tuned model says of one record, whatever the method: plain values, ready for JSON and for scorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from training.tasks.tags import Entity

BEST = 20  # answers of a record that are kept


class Span(NamedTuple):
    """A piece of the record's text: `text[start_char:end_char]`, in code points, half-open."""

    start_char: int
    end_char: int
    text: str
    score: float  # a probability
    label: str | None = None  # an entity's or a target's; of a rationale: which sentence, "sentence1" or "sentence2"


class Prediction(NamedTuple):
    """`spans`: a question's answers, best first; the entities of a sentence, in its order; the rationales of a pair,
    best first."""

    id: str
    spans: tuple[Span, ...]
    label: str | None = None  # of a pair
    scores: Mapping[str, float] = {}  # a pair: each label's probability; a question: "no_answer", where there is one
    tags: tuple[str, ...] = ()  # IOB2, one for each word of a sentence
    unresolved: tuple[Entity, ...] | None = None  # mPMR's span F1 is over these: likely entities that may overlap

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"id": self.id, "spans": [span._asdict() for span in self.spans]}
        if self.label is not None:
            values["label"] = self.label
        if self.scores:
            values["scores"] = dict(self.scores)
        if self.tags:
            values["tags"] = list(self.tags)
        return values
