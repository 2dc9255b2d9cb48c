from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from tests.training.methods.fitting import fit, loss_of, predict_all, reader_of
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.methods.questions import (
    PlainQuestions,
    QueQuestions,
    WindowAnswers,
    question_predictions,
    window_answers,
)
from training.models.folder import Pretrained, load_model
from training.models.heads import SpanHead
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain, Que
from training.tasks.predictions import Prediction, Span

PLAIN = InferenceSettings(Plain(), "qa", max_tokens=64, max_query_tokens=24, stride=8, max_answer_tokens=12)
QUE = replace(PLAIN, method=Que())
SHORT = replace(PLAIN, max_tokens=40, stride=5)  # contexts in several windows


def question(query: str, context: str, answer: str, lang: str = "en") -> MrcExample:
    start = context.index(answer)
    span = CharSpan(start, start + len(answer))
    return MrcExample(query, lang, query, context, (span,), (answer,), True, "squad", None)


QUESTIONS = [
    question("Who founded it?", "Anna Smith founded the school in 1999 .", "Anna Smith"),
    question("When was it founded?", "Anna Smith founded the school in 1999 .", "1999"),
    question("What was founded?", "Anna Smith founded the school in 1999 .", "the school"),
    question("Wer gewann?", "Im Finale gewann Berlin gegen Hanoi.", "Berlin", "de"),
    question("Wo gewann Berlin?", "Im Finale gewann Berlin gegen Hanoi.", "Im Finale", "de"),
    question("谁住在河内?", "安娜住在河内。", "安娜", "zh"),
    question("Wer verlor?", "Im Finale gewann Berlin gegen Hanoi.", "Hanoi", "de"),
    question("من هي؟", "آنا تعيش في هانوي.", "آنا", "ar"),
]


@pytest.fixture
def plain(xlmr_folder: Path) -> tuple[PlainQuestions, Pretrained]:
    start = load_model(xlmr_folder)
    return PlainQuestions(PLAIN, TextEncoder(start.tokenizer)), start


@pytest.fixture
def que(xlmr_folder: Path) -> tuple[QueQuestions, Pretrained]:
    start = load_model(xlmr_folder)
    add_que_token(start.language_model, start.tokenizer)
    return QueQuestions(QUE, TextEncoder(start.tokenizer)), start


@pytest.mark.parametrize("method", ["plain", "que"])
def test_learns_eight_questions_by_heart(method: str, request: pytest.FixtureRequest) -> None:
    formulation, start = request.getfixturevalue(method)
    model = fit(formulation, QUESTIONS, start)
    assert loss_of(model, formulation, QUESTIONS) < 0.05
    found = predict_all(model, formulation, QUESTIONS)
    assert [each.spans[0].text for each in found] == [each.answer_texts[0] for each in QUESTIONS]
    assert all(each.spans[0].score > 0.95 and each.scores["no_answer"] < 0.05 for each in found)


def test_learns_that_a_window_has_no_answer(plain: tuple[PlainQuestions, Pretrained]) -> None:
    formulation, start = plain
    nothing = [replace(each, answers=(), answer_texts=(), answerable=False) for each in QUESTIONS]
    found = predict_all(fit(formulation, nothing, start), formulation, nothing)
    assert all(each.scores["no_answer"] > 0.9 > 0.1 > each.spans[0].score for each in found)


def test_the_loss_is_that_of_hugging_faces_model(xlmr_folder: Path, plain: tuple[PlainQuestions, Pretrained]) -> None:
    formulation, start = plain
    theirs, model = AutoModelForQuestionAnswering.from_pretrained(xlmr_folder).eval(), reader_of(formulation, start)
    theirs.qa_outputs.load_state_dict(model.heads["qa"].qa_outputs.state_dict())
    losses = []
    for record in (*QUESTIONS, replace(QUESTIONS[0], answers=())):
        batch = formulation.batch(formulation.features([record]))
        answer = {"start_positions": batch.gold_start_N, "end_positions": batch.gold_end_N}
        losses.append(2 * theirs(input_ids=batch.inputs.ids_T.unsqueeze(0), **answer).loss.item())  # it takes the mean
        assert loss_of(model, formulation, [record]) == pytest.approx(losses[-1], rel=1e-5)
    assert len({round(loss, 4) for loss in losses}) > 6


def softmax(scores: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(score) for score in scores.values())
    return {place: math.exp(score) / total for place, score in scores.items()}


def test_predicts_what_hugging_faces_model_says_over_all_windows_and_spans(
    xlmr_folder: Path, tmp_path: Path, plain: tuple[PlainQuestions, Pretrained]
) -> None:
    """The oracle: transformers' own model and tokenizer, padded, and every span of every window in turn."""
    formulation = replace(plain[0], settings=SHORT, best=40)
    torch.manual_seed(0)  # transformers draws the head
    theirs = AutoModelForQuestionAnswering.from_pretrained(xlmr_folder).eval()
    model = reader_of(formulation, plain[1])
    model.heads["qa"].qa_outputs.weight.data = theirs.qa_outputs.weight.data.mul_(30)
    tokenizer = plain[1].tokenizer
    blank = tokenizer.convert_tokens_to_ids("▁")
    context = " ".join(each.context for each in QUESTIONS)
    records = [replace(each, context=context, answers=()) for each in QUESTIONS]
    windows = formulation.features(records)
    assert len(windows) > 3 * len(records)
    for record, found in zip(records, predict_all(model, formulation, records), strict=True):
        encoded = tokenizer(
            record.query,
            context,
            truncation="only_second",
            max_length=SHORT.max_tokens,
            stride=SHORT.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        with torch.no_grad():
            logits = theirs(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"])
        best: dict[tuple[int, int], float] = {}
        no_answer = []
        for number, offsets in enumerate(encoded["offset_mapping"].tolist()):
            places = [place for place, text in enumerate(encoded.sequence_ids(number)) if text == 1]
            for place in places:
                if encoded["input_ids"][number, place] == blank:  # given the offsets of the next token's first letter
                    offsets[place][1] = offsets[place][0]
            start, end = (
                softmax({place: scores[number, place].item() for place in [0, *places]})
                for scores in (logits.start_logits, logits.end_logits)
            )
            no_answer.append(start[0] * end[0])
            for first in places:
                for last in range(first, min(first + SHORT.max_answer_tokens, places[-1] + 1)):
                    text = context[offsets[first][0] : offsets[last][1]]
                    begin = offsets[first][0] + len(text) - len(text.lstrip())
                    span = begin, begin + len(text.strip())
                    best[span] = max(best.get(span, 0.0), start[first] * end[last])
        expected = sorted(((score, *span) for span, score in best.items() if span[0] < span[1]), reverse=True)[:20]
        assert [each.score for each in found.spans[:20]] == pytest.approx([each[0] for each in expected], rel=1e-3)
        assert found.scores["no_answer"] == pytest.approx(min(no_answer), rel=1e-3)
        # Some random heads give two spans nearly the same probability: which is first, rounding decides.
        assert [best[span[:2]] for span in found.spans[:20]] == pytest.approx([each[0] for each in expected], rel=1e-3)


def window(record: int, starts: list[int], ends: list[int]) -> MrcWindow:
    """One of which the model reads the context's tokens after 4 others."""
    ids, context = np.zeros(4 + len(starts), np.int32), (4, 4 + len(starts))
    edges = np.array(starts, np.int32), np.array(ends, np.int32)
    return MrcWindow("x", record, None, ids, (1, 2), context, 0, (), False, *edges)


def answers(*spans: tuple[int, int, float], no_answer: float = 0.5) -> WindowAnswers:
    """Places in the context and probabilities."""
    first, last, p = (np.array(each) for each in zip(*spans, strict=True)) if spans else [np.array([])] * 3
    return WindowAnswers(first + 4, last + 4, np.log(p), math.log(no_answer))


def predicted(context: str, windows: list[MrcWindow], outputs: list[WindowAnswers], best: int = 20) -> Prediction:
    return question_predictions([replace(QUESTIONS[0], context=context)], windows, outputs, best)[0]


def test_windows_of_a_record_are_one_list_of_answers_with_the_better_score_of_those_found_twice() -> None:
    context = "one two three"
    windows = [window(0, [0, 4], [3, 7]), window(0, [4, 8], [7, 13])]
    outputs = [
        answers((0, 0, 0.4), (1, 1, 0.3), (0, 1, 0.1), no_answer=0.2),
        answers((0, 0, 0.5), (1, 1, 0.4), (0, 1, 0.05), no_answer=0.01),
    ]
    found = predicted(context, windows, outputs)
    assert [(span.text, round(span.score, 6)) for span in found.spans] == [
        ("two", 0.5),
        ("one", 0.4),  # of equal ones the earlier
        ("three", 0.4),
        ("one two", 0.1),
        ("two three", 0.05),
    ]
    assert all(span.text == context[span.start_char : span.end_char] for span in found.spans)
    assert found.scores == {"no_answer": pytest.approx(0.01)}
    assert predicted(context, windows, outputs, best=2).spans == found.spans[:2]


def test_answers_have_no_blanks_at_their_edges_and_are_never_empty() -> None:
    # "▁" that stands alone before a word is an empty token at the word; others may hold a blank.
    context = "a\u3000b  河"
    windows = [window(0, [0, 1, 2, 5, 5], [1, 3, 5, 5, 6])]
    outputs = [answers((1, 3, 0.5), (2, 3, 0.4), (3, 3, 0.3), (3, 4, 0.2), (4, 4, 0.1))]
    assert predicted(context, windows, outputs).spans == (
        Span(2, 3, "b", pytest.approx(0.5)),
        Span(5, 6, "河", pytest.approx(0.2)),
    )


def test_a_record_without_windows_has_an_empty_prediction(plain: tuple[PlainQuestions, Pretrained]) -> None:
    formulation, start = plain
    records = [replace(QUESTIONS[0], context=" ", answers=()), QUESTIONS[1]]
    empty, other = predict_all(reader_of(formulation, start), formulation, records)
    assert empty == Prediction(records[0].id, ())
    assert other.id == records[1].id
    assert other.spans


def test_a_batch_may_be_of_no_window(plain: tuple[PlainQuestions, Pretrained]) -> None:
    formulation, start = plain
    with torch.no_grad():
        assert formulation.outputs(reader_of(formulation, start), formulation.batch([])) == []


def test_keeps_as_many_answers_as_asked_for(plain: tuple[PlainQuestions, Pretrained]) -> None:
    formulation, start = plain
    model = reader_of(formulation, start)
    many = predict_all(model, replace(formulation, best=50), QUESTIONS[:3])
    few = predict_all(model, replace(formulation, best=5), QUESTIONS[:3])
    assert all(len(each.spans) == 5 for each in few)
    assert all(40 < len(each.spans) <= 50 for each in many)  # some of 50 may be blank, or the same without blanks
    assert [each.spans[:5] for each in many] == [each.spans for each in few]


def test_window_answers_leave_out_what_a_window_has_not() -> None:
    top = torch.tensor([[3, -1], [2, 1]]), torch.tensor([[4, -1], [2, 2]]), torch.tensor([[-1, -torch.inf], [-2, -3]])
    one, two = window_answers(*top, torch.tensor([-0.5, -0.25]))
    assert [each.tolist() for each in one[:3]] == [[3], [4], [-1]]
    assert [each.tolist() for each in two[:3]] == [[2, 1], [2, 2], [-2, -3]]
    assert (one.no_answer, two.no_answer) == (-0.5, -0.25)


def test_que_begins_with_the_pre_trained_head_if_it_is_of_that_kind(que: tuple[QueQuestions, Pretrained]) -> None:
    formulation, start = que
    size = start.language_model.config.hidden_size
    for deep in (False, True):
        before = SpanHead(size, deep)
        head = formulation.heads(start._replace(heads={"span": before}), seed=3)["span"]
        same = all(
            before.state_dict()[key].equal(value) for key, value in head.state_dict().items() if "weight.w" in key
        )
        assert same is not deep
        fresh = formulation.heads(start, seed=3)["span"].state_dict()
        assert all(value.equal(fresh[key]) for key, value in head.state_dict().items()) is deep


def test_que_alone_decides_what_is_asked(que: tuple[QueQuestions, Pretrained]) -> None:
    """Every window is read with its own [QUE]."""
    formulation, start = que
    model, batch = reader_of(formulation, start), formulation.batch(formulation.features(QUESTIONS))
    assert batch.inputs.ids_T[batch.que_N].tolist() == [formulation.encoder.que_id] * len(QUESTIONS)
    hidden_TD = model.encoder(batch.inputs)
    start_NL, _ = formulation.scores(model, hidden_TD, batch)
    for row, (first, end) in enumerate(zip(batch.inputs.bounds_N1, batch.inputs.bounds_N1[1:], strict=False)):
        expected_L = hidden_TD[first:end] @ model.heads["span"].start.weight(hidden_TD[batch.que_N[row]])
        torch.testing.assert_close(start_NL[row, : end - first], expected_L)
