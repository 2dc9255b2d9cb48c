from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from schemas.errors import ConfigError, InputError
from schemas.soft_labels import SoftLabelCounts, SoftLabels
from tests.training.methods.fitting import predict_all, reader_of
from tests.training.methods.parallel_records import LANGS, MAKE, records, settings_of, translations
from training.data.batches import Packed, as_arrays, as_tensors, pack
from training.data.dataset_writer import write_dataset
from training.data.tokens import TextEncoder
from training.inference.soft_labels import read_soft_labels, rows_of
from training.methods.base import EncoderWithHeads
from training.methods.filter import FilterFormulation
from training.methods.parallel import PLAIN, Parallel, TeacherLabels, aligned, sequences_digest
from training.methods.registry import formulation_of
from training.models.folder import load_model
from training.objectives import normalised, step_counts
from training.recipes.methods import Filter, Plain
from training.tasks.translations import Translations

KINDS = tuple(MAKE)
TRANSLATE_TRAIN, CONCATENATION = Filter(3, 0, of_layers=3), Filter(0, 3, of_layers=3)  # of the three layers in tests
FUSED = Filter(1, 1, of_layers=3)


def made(folder: Path, kind: str, method: Filter, max_tokens: int = 64, **data: Any) -> tuple[Any, EncoderWithHeads]:
    start = load_model(folder)
    given = {"translations": translations(kind), **data}
    formulation: Any = formulation_of(settings_of(kind, method, max_tokens), TextEncoder(start.tokenizer), **given)
    return formulation, reader_of(formulation, start)


def objective(formulation: Any, model: EncoderWithHeads, batch: Any) -> Tensor:
    losses = formulation.losses(model, batch, None)
    weighted = {name: loss._replace(total=formulation.weights[name] * loss.total) for name, loss in losses.items()}
    return normalised(weighted, step_counts([formulation.counts(batch)]))


def gradients(model: EncoderWithHeads) -> list[Tensor]:
    found = [torch.zeros(1) if weight.grad is None else weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    return found


# --- the encoder's layers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_local_layers_alone_are_translate_train(kind: str, xlmr_folder: Path) -> None:
    """Loss and gradient are those of the plain method over the sources plus those over the targets."""
    formulation, model = made(xlmr_folder, kind, TRANSLATE_TRAIN)
    features = formulation.training_features(records(kind))
    assert len(features) == 8
    objective(formulation, model, formulation.batch(features)).backward()
    of_filter = gradients(model)

    plain = PLAIN[kind](settings_of(kind, Plain()), formulation.encoder)
    total = torch.zeros(())
    for side in ("source", "target"):
        batch = plain.batch([getattr(pair, side) for pair in features])
        total = total + normalised(plain.losses(model, batch, None), step_counts([plain.counts(batch)]))
    total.backward()
    assert objective(formulation, model, formulation.batch(features)).item() == pytest.approx(total.item(), rel=1e-5)
    for mine, expected in zip(of_filter, gradients(model), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)


def concatenated(inputs: Packed) -> Packed:
    """Each source and its target as one sequence. Positions restart in the target, as in the paper."""
    edges = inputs.bounds_N1[::2].tolist()
    ids = [inputs.ids_T[start:end].tolist() for start, end in pairwise(edges)]
    return replace(pack(ids), positions_T=inputs.positions_T)


@pytest.mark.parametrize("kind", KINDS)
def test_fusion_layers_alone_are_the_concatenation(kind: str, xlmr_folder: Path) -> None:
    """Compared with the model's own forward over padded concatenations, whose positions restart in the target."""
    formulation, model = made(xlmr_folder, kind, CONCATENATION)
    batch = formulation.batch(formulation.training_features(records(kind)))
    joined = concatenated(batch.inputs)
    hidden_TD = formulation.hidden(model, batch)
    ids_NL, mask_NL = joined.padded(model.encoder.model.config.pad_token_id)
    positions_NL = torch.full_like(ids_NL, model.encoder.model.config.pad_token_id)
    positions_NL[mask_NL] = joined.positions_T + model.encoder.first_position
    own = model.encoder.model(input_ids=ids_NL, attention_mask=mask_NL, position_ids=positions_NL)
    torch.testing.assert_close(hidden_TD, own.last_hidden_state[mask_NL], rtol=1e-4, atol=1e-5)

    hidden_TD.square().sum().backward()
    packed = gradients(model)
    again = model.encoder.model(input_ids=ids_NL, attention_mask=mask_NL, position_ids=positions_NL)
    again.last_hidden_state[mask_NL].square().sum().backward()
    for mine, expected in zip(packed, gradients(model), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-3)


def test_a_fused_target_depends_on_its_source_and_on_no_other_pair(xlmr_folder: Path) -> None:
    formulation, model = made(xlmr_folder, "qa", FUSED)
    features = formulation.training_features(records("qa"))
    alone = formulation.hidden(model, formulation.batch(features[:1]))
    among = formulation.hidden(model, formulation.batch(features))
    torch.testing.assert_close(among[: len(alone)], alone, rtol=1e-4, atol=1e-5)

    batch = formulation.batch(features[:1])
    changed = formulation.batch([features[0]._replace(source=features[2].source)])
    before, after = (formulation.hidden(model, each)[each.target_T] for each in (batch, changed))
    assert (before - after).abs().max() > 1e-4


def test_layers_are_scaled_to_the_encoders_depth() -> None:
    paper = Filter(local_layers=1, fusion_layers=20)
    assert [paper.layers(depth) for depth in (24, 12, 3, 2, 1)] == [(1, 20), (1, 10), (1, 2), (1, 1), (0, 1)]
    assert Filter(24, 0).layers(12) == (12, 0) and Filter(0, 24).layers(12) == (0, 12)
    with pytest.raises(ConfigError, match="24 or less together"):
        Filter(local_layers=10, fusion_layers=20).check("qa")


# --- features ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_training_reads_every_translation_and_prediction_the_record_beside_english(
    kind: str, xlmr_folder: Path
) -> None:
    formulation, _ = made(xlmr_folder, kind, FUSED)
    pairs = formulation.training_features(records(kind, count=2))
    assert [(pair.record, pair.id[-3:]) for pair in pairs] == [(0, "de)"), (0, "zh)"), (1, "de)"), (1, "zh)")]
    assert all(pair.source.labelled and pair.target.labelled for pair in pairs)

    german, english = records(kind, "de", 1), records(kind, "en", 1)
    (asked,) = formulation.features(german)
    (itself,) = formulation.features(english)
    assert list(asked.target.ids) == list(formulation.plain.features(german)[0].ids)
    assert list(asked.source.ids) == list(itself.source.ids) == list(itself.target.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_a_translation_is_left_out_of_training_and_read_beside_itself_in_prediction(
    kind: str, xlmr_folder: Path
) -> None:
    formulation, model = made(xlmr_folder, kind, FUSED, translations=Translations())
    assert formulation.training_features(records(kind)) == []
    (alone,) = formulation.features(records(kind, "de", 1))
    assert list(alone.source.ids) == list(alone.target.ids) and alone.notes == ("without_translation",)
    assert len(predict_all(model, formulation, records(kind, "de"))) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_labels_of_translations_give_no_loss(kind: str, xlmr_folder: Path) -> None:
    formulation, model = made(xlmr_folder, kind, FUSED, translations=translations(kind, labels="unknown"))
    batch = formulation.batch(formulation.training_features(records(kind)))
    assert int(formulation.counts(batch)["target"]) == 0 < int(formulation.counts(batch)["source"])
    losses = formulation.losses(model, batch, None)
    assert losses["target"].total.item() == 0 and losses["source"].total.item() > 0


def test_windows_of_long_texts_are_paired_by_their_order() -> None:
    assert aligned("abc", "xy", 3) == [("a", "x"), ("b", "x"), ("c", "y")]
    assert aligned("abcd", "xy", 2) == [("a", "x"), ("c", "y")]
    assert aligned("", "xy", 2) == []


def test_both_sides_of_a_long_question_are_read_in_windows(xlmr_folder: Path) -> None:
    formulation, model = made(xlmr_folder, "qa", FUSED, max_tokens=32)
    pairs = formulation.training_features(records("qa"))
    assert len(pairs) > 8
    assert max(len(side.ids) for pair in pairs for side in (pair.source, pair.target)) <= 32
    assert {pair.source.id.partition("+")[0] for pair in pairs} == {"q0", "q1", "q2", "q3"}
    assert len(predict_all(model, formulation, records("qa", "de"))) == 4


def test_batches_travel_between_processes(xlmr_folder: Path) -> None:
    formulation, _ = made(xlmr_folder, "tagging", FUSED)
    batch = formulation.batch(formulation.training_features(records("tagging")))
    batch = replace(batch, soft=(torch.ones(2, 3),))
    arrays = as_arrays(batch)
    assert isinstance(arrays.source.inputs.ids_T, np.ndarray) and isinstance(arrays.soft[0], np.ndarray)
    assert torch.equal(as_tensors(arrays).target.words_W, batch.target.words_W)


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_texts_and_their_translations_are_learnt_by_heart(kind: str, xlmr_folder: Path) -> None:
    formulation, model = made(xlmr_folder, kind, FUSED)
    batch = formulation.batch(formulation.training_features(records(kind)))
    adam = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(120):
        adam.zero_grad()
        objective(formulation, model, batch).backward()
        adam.step()
    for lang in LANGS:
        gold = records(kind, lang)
        predictions = predict_all(model, formulation, gold)
        if kind == "qa":
            assert [each.spans[0].text for each in predictions] == [record.answer_texts[0] for record in gold]
        elif kind == "tagging":
            assert [each.tags for each in predictions] == [record.tags for record in gold]
        else:
            assert [each.label for each in predictions] == [record.label for record in gold]


def test_a_pair_may_be_classified_by_its_translation_or_by_both(xlmr_folder: Path) -> None:
    probabilities = {}
    for side in ("source", "target", "both"):
        formulation, model = made(xlmr_folder, "pairs", replace(FUSED, pairs_from=side))
        probabilities[side] = [each.scores["1"] for each in predict_all(model, formulation, records("pairs", "de"))]
    means = [(a + b) / 2 for a, b in zip(probabilities["source"], probabilities["target"], strict=True)]
    assert probabilities["both"] == pytest.approx(means, rel=1e-5)
    assert probabilities["source"] != pytest.approx(probabilities["target"], rel=1e-5)


# --- self-teaching ----------------------------------------------------------------------------------------------------


def taught(formulation: Parallel, model: EncoderWithHeads, kind: str) -> TeacherLabels:
    """The model's own probabilities as a teacher's."""
    features = formulation.training_features(records(kind))
    with torch.no_grad():
        _, target = formulation.scores(model, formulation.batch(features))
    return TeacherLabels("soft", rows_of(target, features), formulation.settings.labels, sequences_digest(features))


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_like_its_teacher_has_no_divergence(kind: str, xlmr_folder: Path) -> None:
    teacher, model = made(xlmr_folder, kind, FUSED)
    student = replace(teacher, soft_labels=taught(teacher, model, kind))
    student = replace(student, settings=settings_of(kind, replace(FUSED, self_teaching=0.25)))
    assert student.weights == {"source": 1.0, "target": 0.75, "teacher": 0.25}
    batch = student.batch(student.training_features(records(kind)))
    loss = student.losses(model, batch, None)["teacher"]
    assert loss.total.item() == pytest.approx(0, abs=1e-4) and int(loss.count) == int(student.counts(batch)["teacher"])
    same, rows = loss.figures["same"].tolist()
    assert same == rows == int(loss.count)


def test_a_weight_of_one_leaves_out_the_translations_labels(xlmr_folder: Path) -> None:
    teacher, model = made(xlmr_folder, "tagging", FUSED)
    settings = settings_of("tagging", replace(FUSED, self_teaching=1.0))
    student = replace(teacher, soft_labels=taught(teacher, model, "tagging"), settings=settings)
    assert student.weights == {"source": 1.0, "teacher": 1.0}
    assert isinstance(student, FilterFormulation) and Filter(self_teaching=1.0).first_stage() == Filter()


def test_a_teacher_of_other_sequences_or_labels_is_refused(xlmr_folder: Path) -> None:
    teacher, model = made(xlmr_folder, "pairs", FUSED)
    soft = taught(teacher, model, "pairs")
    for other in (
        replace(teacher, soft_labels=soft, settings=settings_of("pairs", FUSED, max_tokens=16)),
        replace(teacher, soft_labels=soft, translations=translations("pairs", langs=("de",))),
    ):
        with pytest.raises(InputError, match="the teacher labelled other sequences"):
            other.training_features(records("pairs"))
    with pytest.raises(InputError, match="the teacher labelled other sequences"):
        replace(teacher, soft_labels=soft).training_features(records("pairs", count=3))
    with pytest.raises(InputError, match="has the labels a, b, but the student 0, 1"):
        replace(teacher, soft_labels=soft._replace(labels=("a", "b"))).training_features(records("pairs"))


@pytest.mark.parametrize("kind", KINDS)
def test_soft_labels_are_read_as_they_were_made(kind: str, xlmr_folder: Path, tmp_path: Path) -> None:
    formulation, model = made(xlmr_folder, kind, FUSED)
    soft = taught(formulation, model, kind)
    features = formulation.training_features(records(kind))
    examples = [
        SoftLabels(pair.id, "de", tuple(tuple(rows.flatten().tolist()) for rows in of_feature), of_feature[0].shape[1])
        for pair, of_feature in zip(features, soft.rows, strict=True)
    ]
    config = {"labels": list(soft.labels), "sequences_sha256": soft.sequences_sha256}
    counts = {"de": SoftLabelCounts(len(examples), len(examples))}
    write_dataset(tmp_path / "soft", "soft_labels/1", examples, counts, config=config, rows_per_shard=3)
    read = read_soft_labels(tmp_path / "soft")
    assert read._replace(rows=(), name="") == soft._replace(rows=(), name="")
    for mine, expected in zip(read.rows, soft.rows, strict=True):
        assert [rows.shape for rows in mine] == [rows.shape for rows in expected]
        assert all(np.array_equal(left, right) for left, right in zip(mine, expected, strict=True))
