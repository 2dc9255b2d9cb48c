"""Finds the words of a sentence pair that make its label true: rationales (mPMR, 4 and table 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from schemas.mrc import MrcExample, PairExample
from training.methods.unified import UnifiedPairs, UnifiedQuestions
from training.tasks.predictions import Prediction
from training.tasks.queries import rationale_queries


def with_rationales(
    formulation: UnifiedPairs,
    records: Sequence[PairExample],
    predictions: Sequence[Prediction],
    predict: Callable[[UnifiedQuestions, Sequence[MrcExample]], Sequence[Prediction]],
    best: int = 1,
) -> list[Prediction]:
    """Returns the predictions with `spans`: the `best` spans of each sentence under the template
    `label Sen-1 [SEP] Sen-2`, the most likely first. Positions are in the sentence that `Span.label` names.

    `predict` answers questions with the model: two for each record, with its predicted label and one of its sentences
    as Sen-2. A sentence in the query is cut if it takes more than half of `max_tokens`.
    """
    settings = formulation.settings
    most = max(settings.max_query_tokens, settings.max_tokens // 2)  # a whole sentence, not only a label's query
    asking = UnifiedQuestions(
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
