"""Which words of a pair make its label true: rationales of sentence-pair classification (mPMR, 4 and table 3)."""

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
    """The predictions with `spans`: the `best` spans of either sentence under the template `label Sen-1 [SEP] Sen-2`,
    the likeliest first. Their places are of their own sentence, which `Span.label` names.

    `predict` has the model answer questions: two for each record, with its predicted label and either sentence as
    Sen-2. A sentence is cut as a query where it takes more than half of `max_tokens`.
    """
    settings = formulation.settings
    most = max(settings.max_query_tokens, settings.max_tokens // 2)  # a whole sentence, not only a label's query
    asking = UnifiedQuestions(
        replace(settings, kind="qa", labels=(), max_query_tokens=most), formulation.encoder, best=best
    )
    explained = [at for at, each in enumerate(predictions) if each.label is not None]
    questions = [
        question for at in explained for question in rationale_queries(records[at], predictions[at].label or "")
    ]
    answers = predict(asking, questions)
    found = list(predictions)
    for number, at in enumerate(explained):
        both = range(2 * number, 2 * number + 2)
        spans = [span._replace(label=questions[which].label) for which in both for span in answers[which].spans]
        # Stable: of equally likely ones, the first sentence's comes first.
        found[at] = found[at]._replace(spans=tuple(sorted(spans, key=lambda span: -span.score)))
    return found
