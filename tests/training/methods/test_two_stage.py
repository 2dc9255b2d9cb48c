from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.training.methods.fitting import fit, loss_of, predict_all, reader_of
from tests.training.methods.two_stage_step import BASELINE, RECORDS, on_rank, step, two_stage
from tests.training.runs import finish, free_port, server
from training.engine.loop import weighted
from training.methods.questions import PlainQuestions
from training.methods.two_stage import TwoStageQuestions
from training.models.folder import Pretrained, load_model
from training.objectives import normalised, step_counts
from training.objectives.answer_contrast import answer_contrast, hard_negatives, represented, windows_of
from training.objectives.hard_learning import RankWeights
from training.recipes.methods import Plain


@pytest.fixture
def start(xlmr_folder: Path) -> Pretrained:
    return load_model(xlmr_folder)


def plain_of(formulation: TwoStageQuestions) -> PlainQuestions:
    return PlainQuestions(replace(formulation.settings, method=Plain()), formulation.encoder)


@pytest.mark.parametrize(
    "hard, gold_first", [("weighted", True), ("mml", True), ("hard_em", True), ("mml", False), ("hard_em", False)]
)
def test_learns_its_questions_by_heart(hard: str, gold_first: bool, start: Pretrained) -> None:
    """MML and hard EM that are not told the true answer are as content with any other answer of Z."""
    first = {record: [*record.answers, *spans] for record, spans in BASELINE.items()}
    formulation = replace(two_stage(start, hard=hard, gold_first=gold_first), candidates=first)
    before = loss_of(reader_of(formulation, start), formulation, RECORDS)
    model = fit(formulation, RECORDS, start)
    assert loss_of(model, formulation, RECORDS) < 0.4 * before
    for record, found in zip(RECORDS[:-1], predict_all(model, formulation, RECORDS), strict=False):
        wanted = record.answers if gold_first else first.get(record, record.answers)
        assert found.spans[0].text in {span.of(record.context) for span in wanted}


def test_without_hard_learning_and_contrast_it_is_the_plain_method(start: Pretrained) -> None:
    formulation = two_stage(start, hard="none", alpha=0.0)
    plain = plain_of(formulation)
    model = reader_of(formulation, start)
    assert formulation.weights == {"hard": 1.0} and set(model.heads) == {"qa"}
    assert loss_of(model, formulation, RECORDS) == loss_of(model, plain, RECORDS) > 0
    assert predict_all(model, formulation, RECORDS) == predict_all(model, plain, RECORDS)


def test_predicts_as_the_plain_method_does_without_the_weights_of_ranks(start: Pretrained) -> None:
    formulation = two_stage(start)
    model = reader_of(formulation, start)
    assert isinstance(model.heads["ranks"], RankWeights) and model.heads["ranks"].rank.shape == (20,)
    expected = predict_all(model, plain_of(formulation), RECORDS)
    del model.heads["ranks"]
    assert predict_all(model, replace(formulation, candidates={}), RECORDS) == expected


def test_z_holds_the_gold_of_every_window_and_cls_where_there_is_none(start: Pretrained) -> None:
    formulation = two_stage(start, candidates=2)
    formulation = replace(formulation, settings=replace(formulation.settings, max_tokens=38, stride=4))
    windows = formulation.features(RECORDS)
    assert len(windows) > len(RECORDS) and {len(each.candidates) for each in windows} == {1, 2}
    for window in windows:
        assert (window.answers[:1] or ((0, 0),))[0] in window.candidates
    batch = formulation.batch(windows)
    gold_NK = (batch.candidate_start_NK == batch.gold_start_N.unsqueeze(1)) & (
        batch.candidate_end_NK == batch.gold_end_N.unsqueeze(1)
    )
    assert gold_NK.sum(dim=1).tolist() == [1] * len(windows)


def test_the_true_answer_is_first_in_z_or_at_its_rank(start: Pretrained) -> None:
    first, ranked = (two_stage(start, candidates=4, gold_first=each).features(RECORDS) for each in (True, False))
    assert any(window.candidates[0] != window.answers[0] for window in ranked if window.answers)
    for window, other in zip(first, ranked, strict=True):
        assert window.candidates[0] == (window.answers or ((0, 0),))[0]
        assert sorted(window.candidates) == sorted(other.candidates)
        gold = window.candidates[0]
        assert window.candidates[1:] == tuple(each for each in other.candidates if each != gold)


def test_alpha_weighs_the_losses_and_leaves_out_what_weighs_nothing(start: Pretrained) -> None:
    formulation = two_stage(start, alpha=0.25)
    model, batch = reader_of(formulation, start), formulation.batch(formulation.features(RECORDS))
    losses = formulation.losses(model, batch, None)
    assert formulation.weights == {"hard": 0.75, "contrast": 0.25}
    assert {name: int(loss.count) for name, loss in losses.items()} == {"hard": 6, "contrast": 5}
    assert {name: int(count) for name, count in formulation.counts(batch).items()} == {"hard": 6, "contrast": 5}
    means = {name: loss.total.item() / loss.count.item() for name, loss in losses.items()}
    expected = 0.75 * means["hard"] + 0.25 * means["contrast"]
    assert loss_of(model, formulation, RECORDS) == pytest.approx(expected, rel=1e-6)
    for alpha, name in ((0.0, "hard"), (1.0, "contrast")):
        assert loss_of(model, two_stage(start, alpha=alpha), RECORDS) == pytest.approx(means[name], rel=1e-6)


def test_alpha_0_reads_every_micro_batch_once(start: Pretrained) -> None:
    formulation = two_stage(start, alpha=0.0)
    assert formulation.precompute(nn.Module(), [None, None], lambda at: nullcontext()) == [None, None]


# --- micro-batches and ranks ------------------------------------------------------------------------------------------


def test_micro_batches_have_the_gradients_of_one_batch(xlmr_folder: Path) -> None:
    value, gradients = step(xlmr_folder, [slice(0, 6)])
    found_value, found = step(xlmr_folder, [slice(0, 3), slice(3, 3), slice(3, 6)])
    torch.testing.assert_close(found_value, value)
    torch.testing.assert_close(found, gradients, rtol=0, atol=2e-6)
    assert "heads.ranks.rank" in found and max(each.abs().max() for each in found.values()) > 0.01


def test_micro_batches_are_one_batch_with_the_same_dropout(xlmr_folder: Path) -> None:
    """The loop's use of it: the encoder runs twice with the same seeds, and hard negatives are those of its first."""
    start = load_model(xlmr_folder)
    formulation = two_stage(start, hard="hard_em")
    model = reader_of(formulation, start).train()
    features = formulation.features(RECORDS)
    batches = [formulation.batch(features[share]) for share in (slice(0, 4), slice(4, 6))]
    counts = step_counts([formulation.counts(batch) for batch in batches])

    def prepare(at: int) -> AbstractContextManager[None]:
        torch.manual_seed(at)
        return nullcontext()

    for at, known in enumerate(formulation.precompute(model, batches, prepare)):
        with prepare(at):
            losses = formulation.losses(model, batches[at], known)
        normalised(weighted(losses, formulation.weights), counts).backward()
    found = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}

    model.zero_grad()
    total, representations, windows = torch.zeros(()), [], []  # all graphs in memory
    for at, batch in enumerate(batches):
        with prepare(at):
            hidden_TD = model.encoder(batch.inputs)
            rows = formulation.scores(model, hidden_TD, batch)
            windows.append(windows_of(batch, 24, hard_negatives(hidden_TD, *rows, batch, 8, 12)))
            representations.append(represented(hidden_TD, batch, windows[-1].hard_N2))
        with prepare(at):
            total = total + formulation.losses(model, batch, None)["hard"].total / 6
    together = [torch.cat(parts) for parts in zip(*representations, strict=True)]
    known_of_all = type(windows[0])(*(torch.cat(parts) for parts in zip(*windows, strict=True)))
    contrast = answer_contrast(*together, known_of_all, formulation.method.temperature)
    (0.5 * total + 0.5 * contrast.total / 5).backward()
    expected = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)
    assert any(module.p for module in model.modules() if isinstance(module, nn.Dropout))


def test_two_uneven_ranks_have_the_loss_and_gradients_of_one_batch(xlmr_folder: Path, tmp_path: Path) -> None:
    value, expected = step(xlmr_folder, [slice(0, 6)])
    port = free_port()
    ranks = [server.Process(target=on_rank, args=(rank, port, xlmr_folder, tmp_path)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    assert finish(ranks) == [0, 0]
    for rank in (0, 1):
        found_value, found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found_value, value)
        torch.testing.assert_close({name: found[name] for name in expected}, expected, rtol=0, atol=2e-6)
