from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification, pipeline

from schemas.mrc import TaggingExample
from schemas.spans import CharSpan
from tests.training.methods.fitting import fit, loss_of, predict_all, reader_of
from tests.training.models.families import FAMILIES, family_folder
from training.data.tag_windows import tag_names
from training.data.tokens import TextEncoder
from training.methods.tags import PlainTags
from training.models.finetuned import save_finetuned
from training.models.folder import Provenance, load_model
from training.objectives.labels import label_loss
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain
from training.tasks.predictions import Span

READING = InferenceSettings(Plain(), "tagging", ("PER", "LOC"), max_tokens=128, stride=8)
PROVENANCE = Provenance("xlm-roberta-base", {}, {}, 0)


def sentence(words: str, tags: str, lang: str, joined_by: str = " ") -> TaggingExample:
    text, tokens = "", []
    for word in words.split():
        start = len(text) + len(joined_by) if text else 0
        text = f"{text}{joined_by}{word}" if text else word
        tokens.append(CharSpan(start, start + len(word)))
    return TaggingExample(text, lang, text, tuple(tokens), tuple(tags.split()), "wikiann")


SENTENCES = [
    sentence("Anna Maria lives in Hà Nội .", "B-PER I-PER O O B-LOC I-LOC O", "vi"),
    sentence("آنا تعيش في هانوي", "B-PER O O B-LOC", "ar"),
    sentence("安娜 住 在 河内 。", "B-PER O O B-LOC O", "zh", joined_by=""),
    sentence("Berlin Paris", "B-LOC B-LOC", "de"),
    sentence("it rains", "O O", "en"),
]


@pytest.fixture
def tags_of_xlmr(xlmr_folder: Path) -> PlainTags:
    return PlainTags(READING, TextEncoder(load_model(xlmr_folder).tokenizer))


@pytest.mark.parametrize("family", FAMILIES)
def test_sentences_of_several_scripts_are_learnt_by_heart(family: str, xlmr_folder: Path, tmp_path: Path) -> None:
    start = load_model(family_folder(family, xlmr_folder, [each.text for each in SENTENCES], tmp_path / family))
    tagger = PlainTags(READING, TextEncoder(start.tokenizer))
    assert loss_of(reader_of(tagger, start), tagger, SENTENCES) > 1
    model = fit(tagger, SENTENCES, start)
    assert loss_of(model, tagger, SENTENCES) < 0.1
    predictions = predict_all(model, tagger, [replace(each, tags=()) for each in SENTENCES])
    assert [each.tags for each in predictions] == [each.tags for each in SENTENCES]
    found = [[(span.text, span.label) for span in each.spans] for each in predictions]
    assert found == [
        [("Anna Maria", "PER"), ("Hà Nội", "LOC")],
        [("آنا", "PER"), ("هانوي", "LOC")],
        [("安娜", "PER"), ("河内", "LOC")],
        [("Berlin", "LOC"), ("Paris", "LOC")],
        [],
    ]
    for record, prediction in zip(SENTENCES, predictions, strict=True):
        assert prediction.id == record.id and all(0.5 < span.score <= 1 for span in prediction.spans)
        assert all(record.text[span.start_char : span.end_char] == span.text for span in prediction.spans)


@pytest.mark.parametrize("family", FAMILIES)
def test_hugging_face_finds_the_same_in_the_exported_folder(family: str, xlmr_folder: Path, tmp_path: Path) -> None:
    """By its logits of padded sentences, and by its pipeline, which is given the text."""
    names = tag_names(READING.labels)
    records = [*SENTENCES, replace(SENTENCES[0], tags=())]
    start = load_model(family_folder(family, xlmr_folder, [each.text for each in records], tmp_path / family))
    tagger = PlainTags(READING, TextEncoder(start.tokenizer))
    model = fit(tagger, records, start, steps=12)  # unsure, so that probabilities say something
    save_finetuned(
        tmp_path / "model", start.language_model, start.tokenizer, dict(model.heads.items()), READING, PROVENANCE, {}
    )
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "model").eval()

    windows = tagger.features(records)
    batch = tagger.batch(windows)
    with torch.no_grad():
        outputs = tagger.outputs(model, batch)
        ids_NL, mask_NL = batch.inputs.padded(theirs.config.pad_token_id)
        p_NLC = theirs(input_ids=ids_NL, attention_mask=mask_NL.long()).logits.softmax(dim=2).numpy()
    for window, p_WC, p_LC in zip(windows, outputs, p_NLC, strict=True):
        np.testing.assert_allclose(p_WC, p_LC[list(window.places)], atol=1e-5)

    ask = pipeline("token-classification", str(tmp_path / "model"), ignore_labels=[])
    alike = [at for at, each in enumerate(windows) if ask.tokenizer(records[at].text).input_ids == each.ids.tolist()]
    assert len(alike) >= 3  # others have words between which there is no blank
    for at in alike:
        tokens = {each["index"]: each for each in ask(records[at].text)}
        said = [tokens[place] for place in windows[at].places]
        assert [each["entity"] for each in said] == [names[best] for best in outputs[at].argmax(axis=1)]
        assert [each["score"] for each in said] == pytest.approx(outputs[at].max(axis=1).tolist(), abs=1e-5)


def window(tagger: PlainTags, record: TaggingExample) -> Any:
    (found,) = tagger.features([record])
    return found


def test_tags_are_read_as_the_scorer_reads_them_and_written_in_iob2(tags_of_xlmr: PlainTags) -> None:
    """`O I-PER I-PER I-LOC B-LOC I-PER` are five words of four entities; each score is the mean of its words'."""
    record = sentence("a b c d e f", "O O O O O O", "en")
    chosen = [(0, 0.9), (2, 0.8), (2, 0.6), (4, 0.5), (3, 0.7), (2, 0.4)]  # of O B-PER I-PER B-LOC I-LOC
    p_WC = np.array([[p if tag == best else (1 - p) / 4 for tag in range(5)] for best, p in chosen], np.float32)
    (found,) = tags_of_xlmr.predictions([record], [window(tags_of_xlmr, record)], [p_WC])
    assert found.tags == ("O", "B-PER", "I-PER", "B-LOC", "B-LOC", "B-PER")
    spans = [Span(2, 5, "b c", 0.7, "PER"), Span(6, 7, "d", 0.5, "LOC"), Span(8, 9, "e", 0.7, "LOC")]
    assert [span._replace(score=round(span.score, 6)) for span in found.spans] == [
        *spans,
        Span(10, 11, "f", 0.4, "PER"),
    ]


def test_a_word_without_token_is_outside_and_parts_an_entity(tags_of_xlmr: PlainTags) -> None:
    record = TaggingExample("x", "en", "a \u200b b", (CharSpan(0, 1), CharSpan(2, 3), CharSpan(4, 5)), (), "wikiann")
    features = window(tags_of_xlmr, record)
    assert features.words == (0, 2)
    p_WC = np.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]], np.float32)
    (found,) = tags_of_xlmr.predictions([record], [features], [p_WC])
    assert found.tags == ("B-PER", "O", "B-PER")
    assert [span.text for span in found.spans] == ["a", "b"]


def test_every_word_of_a_sentence_in_several_windows_has_one_tag(xlmr_folder: Path) -> None:
    start = load_model(xlmr_folder)
    tagger = PlainTags(replace(READING, max_tokens=12, stride=4), TextEncoder(start.tokenizer))
    record = sentence("Anna Maria lives in Hà Nội and Berlin .", "B-PER I-PER O O B-LOC I-LOC O B-LOC O", "vi")
    assert len(tagger.features([record])) > 2
    (found,) = predict_all(fit(tagger, [record], start), tagger, [record])
    assert found.tags == record.tags


def test_records_without_words_or_tokens_have_empty_predictions(tags_of_xlmr: PlainTags, xlmr_folder: Path) -> None:
    empty = TaggingExample("none", "en", "", (), (), "wikiann")
    lost = TaggingExample("lost", "en", "\u200b", (CharSpan(0, 1),), (), "wikiann")
    model = reader_of(tags_of_xlmr, load_model(xlmr_folder))
    found = predict_all(model, tags_of_xlmr, [empty, SENTENCES[0], lost])
    assert [each.id for each in found] == ["none", SENTENCES[0].id, "lost"]
    assert [len(each.tags) for each in found] == [0, 7, 1]
    assert found[2].tags == ("O",)
    assert predict_all(model, tags_of_xlmr, []) == []


def test_the_loss_is_the_cross_entropy_of_words_that_have_a_tag(tags_of_xlmr: PlainTags, xlmr_folder: Path) -> None:
    model = reader_of(tags_of_xlmr, load_model(xlmr_folder))
    records = [SENTENCES[0], replace(SENTENCES[1], tags=()), SENTENCES[2]]
    batch = tags_of_xlmr.batch(tags_of_xlmr.features(records))
    with torch.no_grad():
        loss = tags_of_xlmr.losses(model, batch, None)["tags"]
        outputs = tags_of_xlmr.outputs(model, batch)
    p_of_tags = [
        p_WC[np.arange(len(labels)), labels]
        for p_WC, labels in zip([outputs[0], outputs[2]], [[1, 2, 0, 0, 3, 4, 0], [1, 0, 0, 3, 0]], strict=True)
    ]
    assert loss.total.item() == pytest.approx(-np.log(np.concatenate(p_of_tags)).sum(), rel=1e-5)
    assert loss.count.item() == tags_of_xlmr.counts(batch)["tags"] == 12
    assert loss.figures["correct"][1] == 12


def test_figures_count_what_is_most_likely() -> None:
    logits_WC = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    loss = label_loss(logits_WC, torch.tensor([0, 0, 0, -1]))
    assert loss.figures["correct"].tolist() == [2, 3] and loss.count == 3


def test_no_window_gives_no_loss_and_gradients_of_zero(tags_of_xlmr: PlainTags, xlmr_folder: Path) -> None:
    model = reader_of(tags_of_xlmr, load_model(xlmr_folder))
    loss = tags_of_xlmr.losses(model, tags_of_xlmr.batch([]), None)["tags"]
    loss.total.backward()
    assert loss.total == 0 and loss.count == 0
    assert all(not parameter.grad.any() for parameter in model.heads.parameters())


def test_a_head_of_the_same_tags_is_taken_over_and_no_other(tags_of_xlmr: PlainTags, xlmr_folder: Path) -> None:
    start = load_model(xlmr_folder)
    head = tags_of_xlmr.heads(start, seed=1)["tags"]
    again, other = (tags_of_xlmr.heads(start, seed=seed)["tags"] for seed in (1, 2))
    before = start._replace(heads={"tags": head})
    taken = tags_of_xlmr.heads(before, seed=2)["tags"]
    renamed = replace(tags_of_xlmr, settings=replace(READING, labels=("LOC", "PER"))).heads(before, seed=2)["tags"]
    assert torch.equal(head.classifier.weight, again.classifier.weight)
    assert torch.equal(head.classifier.weight, taken.classifier.weight)
    assert torch.equal(other.classifier.weight, renamed.classifier.weight)
    assert not torch.equal(head.classifier.weight, other.classifier.weight)
