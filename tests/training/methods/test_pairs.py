from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, pipeline

from schemas.mrc import PairExample
from tests.training.methods.fitting import fit, loss_of, predict_all, reader_of
from tests.training.models.families import FAMILIES, family_folder
from training.data.tokens import TextEncoder
from training.methods.pairs import PlainPairs
from training.models.finetuned import save_finetuned
from training.models.folder import Provenance, load_model
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain

READING = InferenceSettings(Plain(), "pairs", ("contradiction", "entailment", "neutral"), max_tokens=128)
PROVENANCE = Provenance("xlm-roberta-base", {}, {}, 0)

PAIRS = [
    PairExample("1", "en", "Anna lives in Hanoi.", "Anna lives in Vietnam.", "entailment", "xnli"),
    PairExample("2", "vi", "Anna sống ở Hà Nội.", "Không ai sống ở Hà Nội.", "contradiction", "xnli"),
    PairExample("3", "ar", "آنا تعيش في هانوي", "آنا تحب هانوي", "neutral", "xnli"),
    PairExample("4", "zh", "安娜住在河内。", "没有人住在河内。", "contradiction", "xnli"),
    PairExample("5", "th", "แอนนาอยู่ที่ฮานอย", "แอนนา", "entailment", "xnli"),
]
TEXTS = [text for pair in PAIRS for text in (pair.sentence1, pair.sentence2)]


@pytest.fixture
def pairs_of_xlmr(xlmr_folder: Path) -> PlainPairs:
    return PlainPairs(READING, TextEncoder(load_model(xlmr_folder).tokenizer))


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_of_several_scripts_are_learnt_by_heart(family: str, xlmr_folder: Path, tmp_path: Path) -> None:
    start = load_model(family_folder(family, xlmr_folder, TEXTS, tmp_path / family))
    classifier = PlainPairs(READING, TextEncoder(start.tokenizer))
    assert loss_of(reader_of(classifier, start), classifier, PAIRS) > 1
    model = fit(classifier, PAIRS, start)
    assert loss_of(model, classifier, PAIRS) < 0.1
    predictions = predict_all(model, classifier, [replace(pair, label=None) for pair in PAIRS])
    assert [(each.id, each.label) for each in predictions] == [(pair.id, pair.label) for pair in PAIRS]
    for each in predictions:
        assert list(each.scores) == list(READING.labels) and sum(each.scores.values()) == pytest.approx(1)
        assert each.scores[each.label or ""] == max(each.scores.values()) > 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_hugging_face_says_the_same_with_the_exported_folder(family: str, xlmr_folder: Path, tmp_path: Path) -> None:
    """By its logits of padded pairs, and by its pipeline, which is given the texts."""
    start = load_model(family_folder(family, xlmr_folder, TEXTS, tmp_path / family))
    classifier = PlainPairs(READING, TextEncoder(start.tokenizer))
    model = fit(classifier, PAIRS, start, steps=4)  # unsure, so that probabilities say something
    folder, heads = tmp_path / "model", dict(model.heads.items())
    save_finetuned(folder, start.language_model, start.tokenizer, heads, READING, PROVENANCE, {})
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    features = classifier.features(PAIRS)
    batch = classifier.batch(features)
    with torch.no_grad():
        outputs = classifier.outputs(model, batch)
        ids_NL, mask_NL = batch.inputs.padded(theirs.config.pad_token_id)
        p_NC = theirs(input_ids=ids_NL, attention_mask=mask_NL.long()).logits.softmax(dim=1)
    np.testing.assert_allclose(np.stack(outputs), p_NC.numpy(), atol=1e-5)

    ask = pipeline("text-classification", str(folder), top_k=None)
    said = ask([{"text": pair.sentence1, "text_pair": pair.sentence2} for pair in PAIRS])
    for prediction, answers in zip(classifier.predictions(PAIRS, features, outputs), said, strict=True):
        scores = {answer["label"]: answer["score"] for answer in answers}
        assert prediction.scores == pytest.approx(scores, abs=1e-5)
        assert prediction.label == answers[0]["label"]


def test_the_loss_is_the_cross_entropy_of_pairs_that_have_a_label(pairs_of_xlmr: PlainPairs, xlmr_folder: Path) -> None:
    model = reader_of(pairs_of_xlmr, load_model(xlmr_folder))
    batch = pairs_of_xlmr.batch(pairs_of_xlmr.features([PAIRS[0], replace(PAIRS[1], label=None), PAIRS[2]]))
    with torch.no_grad():
        loss = pairs_of_xlmr.losses(model, batch, None)["pairs"]
        outputs = pairs_of_xlmr.outputs(model, batch)
    assert loss.total.item() == pytest.approx(-np.log(outputs[0][1]) - np.log(outputs[2][2]), rel=1e-5)
    assert loss.count.item() == pairs_of_xlmr.counts(batch)["pairs"] == 2


def test_pairs_without_a_label_alone_are_no_loss(pairs_of_xlmr: PlainPairs, xlmr_folder: Path) -> None:
    model = reader_of(pairs_of_xlmr, load_model(xlmr_folder))
    for records in ([], [replace(PAIRS[0], label=None)]):
        model.zero_grad()
        loss = pairs_of_xlmr.losses(model, pairs_of_xlmr.batch(pairs_of_xlmr.features(records)), None)["pairs"]
        loss.total.backward()
        assert loss.total == 0 and loss.count == 0
        assert all(not parameter.grad.any() for parameter in model.heads.parameters())
    assert predict_all(model, pairs_of_xlmr, []) == []


def test_predictions_are_the_records_whatever_the_order_of_features(pairs_of_xlmr: PlainPairs) -> None:
    features = pairs_of_xlmr.features(PAIRS[:3])
    p_NC = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], np.float32)
    found = pairs_of_xlmr.predictions(PAIRS[:3], [features[2], features[0]], list(p_NC))
    assert [(each.id, each.label) for each in found] == [("1", "contradiction"), ("2", None), ("3", "neutral")]
    assert found[1].scores == {} and found[0].scores == pytest.approx(dict(zip(READING.labels, p_NC[1], strict=True)))


def test_a_head_of_the_same_labels_is_taken_over_and_no_other(pairs_of_xlmr: PlainPairs, xlmr_folder: Path) -> None:
    start = load_model(xlmr_folder)
    before = start._replace(heads={"pairs": pairs_of_xlmr.heads(start, seed=1)["pairs"]})
    reordered = replace(pairs_of_xlmr, settings=replace(READING, labels=READING.labels[::-1]))
    weight = before.heads["pairs"].classifier["dense"].weight
    assert torch.equal(pairs_of_xlmr.heads(before, seed=2)["pairs"].classifier["dense"].weight, weight)
    assert not torch.equal(reordered.heads(before, seed=2)["pairs"].classifier["dense"].weight, weight)
