from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from schemas.shards import read_examples
from tests.training.runs import DATA, finish, losses, small, start
from training.data.batches import pack
from training.engine import checkpoint, loop
from training.engine.checkpoint_writer import CheckpointWriter
from training.engine.failures import History, check_divergence
from training.engine.flops import EncoderSize, model_flops, peak_flops
from training.engine.loop import learning_rate
from training.methods.pretraining_tasks import pretraining_task
from training.models.tiny import tiny_model
from training.objectives import Loss
from training.pretrain import pretrain
from training.recipes.pretraining import RECIPES, PretrainConfig
from training.runtime.errors import TrainingError

TINY = ("tiny_clism", "tiny_mpmr")


@pytest.fixture(scope="module")
def without_dropout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For each recipe a model whose steps do not depend on how they are cut up."""
    folders = {}
    for recipe in TINY:
        folders[recipe] = str(tmp_path_factory.mktemp(recipe))
        start = tiny_model([str(DATA[recipe])], pretraining_task(RECIPES[recipe]).vocabulary_texts, seed=0)
        start.language_model.config.hidden_dropout_prob = 0.0
        start.language_model.save_pretrained(folders[recipe])
        start.tokenizer.save_pretrained(folders[recipe])
    return folders


def config_for(recipe: str, model: str, output: Path, **fields: Any) -> PretrainConfig:
    config = small(recipe, output, steps=3, model=model, batch_size=6, **fields)
    objective = config.recipe.objective
    if recipe == "tiny_mpmr":
        objective = replace(objective, extractor_dropout=0.0)  # type: ignore[call-arg]
    return replace(config, recipe=replace(config.recipe, objective=objective))


def weights_of(output: str) -> dict[str, torch.Tensor]:
    return {name: each for file in Path(output).glob("model/*.safetensors") for name, each in load_file(file).items()}


@pytest.mark.parametrize("recipe", TINY)
@pytest.mark.parametrize("tokens, ranks", [(150, 1), (0, 2), (100, 2)])
def test_micro_batches_and_ranks_take_the_steps_of_one_batch(
    recipe: str, tokens: int, ranks: int, without_dropout: dict[str, str], tmp_path: Path
) -> None:
    whole = config_for(recipe, without_dropout[recipe], tmp_path / "whole")
    pretrain(whole)
    parts = config_for(recipe, without_dropout[recipe], tmp_path / "parts", micro_batch_tokens=tokens)
    assert finish(start(parts, ranks)) == [0] * ranks
    for expected, found in zip(losses(whole.output), losses(parts.output), strict=True):
        for name in expected:
            if name.startswith("loss") or name in ("gradient_norm", "lr", "examples", "tokens"):
                assert found[name] == pytest.approx(expected[name], rel=1e-4), name
    expected_weights, found_weights = weights_of(whole.output), weights_of(parts.output)
    assert expected_weights.keys() == found_weights.keys()
    for name, tensor in expected_weights.items():
        # Adam's first steps are a learning rate long whatever the gradient, so where it is rounding, signs may differ.
        off = (found_weights[name] - tensor).abs() > 1e-5
        assert off.float().mean() < 1e-3, name


def test_small_parts_really_are_several(without_dropout: dict[str, str], tmp_path: Path, monkeypatch: Any) -> None:
    seen: list[int] = []
    monkeypatch.setattr(
        loop, "step_counts", lambda each, real=loop.step_counts: (seen.append(len(each)), real(each))[1]
    )
    pretrain(config_for("tiny_clism", without_dropout["tiny_clism"], tmp_path, micro_batch_tokens=150))
    assert min(seen) >= 2


@pytest.mark.parametrize("options", [{"activation_checkpointing": True}, {"loader_workers": 1}])
def test_how_it_runs_does_not_change_the_numbers(options: dict[str, Any], tmp_path: Path) -> None:
    config = small("tiny_mpmr", tmp_path / "plain", steps=2)
    pretrain(config)
    pretrain(replace(config, output=str(tmp_path / "other"), **options))
    assert losses(tmp_path / "other") == losses(tmp_path / "plain")


def test_bf16_is_near_fp32_and_not_equal(tmp_path: Path) -> None:
    for precision in ("bf16", "fp32"):
        pretrain(small("tiny_clism", tmp_path / precision, steps=2, precision=precision))
    bf16, fp32 = ([row["loss"] for row in losses(tmp_path / each)] for each in ("bf16", "fp32"))
    assert bf16 != fp32 and bf16 == pytest.approx(fp32, rel=0.02)


# --- the schedule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps, warmup, expected",
    [
        (5, 2, [0.5, 1.0, 0.75, 0.5, 0.25]),
        (3, 0, [1.0, 2 / 3, 1 / 3]),
        (2, 2, [0.5, 1.0]),
    ],
)
def test_rate_rises_linearly_and_falls_linearly(steps: int, warmup: int, expected: list[float]) -> None:
    recipe = replace(RECIPES["clism"], steps=steps, warmup_steps=warmup, learning_rate=1.0)
    assert [learning_rate(recipe, step) for step in range(steps)] == pytest.approx(expected)


# --- what ends a run --------------------------------------------------------------------------------------------------


def spoil(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[torch.Tensor], torch.Tensor],
    from_step: int,
    to_step: float = math.inf,
) -> None:
    """Changes the loss of every step after `from_step`, up to `to_step`."""
    real, calls = loop.weighted, [0]

    def weighted(losses: Any, weights: Any) -> Any:
        calls[0] += 1
        if from_step < calls[0] <= to_step:
            losses = {name: loss._replace(total=change(loss.total)) for name, loss in losses.items()}
        return real(losses, weights)

    monkeypatch.setattr(loop, "weighted", weighted)


def test_a_step_whose_gradient_is_no_number_changes_nothing_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
    real = loop.take_step

    def recorded(model: Any, optimizer: Any, *rest: Any) -> Any:
        result = real(model, optimizer, *rest)
        state = checkpoint.snapshot(0, model, optimizer, {})
        taken.append(
            tuple({name: each.clone() for name, each in part.items()} for part in (state.model, state.moments))
        )
        return result

    monkeypatch.setattr(loop, "take_step", recorded)
    spoil(monkeypatch, lambda total: total * math.nan, from_step=4, to_step=6)
    pretrain(small("tiny_mpmr", tmp_path, steps=8))
    changes = [
        any(not torch.equal(now[name], before[name]) for name in now)
        for (model_before, moments_before), (model_now, moments_now) in pairwise(taken)
        for before, now in ((model_before | moments_before, model_now | moments_now),)
    ]
    assert changes == [True, True, True, False, False, True, True]
    assert [row["step"] for row in losses(tmp_path) if "skipped" in row] == [5, 6]
    assert all(tensor.isfinite().all() for tensor in weights_of(str(tmp_path)).values())
    err = capsys.readouterr().err
    assert err.count("nothing changed. Process 0 was reading these examples: ") == 2
    assert "2 of 8 steps skipped" in err


@pytest.mark.parametrize("spoilt", ["loss", "gradient", "nothing"])
def test_the_device_skips_the_update_if_loss_or_gradient_is_not_finite(spoilt: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, weight_decay=0.1, fused=True)
    parameter.grad = torch.full((3,), math.nan if spoilt == "gradient" else 1.0)
    totals = torch.tensor([1.0, math.inf if spoilt == "loss" else 2.0])
    losses = [{"a": Loss(totals[0], torch.tensor(1), {})}, {"a": Loss(totals[1], torch.tensor(1), {})}]
    skipped = loop.not_finite(losses, parameter.grad.norm())
    loop.update(optimizer, skipped)
    assert skipped.item() == (spoilt != "nothing")
    assert torch.equal(parameter, torch.ones(3)) == (spoilt != "nothing")
    assert optimizer.state[parameter]["step"].item() == (spoilt == "nothing")


def test_skipped_steps_in_a_row_stop_the_run_and_name_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, lambda total: total * math.nan, from_step=4)
    config = replace(small("tiny_mpmr", tmp_path), stop_after_skipped=3)
    with pytest.raises(
        TrainingError, match=r"Step 7: .*gradient norm nan.*3 steps in a row.*lower --learning-rate"
    ) as stopped:
        pretrain(config)
    ids = str(stopped.value).partition("these examples: ")[2].split()
    known = {example.id for example in read_examples(DATA["tiny_mpmr"])}
    assert len(ids) == 4 and known.issuperset(ids)
    kept = ["step-00000003", "step-00000006"]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == kept
    assert str(stopped.value).count(f"The weights of {tmp_path}/checkpoints/step-00000006 are sound") == 1
    state = json.loads((tmp_path / "checkpoints" / kept[1] / "state.json").read_text())
    assert state["skipped"] == 2 and len(state["losses"]) == 4  # the next run goes on counting
    assert len(losses(tmp_path)) == 6
    with pytest.raises(TrainingError, match="Step 7: "):
        pretrain(config)


def refusing(loss: float, before: list[float], factor: float = 10.0) -> None:
    row = {"loss": loss, "gradient_norm": 1.0}
    config = PretrainConfig(replace(RECIPES["clism"], stop_loss_factor=factor))
    nothing = type("Fetched", (), {"micro_batches": ()})
    writer = CheckpointWriter(Path("nowhere"), 1, in_background=False)
    check_divergence(row, History(before), config, 7, nothing, [], writer)  # type: ignore[arg-type]


def test_a_loss_ten_times_the_largest_of_the_last_hundred_is_an_explosion() -> None:
    refusing(10.0, [1.0] * 100)
    refusing(10.1, [1.0] * 99)
    refusing(10.1, [1.0] * 99 + [1.2])
    refusing(10.1, [1.0] * 100, factor=0.0)
    with pytest.raises(TrainingError, match=r"Step 8: loss 10\.1.* after at most 1 in the 100 steps before"):
        refusing(10.1, [1.0] * 100)


def test_out_of_memory_says_what_to_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(loop, "clip_gradients", full)
    with pytest.raises(TrainingError, match=r"--micro-batch-tokens 100 or --activation-checkpointing.*2\.00 GiB"):
        pretrain(small("tiny_clism", tmp_path, micro_batch_tokens=200))


# --- speed ------------------------------------------------------------------------------------------------------------


def test_model_flops_of_xlm_r_base_are_the_usual_estimate() -> None:
    base = EncoderSize(layers=12, hidden=768, inner=3072, vocabulary=250_002)
    packed = pack([range(256)] * 4)
    per_token = model_flops(base, [packed]) / packed.tokens
    weights = 12 * 12 * 768**2  # of the layers' matrices
    assert per_token == pytest.approx(6 * weights + 12 * 12 * 768 * 256)
    head = model_flops(base, [], predicted_tokens=10)
    assert head == pytest.approx(60 * 768 * (768 + 250_002))


def test_model_flops_of_deberta_count_its_relative_positions() -> None:
    base = EncoderSize(layers=12, hidden=768, inner=3072, vocabulary=251_000)
    packed = pack([range(256)] * 4)
    more = model_flops(base._replace(positions=512, position_products=2), [packed]) - model_flops(base, [packed])
    compared, projected = 2 * 1_024 * 512 * 768, 2 * 512 * 768**2
    assert more == pytest.approx(3 * 12 * 2 * (compared + projected))


@pytest.mark.parametrize(
    "name, expected",
    [("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA A100-SXM4-40GB", 312e12), ("M7", None)],
)
def test_peak_is_known_by_the_devices_name(name: str, expected: float | None) -> None:
    assert peak_flops(name) == expected


def test_figures_of_a_row_add_up(tmp_path: Path) -> None:
    pretrain(small("tiny_clism", tmp_path, steps=2))
    for row in map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines()):
        assert row["loss"] == pytest.approx(sum(row[f"loss/{name}"] for name in ("clism", "cacr", "mlm")))
        assert row["tokens_per_s"] == pytest.approx(row["tokens"] / row["seconds"])
        assert row["examples"] == 4 and row["padding"] == 0.0 and 0 <= row["loader_wait"] < 1
        assert "mfu" not in row
