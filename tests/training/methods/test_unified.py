from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from tests.training.methods.fitting import fit, predict_all, reader_of
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.methods import unified
from training.methods.base import seeded
from training.methods.rationales import with_rationales
from training.methods.unified import UnifiedQuestions, UnifiedTags
from training.methods.unified_pairs import UnifiedPairs
from training.metrics.tags import Entity, entities
from training.models.folder import Pretrained
from training.models.heads import WaeExtractor
from training.models.tiny import train_tokenizer
from training.objectives.wae_spans import LikelySpans
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Unified, check_method
from training.tasks import paws_x, universal_ner
from training.tasks.columns import located
from training.tasks.predictions import Prediction, Span
from training.tasks.queries import PAIR_QUERIES, SPAN_QUERIES, rationale_queries

SMALL = Unified(extractor_inner=64, extractor_dropout=0.0)
QA = InferenceSettings(SMALL, "qa", max_tokens=128, max_query_tokens=64, stride=16, max_answer_tokens=12)
NER = replace(QA, kind="tagging", labels=("LOC", "MISC", "ORG", "PER"), max_tokens=200, max_query_tokens=100)
PAIRS = replace(QA, kind="pairs", labels=("0", "1"), max_tokens=200, max_query_tokens=80)


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    """One that knows every character of the texts below, so that ids read as the texts themselves."""
    pairs = [text for each in PAIR_RECORDS for text in (each.sentence1, each.sentence2)]
    queries = [*SPAN_QUERIES.values(), *PAIR_QUERIES.values(), "Hypothesis : Premise :"]
    sentences = [each.text for each in (*SENTENCES, PLACE)]
    questions = [text for each in QUESTIONS for text in (each.query, each.context)]
    return TextEncoder(train_tokenizer(iter(2 * (pairs + queries + sentences + questions))))


@pytest.fixture
def start(encoder: TextEncoder) -> Pretrained:
    config = XLMRobertaConfig(
        vocab_size=len(encoder.tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        initializer_range=0.1,
    )
    with seeded(0):
        return Pretrained(XLMRobertaForMaskedLM(config), encoder.tokenizer, {}, None)


def sentence(text: str, words: str, tags: str, lang: str = "en") -> TaggingExample:
    tokens = located(words.split(" "), text)
    assert tokens is not None
    return TaggingExample(text, lang, text, tokens, tuple(tags.split(" ")), "conll")


def question(query: str, context: str, *answers: str) -> MrcExample:
    spans = tuple(CharSpan(context.index(answer), context.index(answer) + len(answer)) for answer in answers)
    return MrcExample(query, "en", query, context, spans, answers, bool(answers), "squad", None)


JAPAN_WORDS = (
    "Two goals in the last six minutes gave holders Japan an uninspiring 2-1 Asian Cup victory over Syria on Friday ."
)
JAPAN = sentence(
    JAPAN_WORDS.replace(" .", "."),
    JAPAN_WORDS,
    "O O O O O O O O O B-LOC O O O B-MISC I-MISC O O B-LOC O O O",
)
PLACE = sentence(
    "Nice ambience, but highly overrated place.",
    "Nice ambience , but highly overrated place .",
    "O B-POS O O O O B-NEG O",
)
SENTENCES = [
    JAPAN,
    sentence("安娜住在河内。", "安娜 住 在 河内 。", "B-PER O O B-LOC O", "zh"),
    sentence("อันนาไปกรุงเทพ", "อันนา ไป กรุงเทพ", "B-PER O B-LOC", "th"),
    sentence("آنا تعيش في هانوي.", "آنا تعيش في هانوي .", "B-PER O O B-LOC O", "ar"),
    sentence("Nothing here.", "Nothing here .", "O O O"),
]
QUESTIONS = [
    question("Who founded it?", "Anna Smith founded the school in 1999 .", "Anna Smith"),
    question("When was it founded?", "Anna Smith founded the school in 1999 .", "1999"),
    question("Who closed it?", "Anna Smith founded the school in 1999 ."),
    question("谁住在哪里?", "安娜住在河内。", "安娜"),
    question("من هي؟", "آنا تعيش في هانوي.", "آنا"),
]
PAIR = PairExample("p0", "en", "Anna left .", "Anna stayed .", "0", "paws_x")
PAIR_RECORDS = [
    PAIR,
    PairExample("p1", "en", "Anna left .", "Anna went .", "1", "paws_x"),
    PairExample("p2", "zh", "安娜住在河内。", "安娜在河内住。", "1", "paws_x"),
]


# --- what is read: table 6 --------------------------------------------------------------------------------------------


def pieces(encoder: TextEncoder, window: MrcWindow) -> tuple[str, str, list[str]]:
    """Query, context and answers as the ids read."""

    def text(first: int, end: int) -> str:
        return encoder.tokenizer.decode(window.ids[first:end]).strip()

    return text(*window.query), text(*window.context), [text(first, last + 1) for first, last in window.answers]


def test_a_sentence_gives_table_6s_sequences(encoder: TextEncoder) -> None:
    windows = UnifiedTags(NER, encoder).features([JAPAN])

    assert [(each.label, pieces(encoder, each)[2], each.answerable) for each in windows] == [
        ("LOC", ["Japan", "Syria"], True),
        ("MISC", ["Asian Cup"], True),
        ("ORG", [], False),
        ("PER", [], False),
    ]
    assert pieces(encoder, windows[3])[0] == '"PER" . Person entities are named persons or family .'
    bos, eos = encoder.tokenizer.bos_token_id, encoder.tokenizer.eos_token_id
    for window in windows:
        assert pieces(encoder, window)[1] == JAPAN.text
        around = [0, window.query[1], window.query[1] + 1, len(window.ids) - 1]
        assert window.ids[around].tolist() == [bos, eos, eos, eos]
        assert (window.query[0], window.context) == (1, (window.query[1] + 2, len(window.ids) - 1))
        assert window.record == 0 and window.notes == ()


def test_targets_of_sentiments_give_table_6s_places(encoder: TextEncoder) -> None:
    windows = UnifiedTags(replace(NER, labels=("POS", "NEG", "NEU")), encoder).features([PLACE])

    assert [pieces(encoder, each)[2] for each in windows] == [["ambience"], ["place"], []]


def test_a_pair_is_one_window_a_label_that_cls_answers(encoder: TextEncoder) -> None:
    pairs = UnifiedPairs(PAIRS, encoder).features(PAIR_RECORDS[:2])
    windows = [window for pair in pairs for window in pair.windows]

    assert [(pair.id, pair.record, len(pair.ids)) for pair in pairs] == [
        (record.id, index, sum(len(window.ids) for window in pair.windows))
        for index, (record, pair) in enumerate(zip(PAIR_RECORDS, pairs, strict=False))
    ]
    assert [(each.record, each.label, each.answers, each.answerable, each.notes) for each in windows] == [
        (0, "0", (), True, ()),
        (0, "1", (), False, ()),
        (1, "0", (), False, ()),
        (1, "1", (), True, ()),
    ]
    assert pieces(encoder, windows[0])[:2] == (
        "Contradiction . The hypothesis is a sentence with a contradictory meaning to the premise .",
        "Hypothesis : Anna left . Premise : Anna stayed .",
    )


def test_a_pair_that_is_too_long_loses_the_end_of_its_premise(encoder: TextEncoder) -> None:
    long = replace(PAIR, sentence2="Anna " * 200)

    pairs = UnifiedPairs(PAIRS, encoder).features([long, PAIR])
    windows = [window for pair in pairs for window in pair.windows]

    assert [pair.notes for pair in pairs] == [("truncated_pair",), ()]
    assert [(each.record, each.label, each.notes) for each in windows] == [
        (0, "0", ("truncated_pair",)),
        (0, "1", ("truncated_pair",)),
        (1, "0", ()),
        (1, "1", ()),
    ]
    assert {len(each.ids) for each in windows[:2]} == {PAIRS.max_tokens}
    assert pieces(encoder, windows[0])[1].startswith("Hypothesis : Anna left . Premise : Anna Anna")


def test_a_label_that_the_model_does_not_know_is_named(encoder: TextEncoder) -> None:
    with pytest.raises(InputError, match="expected a label of ORG, found LOC"):
        UnifiedTags(replace(NER, labels=("ORG",)), encoder).features([JAPAN])
    with pytest.raises(InputError, match="p0: expected a label of entailment, found 0"):
        UnifiedPairs(replace(PAIRS, labels=("entailment",)), encoder).features([PAIR])


# --- what the loss is over --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, over", [("pairs", "cls"), ("tagging", "context"), ("qa", "context")])
def test_pairs_learn_from_cls_alone_and_other_tasks_without_it_as_the_released_code(kind: str, over: str) -> None:
    assert SMALL.cells_of(kind) == over
    assert replace(SMALL, cells="all").cells_of(kind) == "all"
    wrong = {"cls": "context", "context": "cls"}[over]
    with pytest.raises(ConfigError, match=f"--cells {wrong} trains nothing that {kind} needs. Expected {over}"):
        check_method(replace(SMALL, cells=wrong), kind)  # type: ignore[arg-type]


def touched(
    formulation: UnifiedPairs | UnifiedTags | UnifiedQuestions, records: Sequence[Any], start: Pretrained
) -> set[str]:
    """The tokens of the first sequence whose scores the loss depends on."""
    model = reader_of(formulation, start)
    batch = formulation.batch(formulation.features(records))  # type: ignore[attr-defined]
    factors = [factor.detach().requires_grad_() for factor in formulation.factors(model, batch)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(formulation), "factors", lambda *_: tuple(factors))
        losses = formulation.losses(model, batch, None)
    gradients = torch.autograd.grad(sum(loss.total for loss in losses.values()), factors, allow_unused=True)
    places = {place for each in gradients if each is not None for place in each.abs().sum(1).nonzero()[:, 0].tolist()}
    first, (begin, end) = int(batch.inputs.bounds_N1[1]), batch.context_N2[0].tolist()
    return {
        "cls" if place == 0 else "context" if begin <= place < end else "other" for place in places if place < first
    }


@pytest.mark.parametrize(
    "cells, pairs, tags, questions",
    [
        ("auto", {"cls"}, {"context"}, {"context"}),
        ("all", {"cls", "context"}, {"cls", "context"}, {"cls", "context"}),
    ],
)
def test_the_gradient_reaches_the_scores_that_the_loss_is_over(
    start: Pretrained, cells: Any, pairs: set[str], tags: set[str], questions: set[str]
) -> None:
    encoder, method = TextEncoder(start.tokenizer), replace(SMALL, cells=cells)
    assert touched(UnifiedPairs(replace(PAIRS, method=method), encoder), PAIR_RECORDS, start) == pairs
    assert touched(UnifiedTags(replace(NER, method=method), encoder), SENTENCES, start) == tags
    assert touched(UnifiedQuestions(replace(QA, method=method), encoder), QUESTIONS, start) == questions


def test_a_batch_counts_pairs_with_all_their_queries_and_sentences_once_for_each_label(start: Pretrained) -> None:
    encoder = TextEncoder(start.tokenizer)
    pairs, tags = UnifiedPairs(PAIRS, encoder), UnifiedTags(NER, encoder)
    of_pairs, of_tags = pairs.features(PAIR_RECORDS), tags.features(SENTENCES)
    batch = pairs.batch(of_pairs)

    assert len(of_pairs) == len(PAIR_RECORDS) and len(of_tags) == len(SENTENCES) * len(NER.labels)
    assert batch.example_ids == ("p0", "p1", "p2")
    assert batch.pair_N.tolist() == [0, 0, 1, 1, 2, 2]
    assert pairs.counts(batch) == {"wae": 6}  # a mean over label queries
    assert [len(feature.ids) for feature in of_pairs] == batch.inputs.bounds_N1[::2].diff().tolist()


# --- what is learnt ---------------------------------------------------------------------------------------------------


def test_tags_are_learnt_by_heart(start: Pretrained) -> None:
    formulation = UnifiedTags(replace(NER, labels=("LOC", "MISC", "PER")), TextEncoder(start.tokenizer))

    predictions = predict_all(fit(formulation, SENTENCES, start, steps=300), formulation, SENTENCES)

    assert [each.tags for each in predictions] == [each.tags for each in SENTENCES]
    assert [(span.text, span.label) for span in predictions[0].spans] == [
        ("Japan", "LOC"),
        ("Asian Cup", "MISC"),
        ("Syria", "LOC"),
    ]
    for record, prediction in zip(SENTENCES, predictions, strict=True):
        assert all(record.text[span.start_char : span.end_char] == span.text for span in prediction.spans)
        assert all(0.5 < span.score < 1 for span in prediction.spans)


def test_questions_are_learnt_by_heart(start: Pretrained) -> None:
    formulation = UnifiedQuestions(QA, TextEncoder(start.tokenizer))

    predictions = predict_all(fit(formulation, QUESTIONS, start, steps=150), formulation, QUESTIONS)

    answered = [each for each in predictions if each.scores["no_answer"] < 0.5]
    assert [each.spans[0].text for each in answered] == ["Anna Smith", "1999", "安娜", "آنا"]
    assert [each.id for each in predictions if each not in answered] == ["Who closed it?"]
    assert all(each.spans[0].score > 0.5 > each.spans[1].score for each in answered)


def test_pairs_are_learnt_by_heart(start: Pretrained) -> None:
    formulation = UnifiedPairs(PAIRS, TextEncoder(start.tokenizer))

    predictions = predict_all(fit(formulation, PAIR_RECORDS, start, steps=250), formulation, PAIR_RECORDS)

    assert [each.label for each in predictions] == [each.label for each in PAIR_RECORDS]
    for record, prediction in zip(PAIR_RECORDS, predictions, strict=True):
        assert prediction.scores[record.label or ""] > 0.5 > min(prediction.scores.values())


@pytest.mark.parametrize("cells", ["cls", "all"])
def test_pairs_are_learnt_by_heart_from_the_template_of_rationales(start: Pretrained, cells: Any) -> None:
    method = replace(SMALL, template="sentences", cells=cells)
    formulation = UnifiedPairs(replace(PAIRS, method=method), TextEncoder(start.tokenizer))
    assert [len(pair.windows) for pair in formulation.features(PAIR_RECORDS)] == [4, 4, 4]

    predictions = predict_all(fit(formulation, PAIR_RECORDS, start, steps=150), formulation, PAIR_RECORDS)

    assert [each.label for each in predictions] == [each.label for each in PAIR_RECORDS]


def test_the_score_of_a_label_is_the_mean_over_both_sentences(encoder: TextEncoder) -> None:
    formulation = UnifiedPairs(replace(PAIRS, method=replace(SMALL, template="sentences")), encoder)
    pairs = formulation.features([replace(PAIR, sentence1="Anna " * 300), PAIR])

    _, prediction = formulation.predictions([PAIR, PAIR], pairs, [(0.0, 0.0, 0.0, 0.0), (2.0, -1.0, 3.0, -3.0)])

    assert [(window.label, window.answerable) for window in pairs[1].windows] == [
        *(("0", True), ("0", True), ("1", False), ("1", False))
    ]
    assert prediction.label == "0"
    assert prediction.scores == {"0": pytest.approx(1 / (1 + math.exp(-0.5))), "1": pytest.approx(0.5)}
    # Half of the tokens is for the query, so both sentences of the long pair are cut.
    assert pairs[0].notes == ("truncated_pair", "truncated_query")


def test_the_log_tells_of_what_the_loss_is_over(start: Pretrained) -> None:
    encoder = TextEncoder(start.tokenizer)
    figures = {}
    everything = replace(NER, method=replace(SMALL, cells="all"))
    for name, formulation, records in (
        ("pairs", UnifiedPairs(PAIRS, encoder), PAIR_RECORDS),
        ("tagging", UnifiedTags(NER, encoder), SENTENCES),
        ("all", UnifiedTags(everything, encoder), SENTENCES),
    ):
        batch = formulation.batch(formulation.features(records))  # type: ignore[arg-type]
        figures[name] = formulation.losses(reader_of(formulation, start), batch, None)["wae"].figures
    assert {name: set(of) for name, of in figures.items()} == {
        "pairs": {"answerable"},
        "tagging": {"exact"},
        "all": {"answerable", "exact"},
    }


def test_training_goes_on_with_the_pretrained_extractor(start: Pretrained) -> None:
    known = WaeExtractor(32, 64, 0.0)
    formulation = UnifiedTags(NER, TextEncoder(start.tokenizer))

    with_known = formulation.heads(start._replace(heads={"wae": known}), seed=0)["wae"]
    other_size = formulation.heads(start._replace(heads={"wae": WaeExtractor(32, 32, 0.0)}), seed=0)["wae"]

    assert torch.equal(with_known.inner.weight, known.inner.weight)
    assert other_size.inner.weight.shape == (64, 32)


def test_predictions_do_not_depend_on_the_other_windows_of_a_batch(start: Pretrained) -> None:
    formulation = UnifiedTags(replace(NER, method=replace(SMALL, threshold=0.4)), TextEncoder(start.tokenizer))
    model = reader_of(formulation, start)

    together = predict_all(model, formulation, SENTENCES)
    alone = [predict_all(model, formulation, [each])[0] for each in SENTENCES]

    assert [each.tags for each in together] == [each.tags for each in alone]
    assert sum(len(each.spans) for each in together) > 5


# --- from scores to entities ------------------------------------------------------------------------------------------


def everything(window: MrcWindow, score: float) -> LikelySpans:
    """All spans of its context, each with the same S."""
    first, last = np.triu_indices(window.context[1] - window.context[0])
    return LikelySpans(first + window.context[0], last + window.context[0], np.full(len(first), score, np.float32))


def decoded(
    encoder: TextEncoder,
    record: TaggingExample,
    scores: Sequence[tuple[str, str, float]],
    settings: InferenceSettings = NER,
) -> Prediction:
    """The prediction if the model gives these texts, under these labels, these scores S; each in all its windows."""
    formulation = UnifiedTags(settings, encoder)
    windows = formulation.features([record])
    outputs = []
    for each in windows:
        found = []
        for text, label, score in scores:
            start = record.text.index(text)
            starts, ends = each.starts.tolist(), each.ends.tolist()
            if label == each.label and start in starts and start + len(text) in ends:
                last = len(ends) - 1 - ends[::-1].index(start + len(text))
                first = max(at for at in range(last + 1) if starts[at] <= start and (at == 0 or starts[at - 1] < start))
                while starts[first] == ends[first]:
                    first += 1
                found.append((first + each.context[0], last + each.context[0], score))
        columns = list(zip(*found, strict=True)) or [(), (), ()]
        outputs.append(
            LikelySpans(
                np.array(columns[0], np.int64), np.array(columns[1], np.int64), np.array(columns[2], np.float32)
            )
        )
    (prediction,) = formulation.predictions([record], windows, outputs)
    return prediction


@pytest.mark.parametrize(
    "scores, expected",
    [
        ([("Asian Cup", "MISC", 2.0), ("Asian", "LOC", 1.0)], [("Asian Cup", "MISC")]),  # nested: the better one
        ([("Asian Cup", "MISC", 1.0), ("Asian", "LOC", 2.0)], [("Asian", "LOC")]),
        ([("Cup victory", "ORG", 1.5), ("Asian Cup", "MISC", 2.0), ("victory over", "PER", 1.0)], None),
        ([("Asian Cup", "MISC", 1.0), ("Asian", "LOC", 1.0)], [("Asian", "LOC")]),  # equal: the shorter
        ([("Cup victory", "MISC", 1.0), ("Asian Cup", "PER", 1.0)], [("Asian Cup", "PER")]),  # equal: the earlier
        ([("Japan", "PER", 1.0), ("Japan", "MISC", 1.0)], [("Japan", "MISC")]),  # equal: the first label
        ([("Syria", "LOC", 1.0), ("Japan", "LOC", 3.0)], [("Japan", "LOC"), ("Syria", "LOC")]),
    ],
)
def test_of_spans_that_overlap_the_best_stays(
    encoder: TextEncoder, scores: list[tuple[str, str, float]], expected: list[tuple[str, str]] | None
) -> None:
    prediction = decoded(encoder, JAPAN, scores)

    # A span that lost lets others stay which overlap with it alone.
    assert [(span.text, span.label) for span in prediction.spans] == (
        expected or [("Asian Cup", "MISC"), ("victory over", "PER")]
    )
    assert [(each.start, each.end) for each in entities(prediction.tags)] == [
        (JAPAN.words.index(span.text.split()[0]), JAPAN.words.index(span.text.split()[-1]) + 1)
        for span in prediction.spans
    ]


def test_what_overlaps_is_handed_over_unresolved(encoder: TextEncoder) -> None:
    scores = [("Asian Cup", "MISC", 2.0), ("Asian", "LOC", 1.0), ("Asian Cup", "ORG", 1.0), ("Syria", "LOC", 1.0)]

    prediction = decoded(encoder, JAPAN, scores)

    assert prediction.unresolved == (
        Entity(13, 14, "LOC"),
        Entity(13, 15, "MISC"),
        Entity(13, 15, "ORG"),
        Entity(17, 18, "LOC"),
    )
    assert entities(prediction.tags) == [Entity(13, 15, "MISC"), Entity(17, 18, "LOC")]


def test_scores_are_probabilities(encoder: TextEncoder) -> None:
    (span,) = decoded(encoder, JAPAN, [("Japan", "LOC", 2.0)]).spans

    assert span == Span(47, 52, "Japan", pytest.approx(1 / (1 + math.exp(-2))), "LOC")


def test_spans_begin_and_end_with_words(encoder: TextEncoder) -> None:
    window, *_ = UnifiedTags(NER, encoder).features([JAPAN])
    spans = everything(window, 0.0)

    found = list(unified._whole_words(window, spans))

    starts, ends = zip(*JAPAN.tokens, strict=True)
    assert sorted(found) == [(start, end, 0.0) for start in starts for end in ends if start < end]
    assert len(found) < len(spans.score_K)


def test_a_span_of_several_windows_has_its_best_score(encoder: TextEncoder) -> None:
    text = " ".join(["Anna", "met", "Hanoi"] * 8)
    record = sentence(text, text, " ".join(["O"] * 24))
    settings = replace(NER, labels=("PER",), max_tokens=64, max_query_tokens=40, stride=10)
    formulation = UnifiedTags(settings, encoder)
    windows = formulation.features([record])
    assert len(windows) > 2

    outputs = [everything(each, 1.0 + number) for number, each in enumerate(windows)]
    (prediction,) = formulation.predictions([record], windows, outputs)

    last = {start: number for number, each in enumerate(windows) for start in each.starts.tolist()}  # that holds it
    assert {span.start_char: span.score for span in prediction.spans} == {
        start: pytest.approx(1 / (1 + math.exp(-1.0 - last[start]))) for start, _ in record.tokens
    }


def test_the_threshold_decides_what_is_found(start: Pretrained) -> None:
    counts = []
    for threshold in (0.0, 0.5, 1.0):
        formulation = UnifiedTags(
            replace(NER, method=replace(SMALL, threshold=threshold)), TextEncoder(start.tokenizer)
        )
        model = reader_of(formulation, start)
        batch = formulation.batch(formulation.features(SENTENCES))
        with torch.no_grad():
            counts.append(sum(len(each.score_K) for each in formulation.outputs(model, batch)))
    assert counts[0] > counts[1] > counts[2] == 0


def test_a_sentence_of_no_tokens_has_no_entities(encoder: TextEncoder) -> None:
    empty = TaggingExample("e", "en", "\u200b", (CharSpan(0, 1),), (), "wikiann")

    (prediction,) = UnifiedTags(NER, encoder).predictions([empty], [], [])

    assert prediction == Prediction("e", (), tags=("O",), unresolved=())


# --- rationales -------------------------------------------------------------------------------------------------------


def test_rationales_stand_in_the_sentence_that_they_name(encoder: TextEncoder) -> None:
    record = replace(PAIR_RECORDS[2], label="0", sentence2="河内住在哪里。")
    asked = []

    def predict(formulation: UnifiedQuestions, questions: Sequence[MrcExample]) -> list[Prediction]:
        asked.extend(formulation.features(questions))
        answers = {"sentence1": ("河内", 0.3), "sentence2": ("河内", 0.7)}
        predictions = []
        for each in questions:
            text, score = answers[each.label or ""]
            at = each.context.index(text)
            predictions.append(Prediction(each.id, (Span(at, at + len(text), text, score),)))
        return predictions

    predictions = [Prediction("p", (), "0", {"0": 0.9, "1": 0.2}), Prediction("unread", ())]
    explained, unread = with_rationales(UnifiedPairs(PAIRS, encoder), [record, PAIR], predictions, predict)

    assert explained == predictions[0]._replace(
        spans=(Span(0, 2, "河内", 0.7, "sentence2"), Span(4, 6, "河内", 0.3, "sentence1"))
    )
    assert unread == predictions[1]
    assert [pieces(encoder, each.window)[:2] for each in asked] == [
        (f"Contradiction . {record.sentence2}", record.sentence1),
        (f"Contradiction . {record.sentence1}", record.sentence2),
    ]


def test_rationales_are_whole_words_and_as_many_as_asked(start: Pretrained) -> None:
    """With random weights: the best spans would begin with a blank or end within a word."""
    records = [
        replace(PAIR, sentence1="  Anna   Smith left , Hanoi .", sentence2="安娜住在河内。"),
        replace(PAIR, sentence1="Anna", sentence2=". . ."),
    ]
    formulation = UnifiedPairs(PAIRS, TextEncoder(start.tokenizer))
    model = reader_of(formulation, start)

    found = with_rationales(
        formulation,
        records,
        predict_all(model, formulation, records),
        lambda asking, questions: predict_all(model, asking, questions),
        best=6,
    )

    for record, prediction in zip(records, found, strict=True):
        for sentence in (record.sentence1, record.sentence2):
            of_sentence = [span for span in prediction.spans if sentence[span.start_char : span.end_char] == span.text]
            for span in of_sentence:
                assert all(char.isalnum() for char in (span.text[0], span.text[-1]))
                assert not sentence[: span.start_char][-1:].isascii() or not sentence[: span.start_char][-1:].isalnum()
    assert [span.label for span in found[0].spans].count("sentence1") == 6
    assert [span.label for span in found[0].spans].count("sentence2") == 6
    assert [(span.text, span.label) for span in found[1].spans] == [("Anna", "sentence1")]


NAMES = ("Anna", "Hanoi", "Smith", "school", "Japan", "Syria", "Friday", "place")


def substituted(count: int, seed: int) -> list[tuple[PairExample, tuple[str, str]]]:
    """Pairs like PAWS-X's of label 0, whose sentences differ in one word; with the words that differ."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        words = rng.choice(NAMES, 5, replace=False).tolist()
        place, other = int(rng.integers(4)), words[4]
        changed = [*words[:4]]
        changed[place] = other
        pair = PairExample(f"s{number}", "en", " ".join(words[:4]), " ".join(changed), "0", "paws_x")
        found.append((pair, (words[place], other)))
    return found


@pytest.mark.slow
def test_rationales_are_the_words_that_were_changed_if_the_extractor_finds_them(start: Pretrained) -> None:
    """The extractor is taught to find in Sen-2 the word that Sen-1 lacks, as a stand-in for mPMR's pre-training."""
    encoder = TextEncoder(start.tokenizer)
    taught = []
    for pair, answers in substituted(400, seed=1):
        for query, answer in zip(rationale_queries(pair, "0"), answers, strict=True):
            at = query.context.index(answer)
            span = CharSpan(at, at + len(answer))
            taught.append(replace(query, answers=(span,), answer_texts=(answer,), answerable=True, label=None))
    asking = UnifiedQuestions(QA, encoder)
    model = fit(asking, taught, start, steps=200, lr=3e-3)
    formulation = UnifiedPairs(PAIRS, encoder)
    unseen = substituted(50, seed=2)
    records = [pair for pair, _ in unseen]

    predictions = [Prediction(pair.id, (), label="0") for pair in records]
    found = with_rationales(
        formulation, records, predictions, lambda asking, questions: predict_all(model, asking, questions)
    )

    right = [span.text in answers for (_, answers), each in zip(unseen, found, strict=True) for span in each.spans]
    assert len(right) == 100
    assert np.mean(right) > 0.8  # 0.25 of the words, 0.1 of the spans are right


def test_a_trained_model_gives_rationales_with_exact_places(start: Pretrained) -> None:
    formulation = UnifiedPairs(PAIRS, TextEncoder(start.tokenizer))
    model = fit(formulation, PAIR_RECORDS, start, steps=20)

    found = with_rationales(
        formulation,
        PAIR_RECORDS,
        predict_all(model, formulation, PAIR_RECORDS),
        lambda asking, questions: predict_all(model, asking, questions),
        best=3,
    )

    for record, prediction in zip(PAIR_RECORDS, found, strict=True):
        assert len(prediction.spans) == 6 and prediction.label in ("0", "1")
        assert sorted(prediction.spans, key=lambda span: -span.score) == list(prediction.spans)
        for span in prediction.spans:
            text = {"sentence1": record.sentence1, "sentence2": record.sentence2}[span.label or ""]
            assert text[span.start_char : span.end_char] == span.text != ""


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
def test_every_real_entity_can_be_found_again(shared_data: Path, encoder: TextEncoder) -> None:
    """Windows whose answers are the model's words give the gold tags, but for words that the tokenizer leaves out."""
    settings = replace(NER, labels=universal_ner.LABELS, max_tokens=512, max_query_tokens=128, max_answer_tokens=400)
    formulation = UnifiedTags(settings, encoder)
    total = exact = windows_in_all = records_in_all = 0
    for path in sorted((shared_data / "ner").glob("UNER_*PUD/*.iob2")):
        records, *_ = universal_ner.read(path)
        windows = formulation.features(records)
        outputs = []
        for each in windows:
            answers = np.array(each.answers, np.int64).reshape(-1, 2)
            outputs.append(LikelySpans(answers[:, 0], answers[:, 1], np.ones(len(answers), np.float32)))
        predictions = formulation.predictions(records, windows, outputs)
        for record, prediction in zip(records, predictions, strict=True):
            gold = entities(record.tags)
            total, exact = total + len(gold), exact + len(set(gold) & set(entities(prediction.tags)))
        windows_in_all, records_in_all = windows_in_all + len(windows), records_in_all + len(records)
    print(f"{exact} of {total} entities, {windows_in_all} windows of {records_in_all} sentences")
    assert exact == total > 4_000
    assert windows_in_all >= 3 * records_in_all


@pytest.mark.real_data
def test_every_real_pair_has_a_window_for_each_label(shared_data: Path, encoder: TextEncoder) -> None:
    for path in sorted((shared_data / "pairs" / "pawsx").glob("dev-[dz]*.tsv")):
        records, *_ = paws_x.read(path)
        pairs = UnifiedPairs(replace(PAIRS, max_tokens=512), encoder).features(records)
        windows = [window for pair in pairs for window in pair.windows]
        assert [(each.record, each.label) for each in windows] == [
            (record, label) for record in range(len(records)) for label in paws_x.LABELS
        ]
        assert [each.answerable for each in windows] == [
            record.label == label for record in records for label in paws_x.LABELS
        ]
