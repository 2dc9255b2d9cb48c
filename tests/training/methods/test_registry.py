"""A method is known by its settings alone: a dummy one is trained, saved, evaluated and asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar

import pytest
from torch import Tensor, nn

from tests.training.people import people_config
from training import evaluate, predict
from training.data.batches import Packed
from training.data.task_batches import MrcBatch
from training.finetune import finetune
from training.methods.base import EncoderWithHeads
from training.methods.questions import PlainQuestions
from training.methods.registry import formulation_class
from training.models.finetuned import load_finetuned
from training.models.folder import Pretrained
from training.models.heads import Head, head_class
from training.objectives import Loss
from training.recipes.finetuning import FinetuneConfig
from training.recipes.inference import EvaluateConfig, PredictConfig
from training.recipes.methods import METHODS, MethodSettings, Plain, RunData


class GateHead(Head):
    """Mixes each representation with its own projection."""

    purpose = "mixes representations"

    def __init__(self, hidden_size: int, strength: float) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "strength": strength}
        self.gate = nn.Linear(hidden_size, hidden_size)
        self.strength = strength

    def forward(self, hidden_TD: Tensor) -> Tensor:
        return hidden_TD + self.strength * self.gate(hidden_TD)


@dataclass(frozen=True)
class Gated(MethodSettings):
    """The standard head over gated representations, after a first stage, with a second pass and a second loss."""

    name = "gated"
    formulations: ClassVar[dict[str, str]] = {"qa": f"{__name__}:GatedQuestions"}
    uses_standard_head = True
    run_data = f"{__name__}:teacher_of"
    heads: ClassVar[dict[str, str]] = {"gate": f"{__name__}:GateHead"}

    strength: float = 0.5

    def first_stage(self) -> MethodSettings | None:
        return Plain()


def teacher_of(config: FinetuneConfig, records: Sequence[Any]) -> RunData:
    return RunData({"teacher": config.baseline}, Path(config.baseline).name)


@dataclass(frozen=True)
class GatedQuestions(PlainQuestions):
    teacher: str = ""

    @property
    def weights(self) -> dict[str, float]:
        return {"qa": 1.0, "twice": 0.5}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        assert isinstance(self.settings.method, Gated) and self.teacher.endswith("baseline/model")
        gate = GateHead(start.language_model.config.hidden_size, self.settings.method.strength)
        return super().heads(start, seed) | {"gate": gate, "unsaved": nn.Linear(1, 1)}

    def encoder_inputs(self, batch: MrcBatch) -> tuple[Packed, ...]:
        return (batch.inputs, batch.inputs)

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        return {"qa": batch.inputs.sequences, "twice": batch.inputs.sequences}

    def scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        return super().scores(model, model.heads["gate"](hidden_TD), batch)

    def losses(self, model: EncoderWithHeads, batch: MrcBatch, shared: Any) -> dict[str, Loss]:
        first = super().losses(model, batch, shared)["qa"]
        return {"qa": first, "twice": super().losses(model, batch, shared)["qa"]._replace(figures={})}


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(METHODS, "gated", Gated)
    yield


def test_a_method_with_its_own_settings_head_and_stage_needs_one_entry(
    gated: None, xlmr_folder: Path, tmp_path: Path
) -> None:
    given = people_config(xlmr_folder, tmp_path)
    recipe = replace(given.recipe, name="gated", method=Gated(strength=0.25), steps=3, epochs=1.0)
    finished = finetune(replace(given, recipe=recipe))
    run = tmp_path / "run"
    assert finished.steps == 3 and (run / "baseline/model").is_dir()
    described = json.loads((run / "run.json").read_text("utf-8"))
    assert described["recipe"]["method"] == {"name": "gated", "strength": 0.25} and described["baseline"] == "model"

    loaded = load_finetuned(run / "model")
    assert loaded.settings.method == Gated(0.25) and list(loaded.heads) == ["gate", "qa"]
    assert loaded.heads["gate"].settings["strength"] == 0.25
    card = (run / "model/README.md").read_text("utf-8")
    assert "| gate | mixes representations |" in card and "| qa | scores every token" in card

    evaluate.run(EvaluateConfig(str(run), "squad", (given.dev[0],), output=str(tmp_path / "results")))
    assert json.loads((tmp_path / "results/report.json").read_text("utf-8"))
    (tmp_path / "in.jsonl").write_text(json.dumps({"query": "Who?", "context": "Anna lives here."}) + "\n")
    predict.run(PredictConfig(str(run), str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")))
    assert json.loads((tmp_path / "out.jsonl").read_text("utf-8"))["answers"]

    before = {path: path.stat().st_mtime_ns for path in run.rglob("*.safetensors")}
    finetune(replace(given, recipe=recipe))  # complete: nothing to do
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*.safetensors")} == before
    assert finetune(replace(given, recipe=recipe, overwrite=True)).steps == 3
    assert not set(before.items()) & {(path, path.stat().st_mtime_ns) for path in run.rglob("*.safetensors")}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_class_that_a_method_names_can_be_imported(method: type[MethodSettings]) -> None:
    for kind in method.formulations:
        assert is_dataclass(formulation_class(method(), kind))
    for name, path in method.heads.items():
        assert head_class(name) is resolve_name(path)


def test_settings_of_methods_are_free_of_torch() -> None:
    code = "import sys, training.recipes.finetuning, training.checks.finetuning; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
