from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from schemas.mrc import TaggingExample
from tests.training.methods.fitting import fit, loss_of, predict_all, reader_of
from training.data.tokens import TextEncoder
from training.methods.que_tags import Edges, QueTags
from training.models.folder import Pretrained, load_model
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Que
from training.tasks.columns import located

READING = InferenceSettings(Que(), "tagging", ("LOC", "PER"), max_tokens=256, max_query_tokens=128, stride=16)


def sentence(text: str, words: str, tags: str, lang: str) -> TaggingExample:
    tokens = located(words.split(" "), text)
    assert tokens is not None
    return TaggingExample(text, lang, text, tokens, tuple(tags.split(" ")), "conll")


SENTENCES = [
    sentence("Anna Smith met Otto in Hanoi.", "Anna Smith met Otto in Hanoi .", "B-PER I-PER O B-PER O B-LOC O", "en"),
    sentence("آنا تعيش في هانوي.", "آنا تعيش في هانوي .", "B-PER O O B-LOC O", "ar"),
    sentence("Nothing here.", "Nothing here .", "O O O", "en"),
]


@pytest.fixture
def start(xlmr_folder: Path) -> Pretrained:
    start = load_model(xlmr_folder)
    add_que_token(start.language_model, start.tokenizer)
    return start


def test_tags_are_learnt_by_heart(start: Pretrained) -> None:
    formulation = QueTags(READING, TextEncoder(start.tokenizer))

    model = fit(formulation, SENTENCES, start, steps=60)

    assert loss_of(model, formulation, SENTENCES) < 0.05
    assert [each.tags for each in predict_all(model, formulation, SENTENCES)] == [each.tags for each in SENTENCES]


def test_every_query_ends_in_que_and_answers_keep_their_tokens(start: Pretrained) -> None:
    formulation = QueTags(replace(READING, max_tokens=140), TextEncoder(start.tokenizer))

    windows = formulation.features([replace(SENTENCES[0], id="long"), *SENTENCES])

    assert {int(each.ids[each.que]) for each in windows} == {formulation.encoder.que_id}
    assert all(each.que == each.query[1] == each.context[0] - 3 for each in windows)
    assert all(len(each.ids) <= 140 for each in windows)
    per = next(each for each in windows if each.id == f"{SENTENCES[0].id}:PER")
    assert [
        SENTENCES[0].text[per.starts[first - per.context[0]] : per.ends[last - per.context[0]]]
        for first, last in per.answers
    ] == ["Anna Smith", "Otto"]


def test_the_loss_is_the_cross_entropy_of_every_token_of_the_contexts(start: Pretrained) -> None:
    formulation = QueTags(READING, TextEncoder(start.tokenizer))
    model = reader_of(formulation, start)
    windows = formulation.features(SENTENCES)

    expected = []
    for window in windows:
        batch = formulation.batch([window])
        scores = model.heads["span"](model.encoder(batch.inputs), batch.que_N)
        for score_NT, edge in zip(scores, (0, 1), strict=True):
            labels = torch.zeros(len(window.ids))
            labels[[answer[edge] for answer in window.answers]] = 1
            context = slice(*window.context)
            expected.append(F.binary_cross_entropy_with_logits(score_NT[0, context], labels[context], reduction="none"))

    assert loss_of(model, formulation, SENTENCES) == pytest.approx(torch.cat(expected).mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    "starts, ends, expected",
    [
        ([0, 3], [1, 3], ["Anna Smith", "Otto"]),
        ([0, 1], [1], ["Anna Smith"]),  # both reach the same end; of the equal ones the earlier
        ([3], [1], []),  # no end behind the start
        ([0], [3, 5], ["Anna Smith met Otto"]),  # the nearest
    ],
)
def test_a_start_is_matched_with_the_nearest_end(
    start: Pretrained, starts: list[int], ends: list[int], expected: list[str]
) -> None:
    formulation = QueTags(replace(READING, labels=("PER", "LOC")), TextEncoder(start.tokenizer))
    record = SENTENCES[0]
    windows = formulation.features([record])
    per = windows[0]
    spans = [record.tokens[word] for word in starts], [record.tokens[word] for word in ends]
    first = [int(np.flatnonzero((per.starts == span.start) & (per.ends > per.starts))[0]) for span in spans[0]]
    last = [int(np.flatnonzero((per.ends == span.end) & (per.ends > per.starts))[-1]) for span in spans[1]]
    likely = np.log(0.9)
    outputs = [
        Edges(
            np.array(first) + per.context[0],
            np.full(len(first), likely),
            np.array(last) + per.context[0],
            np.full(len(last), likely),
        ),
        Edges(*(np.array([], np.int64),) * 4),
    ]

    (prediction,) = formulation.predictions([record], windows, outputs)

    assert [span.text for span in prediction.spans] == expected
    assert all(span.score == pytest.approx(0.81) and span.label == "PER" for span in prediction.spans)
