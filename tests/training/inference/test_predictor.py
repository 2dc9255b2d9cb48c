"""From records to predictions, with every method that reads a kind of task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from tests.training.tuned import METHODS, UNIFIED, Kind, inference_settings_of, named, records_of, save_tuned
from training.data.tokens import TextEncoder
from training.inference.predictor import Predictor, batches, load_predictor, model_in, predict
from training.methods.registry import formulation_class, formulation_of
from training.metrics.tags import entities
from training.models.tokenizer import load_tokenizer
from training.recipes.methods import MethodSettings, Plain, Que
from training.tasks.catalog import TASKS
from training.tasks.predictions import Prediction

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=METHODS, ids=named)
def loaded(
    request: pytest.FixtureRequest, xlmr_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Predictor, list[Prediction]]:
    """A model, and what it says of the records of its kind."""
    method, kind = request.param
    predictor = load_predictor(save_tuned(tmp_path_factory.mktemp("tuned") / "model", xlmr_folder, method, kind), CPU)
    return predictor, predict(predictor.model, predictor.formulation, records_of(kind), CPU)


def agree(found: list[Prediction], expected: list[Prediction]) -> None:
    """The same but for rounding."""
    for one, other in zip(found, expected, strict=True):
        assert (one.id, one.label, one.tags) == (other.id, other.label, other.tags)
        assert one.scores == pytest.approx(dict(other.scores), abs=1e-4)
        assert [each.score for each in one.spans] == pytest.approx([each.score for each in other.spans], abs=1e-4)
        best = one.spans[:1] if one.label is None and not one.tags else one.spans
        for span, its in zip(best, other.spans, strict=False):
            assert span._replace(score=0.0) == its._replace(score=0.0)


def test_a_model_that_was_saved_reads_as_its_formulation_does(loaded: tuple[Predictor, list[Prediction]]) -> None:
    predictor, found = loaded
    kind = predictor.settings.kind
    assert type(predictor.formulation) is formulation_class(predictor.settings.method, kind)
    assert [each.id for each in found] == [each.id for each in records_of(kind)]
    if kind == "qa":
        assert all(each.spans for each in found)
    elif kind == "tagging":
        assert [len(each.tags) for each in found] == [len(each.tokens) for each in records_of(kind)]
        assert any(each.spans for each in found)
    else:
        assert all(each.label in predictor.settings.labels for each in found)


def test_spans_are_pieces_of_their_text(loaded: tuple[Predictor, list[Prediction]]) -> None:
    predictor, found = loaded
    for record, prediction in zip(records_of(predictor.settings.kind), found, strict=True):
        text = {"qa": "context", "tagging": "text"}.get(predictor.settings.kind)
        assert text or not prediction.spans  # a label has no place
        for span in prediction.spans:
            assert span.text == getattr(record, text)[span.start_char : span.end_char] != ""
            assert 0 <= span.score <= 1


@pytest.mark.parametrize("most_tokens", [1, 150])
def test_who_is_in_a_batch_changes_nothing(loaded: tuple[Predictor, list[Prediction]], most_tokens: int) -> None:
    predictor, expected = loaded
    records = records_of(predictor.settings.kind)
    found = predict(predictor.model, predictor.formulation, records, CPU, most_tokens=most_tokens)
    agree(found, expected)


def test_records_are_read_some_at_a_time(
    loaded: tuple[Predictor, list[Prediction]], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, expected = loaded
    records = records_of(predictor.settings.kind)
    monkeypatch.setattr("training.inference.predictor.RECORDS_AT_ONCE", 3)
    counts: list[int] = []
    agree(predict(predictor.model, predictor.formulation, records, CPU, progress=counts.append), expected)
    assert counts == sorted(counts) and counts[-1] == len(records)


def test_dropout_is_off_and_the_mode_comes_back(loaded: tuple[Predictor, list[Prediction]]) -> None:
    predictor, expected = loaded
    predictor.model.train()
    try:
        agree(predict(predictor.model, predictor.formulation, records_of(predictor.settings.kind), CPU), expected)
        assert predictor.model.training and all(each.training for each in predictor.model.modules())
    finally:
        predictor.model.eval()
    assert all(each.grad is None for each in predictor.model.parameters())


def test_no_records_give_no_predictions(loaded: tuple[Predictor, list[Prediction]]) -> None:
    assert predict(loaded[0].model, loaded[0].formulation, [], CPU) == []


def test_batches_hold_sequences_of_similar_length() -> None:
    assert list(batches([3, 9, 2, 8, 30], 11)) == [
        [4],
        [1],
        [3, 0],
        [2],
    ]  # a sequence that is too long is a batch of its own
    assert list(batches([], 10)) == []


def test_a_method_that_has_nothing_for_a_kind_is_refused(xlmr_folder: Path) -> None:
    cases: list[tuple[MethodSettings, Kind, str]] = [
        (Que(), "pairs", "method que has nothing for pairs. Methods for it: plain, unified"),
        (Que(), "pairs", "Methods for it: plain, unified"),
    ]
    encoder = TextEncoder(load_tokenizer(xlmr_folder))
    for method, kind, message in cases:
        with pytest.raises(ConfigError, match=message):
            formulation_of(inference_settings_of(method, kind), encoder)


def test_models_that_cannot_read_so_far_are_refused(xlmr_folder: Path, tmp_path: Path) -> None:
    save_tuned(tmp_path / "model", xlmr_folder, Plain(), "pairs", max_tokens=513)
    with pytest.raises(ConfigError, match="read 513 tokens at once, but has positions for 512"):
        load_predictor(tmp_path / "model", CPU)


def test_a_runs_folder_names_its_model(tmp_path: Path) -> None:
    assert model_in(tmp_path) == tmp_path and model_in("owner/name") == "owner/name"
    (tmp_path / "run.json").write_text(json.dumps({}))
    with pytest.raises(InputError, match="has no model/ yet"):
        model_in(tmp_path)
    (tmp_path / "model").mkdir()
    assert model_in(tmp_path) == tmp_path / "model"


@pytest.mark.real_data
@pytest.mark.parametrize(
    "case, task, pattern",
    [
        ((Plain(), "qa"), "xquad", "qa/xquad/*.json"),
        ((UNIFIED, "qa"), "tydiqa", "qa/tydiqa/*.dev.json"),
        ((Plain(), "tagging"), "universal_ner", "ner/UNER_*/*test.iob2"),
        ((UNIFIED, "tagging"), "universal_ner", "ner/UNER_*/*test.iob2"),
    ],
)
def test_predicted_spans_of_real_texts_have_correct_offsets(
    case: tuple[MethodSettings, Kind], task: str, pattern: str, xlmr_folder: Path, shared_data: Path, tmp_path: Path
) -> None:
    method, kind = case
    longer = {"max_tokens": 256, "stride": 32}
    predictor = load_predictor(save_tuned(tmp_path / "model", xlmr_folder, method, kind, **longer), CPU)
    paths = sorted(shared_data.glob(pattern))
    records = [record for path in paths for record in TASKS[task].read(path, None)[0][:100:10]]
    assert len({record.lang for record in records}) > 1
    found = predict(predictor.model, predictor.formulation, records, CPU)
    for record, prediction in zip(records, found, strict=True):
        text = record.context if kind == "qa" else record.text
        assert all(span.text == text[span.start_char : span.end_char] != "" for span in prediction.spans)
        if kind == "qa":
            assert prediction.spans
            continue
        # The tags say the same as the spans.
        words = [(span.start_char, span.end_char, span.label) for span in prediction.spans]
        tokens = record.tokens
        assert words == [
            (tokens[each.start].start, tokens[each.end - 1].end, each.type) for each in entities(prediction.tags)
        ]


def test_labels_change_nothing(xlmr_folder: Path, tmp_path: Path) -> None:
    """The first answer fits no piece whole, for which training adds a piece around it: prediction may not."""
    folder = save_tuned(tmp_path / "model", xlmr_folder, Plain(), "qa", max_tokens=28, max_query_tokens=8, stride=2)
    model, formulation, _, _, device, _ = load_predictor(folder, torch.device("cpu"))
    context = " ".join(f"word{number}" for number in range(30))
    start, end = context.index("word3 "), context.index(" word7")
    answers, texts = (CharSpan(start, end),), (context[start:end],)
    known = MrcExample("1", "en", "Which?", context, answers, texts, answerable=True, task="xquad", label=None)
    blind = replace(known, answers=(), answer_texts=(), answerable=False)
    assert len(formulation.features([known])) > len(formulation.features([blind]))  # else this shows nothing
    assert predict(model, formulation, [known], device) == predict(model, formulation, [blind], device)
