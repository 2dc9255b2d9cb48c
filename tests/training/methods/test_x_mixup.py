"""X-Mixup's formulations. The oracle of the mixture is the paper's text, computed for one pair at a time in float64."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.methods.fitting import predict_all, reader_of
from tests.training.mixup_records import LABELS, read, record_of, records, reversed_words
from tests.training.models.test_encoder import BUILD, encoder_of
from tests.training.objectives.test_mixing import slow_entropy
from training.data.scheduled_sampling import probability_of_real_text
from training.data.task_batches import PairFeatures
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads
from training.methods.parallel import PLAIN, ParallelFeatures
from training.methods.registry import formulation_of
from training.methods.x_mixup import XMixupFormulation, bounds_of
from training.models.folder import Pretrained, load_model
from training.models.heads import MixingRatio
from training.objectives import Loss, normalised
from training.objectives.consistency import prediction_consistency, representation_consistency, sequence_means
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain, XMixup
from training.tasks.translations import Translations

KINDS = ("qa", "tagging", "pairs")
aten = torch.ops.aten
METHOD = XMixup(layer=2, of_layers=0)


def settings_of(method: Any, kind: Any) -> InferenceSettings:
    return InferenceSettings(method, kind, LABELS[kind], 48, 16, 8, 12)


def fresh(folder: Path) -> Pretrained:
    start = loaded(folder)
    return start._replace(language_model=copy.deepcopy(start.language_model))


@cache
def loaded(folder: Path) -> Pretrained:
    return load_model(folder)


@pytest.fixture
def mixup(xlmr_folder: Path, tmp_path: Path) -> Any:
    """Makes the formulation of a kind, with translations and translations back."""
    encoder, numbers = TextEncoder(loaded(xlmr_folder).tokenizer), count()

    def make(kind: str, method: XMixup = METHOD, translations: Translations | None = None, **options: Any) -> Any:
        if translations is None:
            translations = read(tmp_path / str(next(numbers)), kind, **options)
        return formulation_of(settings_of(method, kind), encoder, translations=translations)

    return make


def model_of(formulation: XMixupFormulation, folder: Path, weight: float = 0.3, bias: float = -0.2) -> EncoderWithHeads:
    """A float64 model without dropout, whose λ depends on the entropy."""
    model = reader_of(formulation, fresh(folder))
    model.encoder.double()
    model.heads["mixing"].double()  # the other heads compute in fp32
    with torch.no_grad():
        model.heads["mixing"].weight.fill_(weight)
        model.heads["mixing"].bias.fill_(bias)
    return model


# --- the mixture ------------------------------------------------------------------------------------------------------


def slow_layer(layer: Any, source_JD: Tensor, target_ID: Tensor, ratio: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Section 4.1 for one pair: the layer's outputs for both sides, and λ."""
    attention, norm = layer.attention.self, layer.attention.output.LayerNorm

    def multi_head(query_ID: Tensor, key_JD: Tensor) -> Tensor:
        heads, size = attention.num_attention_heads, attention.attention_head_size
        q, k, v = attention.query(query_ID), attention.key(key_JD), attention.value(key_JD)
        outs = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            outs.append(torch.softmax(q[:, own] @ k[:, own].T / math.sqrt(size), dim=1) @ v[:, own])
        return layer.attention.output.dense(torch.cat(outs, dim=1)) + query_ID

    def after(x_ID: Tensor) -> Tensor:
        return layer.output.LayerNorm(layer.output.dense(layer.intermediate(x_ID)) + x_ID)

    u_S, u_T = multi_head(source_JD, source_JD), multi_head(target_ID, target_ID)
    x_S, x_T = norm(u_S), norm(u_T)
    own_ratio = ratio(slow_entropy(x_S, x_T))
    return after(x_S), after(norm(own_ratio * multi_head(x_T, x_S) + (1 - own_ratio) * u_T)), own_ratio


def slow_hidden(model: EncoderWithHeads, pair: Any, mixed_layer: int, ratio: Any) -> tuple[Tensor, Tensor]:
    """The last layer of both sides of one pair, computed alone and without our packed attention."""
    encoder = model.encoder.model
    states = []
    for side in (pair.source, pair.target):
        ids = torch.tensor(side.ids, dtype=torch.int64)[None]
        positions = torch.arange(ids.shape[1])[None] + model.encoder.first_position
        states.append(encoder.embeddings(ids, position_ids=positions)[0])
    for number, layer in enumerate(encoder.encoder.layer, start=1):
        if number == mixed_layer:
            *states, _ = slow_layer(layer, *states, ratio)
        else:
            states = [slow_layer(layer, state, state, lambda entropy: 0.0)[0] for state in states]
    return states[0], states[1]


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("kind", ["qa", "pairs"])
def test_the_mixture_is_that_of_the_paper_for_each_pair_alone(mixup, xlmr_folder, kind, layer) -> None:
    """So packing, other pairs and padding change nothing."""
    formulation = mixup(kind, replace(METHOD, layer=layer))
    model = model_of(formulation, xlmr_folder)
    features = formulation.training_features(records(kind))[:2]
    features[1] = features[1]._replace(source=formulation.plain.features([record_of(kind, 5)])[0])  # other lengths
    batch = formulation.batch(features)
    hidden_TD = formulation.hidden(model, batch)

    mixing: Any = model.heads["mixing"]

    def ratio(entropy: Tensor) -> Tensor:
        return 0.5 * torch.sigmoid(entropy * mixing.weight + mixing.bias)  # λ0 σ(H W + b)

    slow = [side for pair in features for side in slow_hidden(model, pair, layer, ratio)]
    torch.testing.assert_close(hidden_TD, torch.cat(slow), rtol=1e-9, atol=1e-9)
    weights_TD = torch.randn(hidden_TD.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parameters = dict(model.named_parameters())
    trained = [
        name for name in parameters if (".pooler" not in name and not name.startswith("heads.")) or "mixing" in name
    ]
    found, expected = (
        torch.autograd.grad((each * weights_TD).sum(), [parameters[name] for name in trained], allow_unused=True)
        for each in (hidden_TD, torch.cat(slow))
    )
    for name, one, other in zip(trained, found, expected, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_largest_ratio_of_0_is_the_plain_encoder(mixup, xlmr_folder, kind) -> None:
    formulation = mixup(kind, replace(METHOD, max_ratio=0.0))
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records(kind)))
    mixed_TD, plain_TD = formulation.hidden(model, batch), model.encoder(batch.inputs)
    torch.testing.assert_close(mixed_TD, plain_TD, rtol=1e-12, atol=1e-12)
    weights = list(model.encoder.layers.parameters())
    found, expected = (torch.autograd.grad(each.square().sum(), weights) for each in (mixed_TD, plain_TD))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def pair_of(number: int, source: int, target: int) -> ParallelFeatures:
    """Two random texts of these lengths, of the vocabulary of `BUILD`."""
    ids = np.random.default_rng(number).integers(5, 100, source + target).astype(np.int32)
    sides = [PairFeatures(str(number), number, each, -1) for each in (ids[:source], ids[source:])]
    return ParallelFeatures(str(number), number, *sides)


@pytest.mark.parametrize("family", BUILD)
def test_every_family_of_encoders_mixes_each_pair_alone(mixup, family: str) -> None:
    formulation, encoder = mixup("pairs"), encoder_of(family)
    model = EncoderWithHeads(encoder, {"mixing": MixingRatio(0.5)})
    features = [pair_of(number, *lengths) for number, lengths in enumerate([(7, 4), (3, 30), (7, 7)])]
    batch = formulation.batch(features)
    together_TD = formulation.hidden(model, batch)
    alone_TD = torch.cat([formulation.hidden(model, formulation.batch([pair])) for pair in features])
    torch.testing.assert_close(together_TD, alone_TD, rtol=0, atol=2e-5)
    plain_TD = encoder(batch.inputs)
    torch.testing.assert_close(together_TD[batch.source_T], plain_TD[batch.source_T], rtol=0, atol=2e-5)
    assert (together_TD - plain_TD)[batch.target_T].abs().max() > 0.01
    model.heads["mixing"] = MixingRatio(0.0)
    torch.testing.assert_close(formulation.hidden(model, batch), plain_TD, rtol=0, atol=2e-5)


def test_in_bf16_ratios_are_computed_in_fp32(mixup, xlmr_folder) -> None:
    formulation = mixup("pairs")
    model = reader_of(formulation, fresh(xlmr_folder))
    batch = formulation.batch(formulation.training_features(records("pairs")))
    exact_TD = formulation.hidden(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        losses = formulation.losses(model, batch, None)
        hidden_TD = formulation.hidden(model, batch)
        assert formulation.ratios(model, hidden_TD.bfloat16(), batch).dtype == torch.float32
    sums(losses, formulation.weights).backward()
    assert all(loss.total.dtype == torch.float32 for loss in losses.values())
    torch.testing.assert_close(hidden_TD.float(), exact_TD, rtol=0, atol=0.1)


def test_without_mixup_the_encoder_reads_each_text_alone(mixup, xlmr_folder) -> None:
    formulation = mixup("pairs", replace(METHOD, mixup=False))
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records("pairs")))
    assert torch.equal(formulation.hidden(model, batch), model.encoder(batch.inputs))


def test_ratios_are_between_0_and_the_largest_and_constant_in_the_ablation(mixup, xlmr_folder) -> None:
    formulation = mixup("pairs")
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records("pairs")))
    x_TD = model.encoder(batch.inputs)
    ratios_N = formulation.ratios(model, x_TD, batch)
    assert 0 < ratios_N.min() < ratios_N.max() < 0.5
    untrained = formulation.ratios(model_of(formulation, xlmr_folder, 0.0, 0.0), x_TD, batch)
    assert untrained.tolist() == [0.25] * 8
    constant = mixup("pairs", replace(METHOD, ratio="constant"))
    assert constant.ratios(model, x_TD, batch).tolist() == [0.5] * 8


def test_bounds_of_one_side_by_itself() -> None:
    assert bounds_of(torch.tensor([[0, 3], [5, 5], [7, 9]])).tolist() == [0, 3, 3, 5]


# --- losses -----------------------------------------------------------------------------------------------------------


def sums(losses: dict[str, Loss], weights: dict[str, float]) -> Tensor:
    weighted = {name: loss._replace(total=weights[name] * loss.total) for name, loss in losses.items()}
    return normalised(weighted, {name: loss.count for name, loss in losses.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_equations_7_and_8(mixup, xlmr_folder, kind) -> None:
    formulation = mixup(kind, replace(METHOD, alpha=0.2, mse_weight=0.7, kl_weight=0.9))
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records(kind)))
    losses = formulation.losses(model, batch, None)
    assert formulation.counts(batch) == {name: loss.count for name, loss in losses.items()}
    hidden_TD = formulation.hidden(model, batch)
    source, target = formulation.side_scores(model, hidden_TD, batch)
    of_source, of_target = (loss.total / loss.count for loss in formulation.task_losses(batch, source, target).values())
    expected = 0.2 * of_source + 0.8 * of_target
    special = formulation.encoder.special_ids
    squares = []
    bounds = batch.inputs.bounds_N1.tolist()
    for pair in range(8):
        means = []
        for side in (2 * pair, 2 * pair + 1):
            places = [at for at in range(bounds[side], bounds[side + 1]) if int(batch.inputs.ids_T[at]) not in special]
            means.append(hidden_TD[places].mean(dim=0))
        squares.append(((means[0] - means[1]) ** 2).mean())
    expected = expected + 0.7 * sum(squares) / 8
    if kind == "pairs":
        p, q = source[0].softmax(dim=1), target[0].softmax(dim=1)
        expected = expected + 0.9 * (p * (p / q).log()).sum() / 8
    assert ("kl" in losses) == (kind == "pairs")
    torch.testing.assert_close(sums(losses, formulation.weights), expected)


@pytest.mark.parametrize(
    "changes, left",
    [
        ({"mse_weight": 0.0}, {"source", "target", "kl"}),
        ({"kl_weight": 0.0}, {"source", "target", "mse"}),
        ({"mse_weight": 0.0, "kl_weight": 0.0}, {"source", "target"}),
        ({"alpha": 1.0}, {"source", "mse", "kl"}),
    ],
)
def test_ablations_leave_losses_out(mixup, xlmr_folder, changes, left) -> None:
    formulation = mixup("pairs", replace(METHOD, **changes))
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records("pairs")))
    assert (
        set(formulation.weights)
        == set(formulation.counts(batch))
        == set(formulation.losses(model, batch, None))
        == left
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_has_losses_and_gradients_of_0(mixup, xlmr_folder, kind) -> None:
    formulation = mixup(kind)
    model = model_of(formulation, xlmr_folder)
    losses = formulation.losses(model, formulation.batch([]), None)
    total = sums(losses, formulation.weights)
    total.backward()
    assert total.item() == 0 and all(int(loss.count) == 0 for loss in losses.values())


# --- scheduled sampling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_draws_real_sources_or_translations_back(mixup, kind) -> None:
    formulation = mixup(kind, replace(METHOD, sampling_decay=10.0))
    features = formulation.training_features(records(kind))
    assert all(pair.back is not None for pair in features)

    def real(step: int, seed: int = 1) -> list[bool]:
        batch = formulation.at_step(step, seed).batch(features)
        ids = np.split(batch.inputs.ids_T.numpy(), batch.inputs.bounds_N1[1:-1].numpy())[::2]
        found = [np.array_equal(own, pair.source.ids) for own, pair in zip(ids, features, strict=True)]
        assert found == [not np.array_equal(own, pair.back.ids) for own, pair in zip(ids, features, strict=True)]
        return found

    assert real(23) == real(23) != real(23, seed=2)
    share = np.mean([real(step) for step in range(15, 45)])
    expected = np.mean([probability_of_real_text(step, 10.0) for step in range(15, 45)])
    assert share == pytest.approx(expected, abs=0.12) and not any(real(1_000))


def test_a_record_draws_the_same_in_any_batch(mixup) -> None:
    formulation = mixup("pairs", replace(METHOD, sampling_decay=10.0)).at_step(23, 1)
    features = formulation.training_features(records("pairs"))
    alone = [formulation.batch([pair]).inputs.ids_T for pair in features]
    assert torch.cat(alone).equal(formulation.batch(features).inputs.ids_T)


def test_a_translation_back_of_a_pair_has_its_label_and_others_have_none(mixup) -> None:
    pairs, tags = mixup("pairs"), mixup("tagging")
    assert all(each.back.label == each.source.label >= 0 for each in pairs.training_features(records("pairs")))
    assert not any(each.back.labelled for each in tags.training_features(records("tagging")))


@pytest.mark.parametrize("changes", [{"back": False}, {"method": replace(METHOD, sampling_decay=0.0)}])
def test_without_translations_back_or_sampling_sources_are_real(mixup, changes) -> None:
    formulation = mixup("pairs", **changes)
    features = formulation.training_features(records("pairs"))
    assert all(pair.back is None for pair in features)
    late = formulation.at_step(10**6, 1).batch(features)
    assert late.inputs.ids_T.equal(formulation.batch(features).inputs.ids_T)


# --- prediction -------------------------------------------------------------------------------------------------------


@pytest.fixture
def test_translations(tmp_path: Path) -> Any:
    def make(kind: str) -> Translations:
        """Translations of "xx" records into English, as translate-test has them."""
        return read(tmp_path / "test", kind)

    return make


def targets(kind: str) -> list[Any]:
    return [record_of(kind, number, "xx", reversed_words(number)) for number in range(8)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_translation_is_predicted_as_by_the_plain_method(mixup, xlmr_folder, kind) -> None:
    formulation = mixup(kind, translations=Translations())
    model = model_of(formulation, xlmr_folder)
    plain = PLAIN[kind](settings_of(Plain(), kind), formulation.encoder)
    for asked in (targets(kind), records(kind)):
        for found, expected in zip(
            predict_all(model, formulation, asked), predict_all(model, plain, asked), strict=True
        ):
            assert found.id == expected.id and found.label == expected.label and found.tags == expected.tags
            assert [span[:3] for span in found.spans or ()] == [span[:3] for span in expected.spans or ()]


@pytest.mark.parametrize("kind", KINDS)
def test_prediction_mixes_the_translation_into_the_record(mixup, xlmr_folder, test_translations, kind) -> None:
    """Pairs take the mean of both sides' probabilities, the others the target's alone (decision 30)."""
    formulation = mixup(kind, translations=test_translations(kind))
    model = model_of(formulation, xlmr_folder)
    features = formulation.features(targets(kind))
    with torch.no_grad():
        batch = formulation.batch(features)
        source, target = formulation.scores(model, batch)
        outputs = formulation.outputs(model, batch)
        unmixed_TD = model.encoder(batch.inputs)
    assert batch.mixed_N.tolist() == [1.0] * 8
    assert not torch.allclose(formulation.hidden(model, batch)[batch.target_T], unmixed_TD[batch.target_T])
    if kind == "pairs":
        expected = (source[0].softmax(dim=1) + target[0].softmax(dim=1)) / 2
        torch.testing.assert_close(torch.tensor(np.stack(outputs)), expected)
    else:
        own = formulation.plain.outputs_of(target, batch.target)
        assert str(outputs) == str(own)


def test_head_of_the_ratio_is_trained_and_kept(mixup, xlmr_folder) -> None:
    formulation = mixup("pairs")
    model = reader_of(formulation, fresh(xlmr_folder))
    batch = formulation.batch(formulation.training_features(records("pairs")))
    sums(formulation.losses(model, batch, None), formulation.weights).backward()
    mixing: Any = model.heads["mixing"]
    assert mixing.weight.grad.abs().item() > 0 and mixing.bias.grad.abs().item() > 0


class Waits(TorchDispatchMode):
    """Collects the operations that need a tensor's values on the host: on a GPU, the host waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (aten._local_scalar_dense, aten.nonzero, aten.equal, aten.unique_dim, aten._unique2):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", KINDS)
def test_mixing_and_consistency_wait_for_no_value(mixup, xlmr_folder, kind) -> None:
    formulation = mixup(kind)
    model = model_of(formulation, xlmr_folder)
    batch = formulation.batch(formulation.training_features(records(kind)))
    with Waits() as waits:
        hidden_TD = formulation.hidden(model, batch)
        means_ND = sequence_means(hidden_TD, batch.inputs.bounds_N1, batch.is_text_T)
        losses = [representation_consistency(means_ND[::2], means_ND[1::2])]
        losses += [prediction_consistency(means_ND[::2], means_ND[1::2])]
        sum(loss.total for loss in losses).backward()
    assert waits.found == []
    with Waits() as waits:
        means_ND.sum().item()
    assert len(waits.found) == 1  # they are seen
