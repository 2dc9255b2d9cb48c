"""Finds entities with one query per label: makes the windows, and turns spans into tags (mPMR, 3; decision 23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from schemas.errors import InputError
from schemas.mrc import TaggingExample
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.data.windows import word_windows
from training.metrics.tags import Entity, tags_of
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction, Span
from training.tasks.queries import tag_queries


def label_windows(
    records: Sequence[TaggingExample], encoder: TextEncoder, settings: InferenceSettings
) -> list[MrcWindow]:
    """Returns the windows of each record: first all that ask for the first label, then those of the next label. Raises
    `InputError` if a record has an entity of another label."""
    labels = settings.labels
    for record in records:
        for tag in record.tags:
            if tag != "O":
                check_label(tag[2:], labels, record.id)
    queries = [query for record in records for query in tag_queries(record, labels)]
    words = [record.tokens for record in records for _ in labels]
    windows = word_windows(queries, words, encoder, settings)
    return [window._replace(record=window.record // len(labels)) for window in windows]


def entity_scores(
    records: Sequence[TaggingExample],
    windows: Sequence[MrcWindow],
    found: Iterable[Iterable[tuple[int, int, float]]],
) -> list[dict[Entity, float]]:
    """Returns for each record: entity → its score S. `found` has the spans of each window: start and end in code
    points, both at words' edges, and S. An entity that several windows hold gets the best of its scores."""
    word_starting = [
        {start: word for word, (start, end) in enumerate(record.tokens) if start < end} for record in records
    ]
    word_ending = [{end: word for word, (start, end) in enumerate(record.tokens) if start < end} for record in records]
    best: list[dict[Entity, float]] = [{} for _ in records]
    for window, spans in zip(windows, found, strict=True):
        assert window.label is not None
        record = window.record
        for start, end, score in spans:
            entity = Entity(word_starting[record][start], word_ending[record][end] + 1, window.label)
            best[record][entity] = max(score, best[record].get(entity, -np.inf))
    return best


def without_overlaps(record: TaggingExample, scores: Mapping[Entity, float], labels: Sequence[str]) -> Prediction:
    """Returns the prediction without overlapping or nested entities. Entities are taken from the best S to the worst,
    except those that share a word with one that was taken. Ties go to the earlier entity, then to the shorter, then to
    the label that comes first in `labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    order = sorted(scores, key=lambda entity: (-scores[entity], entity.start, entity.end, numbers[entity.type]))
    taken: set[int] = set()
    kept, spans = [], []
    for entity in order:
        words = range(entity.start, entity.end)
        if taken.isdisjoint(words):
            taken.update(words)
            kept.append(entity)
            start, end = record.tokens[entity.start].start, record.tokens[entity.end - 1].end
            spans.append(Span(start, end, record.text[start:end], probability(scores[entity]), entity.type))
    return Prediction(record.id, tuple(sorted(spans)), tags=tags_of(kept, len(record.tokens)))


def word_edges(window: MrcWindow) -> tuple[np.ndarray, np.ndarray]:
    """Returns two masks over the tokens of the context: first token of a word, last token of a word. The window is one
    of `word_windows`.

    A "▁" without text before a word is neither. Of a word that is longer than a window, the part in this window counts
    as the word.
    """
    has_text = window.starts < window.ends
    # Tokens have their words' offsets.
    same = (window.starts[1:] == window.starts[:-1]) & has_text[1:] & has_text[:-1]  # word as the token before
    return has_text & ~np.concatenate([[False], same]), has_text & ~np.concatenate([same, [False]])


def check_label(label: str, labels: Sequence[str], record: str) -> None:
    if label not in labels:
        raise InputError(
            f"{record}: expected a label of {', '.join(labels)}, found {label}. Choose the --task whose labels the "
            "file has"
        )


def probability(score: float) -> float:
    """Returns σ(S)."""
    return float(np.exp(-np.logaddexp(0.0, -score)))
