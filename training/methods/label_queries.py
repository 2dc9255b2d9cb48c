"""Entities by a query for each label: what is read, and how the spans found become tags (mPMR, 3; decision 23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from schemas.errors import InputError
from schemas.mrc import TaggingExample
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.data.windows import word_windows
from training.recipes.finetuning import InferenceSettings
from training.tasks.predictions import Prediction, Span
from training.tasks.queries import tag_queries
from training.tasks.tags import Entity, tags_of


def label_windows(
    records: Sequence[TaggingExample], encoder: TextEncoder, settings: InferenceSettings
) -> list[MrcWindow]:
    """Of each record first all windows that ask for the first label, then those of the next. Raises `InputError` if a
    record has an entity of none of them."""
    labels = settings.labels
    for record in records:
        for tag in record.tags:
            if tag != "O":
                check_label(tag[2:], labels, record.id)
    queries = [query for record in records for query in tag_queries(record, labels)]
    words = [record.tokens for record in records for _ in labels]
    windows = word_windows(queries, words, encoder, settings)
    return [each._replace(record=each.record // len(labels)) for each in windows]


def entity_scores(
    records: Sequence[TaggingExample],
    windows: Sequence[MrcWindow],
    found: Iterable[Iterable[tuple[int, int, float]]],
) -> list[dict[Entity, float]]:
    """Of each record, the score S of every entity that was found in a window: its start and end in code points, both at
    words' edges. Where windows overlap, an entity has the best of its scores."""
    word_starting = [{start: word for word, (start, end) in enumerate(each.tokens) if start < end} for each in records]
    word_ending = [{end: word for word, (start, end) in enumerate(each.tokens) if start < end} for each in records]
    best: list[dict[Entity, float]] = [{} for _ in records]
    for window, spans in zip(windows, found, strict=True):
        assert window.label is not None
        at = window.record
        for start, end, score in spans:
            entity = Entity(word_starting[at][start], word_ending[at][end] + 1, window.label)
            best[at][entity] = max(score, best[at].get(entity, -np.inf))
    return best


def without_overlaps(record: TaggingExample, scores: Mapping[Entity, float], labels: Sequence[str]) -> Prediction:
    """Of entities that overlap, nested ones included and whatever their labels, the one with the best S stays; of
    equally good ones the earlier, then the shorter, then the label that comes first in `labels`. (They are taken from
    the best to the worst, each unless it shares a word with one that was taken.)"""
    numbers = {label: number for number, label in enumerate(labels)}
    order = sorted(scores, key=lambda each: (-scores[each], each.start, each.end, numbers[each.type]))
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
    """Of each token of the context: is it the first of a word, is it the last? The window is one of `word_windows`.

    A "▁" that stands alone before a word is neither. Of a word that is too long for any window, what this one holds
    counts as the word.
    """
    has_text = window.starts < window.ends
    # Tokens stand at their words' own edges.
    same = (window.starts[1:] == window.starts[:-1]) & has_text[1:] & has_text[:-1]  # word as the token before
    return has_text & ~np.concatenate([[False], same]), has_text & ~np.concatenate([same, [False]])


def check_label(label: str, labels: Sequence[str], record: str) -> None:
    if label not in labels:
        raise InputError(
            f"{record}: expected a label of {', '.join(labels)}, found {label}. Choose the --task whose labels the "
            "file has"
        )


def probability(score: float) -> float:
    """σ(S)."""
    return float(np.exp(-np.logaddexp(0.0, -score)))
