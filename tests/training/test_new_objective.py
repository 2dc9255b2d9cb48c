"""A new objective needs its settings, a collator, a method and a `PretrainingTask`; no other file knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from schemas.errors import ConfigError
from tests.training.runs import losses, small
from training.checks.pretraining import check
from training.data.batches import Movable, Packed, pack
from training.data.features import Limits
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads, OnePass, seeded
from training.methods.pretraining_tasks import CLISM, PRETRAINING_TASKS
from training.models.folder import Pretrained, load_model
from training.models.heads import HEADS
from training.objectives import Loss
from training.pretrain import pretrain
from training.recipes.pretraining import PretrainConfig


@dataclass(frozen=True)
class QuestionCount:
    """Predicts the number of questions of a sentence pair from its first token."""

    max_tokens: int = 64


class CountFeatures(NamedTuple):
    id: str
    ids: tuple[int, ...]
    questions: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CountBatch(Movable):
    inputs: Packed
    questions_N: Tensor
    example_ids: tuple[str, ...]


@dataclass(frozen=True)
class CountCollator:
    encoder: TextEncoder
    limits: Limits

    def features(self, row: Mapping[str, Any]) -> CountFeatures | str:
        ids, _, _ = self.encoder.pair(
            self.encoder.ids(row["source_text"])[: self.limits.source],
            self.encoder.ids(row["target_text"])[: self.limits.target],
        )
        return CountFeatures(row["id"], ids, len(row["questions"]))

    def batch(self, examples: Sequence[CountFeatures], keys: Sequence[tuple[int, int]]) -> CountBatch:
        questions_N = torch.tensor([example.questions for example in examples], dtype=torch.float32)
        return CountBatch(pack([example.ids for example in examples]), questions_N, tuple(e.id for e in examples))


class CountHead(nn.Module):
    purpose = "predicts the number of questions"

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"hidden_size": hidden_size}
        self.count = nn.Linear(hidden_size, 1)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        count_N: Tensor = self.count(hidden_ND).squeeze(1)
        return count_N


@dataclass(frozen=True)
class CountMethod(OnePass):
    objective: QuestionCount

    @property
    def weights(self) -> dict[str, float]:
        return {"count": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        with seeded(seed):
            return {"count": CountHead(start.language_model.config.hidden_size)}

    def counts(self, batch: CountBatch) -> dict[str, int | Tensor]:
        return {"count": len(batch.example_ids)}

    def losses(self, model: EncoderWithHeads, batch: CountBatch, shared: Any) -> dict[str, Loss]:
        first_ND = model.encoder(batch.inputs)[batch.inputs.bounds_N1[:-1].long()]
        total = (model.heads["count"](first_ND) - batch.questions_N).square().sum()
        return {"count": Loss(total, torch.tensor(len(batch.example_ids)), {})}


QUESTION_COUNT = replace(
    CLISM,
    texts=("source_text", "target_text"),
    least={"max_tokens": 8},
    check=lambda objective: None,
    limits=lambda objective: Limits(source=24, target=24, total=objective.max_tokens),
    collator=lambda recipe, encoder, limits: CountCollator(encoder, limits),
    method=CountMethod,
    heads=("count",),
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretrainConfig:
    monkeypatch.setitem(PRETRAINING_TASKS, QuestionCount, QUESTION_COUNT)
    monkeypatch.setitem(HEADS, "count", CountHead)
    return with_objective(small("tiny_clism", tmp_path / "run", steps=30, learning_rate=1e-3), QuestionCount())


def with_objective(config: PretrainConfig, objective: Any) -> PretrainConfig:
    return replace(config, recipe=replace(config.recipe, name="question_count", objective=objective))


def test_a_new_objective_trains_to_its_end_and_its_model_loads(config: PretrainConfig) -> None:
    outcome = pretrain(config)
    assert outcome.steps == 30 and outcome.stopped_by is None
    rows = losses(config.output)
    assert rows[-1]["loss"] == rows[-1]["loss/count"] < rows[0]["loss/count"]
    model = Path(config.output) / "model"
    assert "| count | predicts the number of questions |" in (model / "README.md").read_text(encoding="utf-8")
    assert isinstance(load_model(model).heads["count"], CountHead)
    assert pretrain(config).steps == 30 and losses(config.output) == rows, "the command is done and trains no more"


def test_a_new_objective_s_settings_are_checked(config: PretrainConfig) -> None:
    check(config)
    with pytest.raises(ConfigError, match="--max-tokens: expected 8 or more, found 4"):
        check(with_objective(config, QuestionCount(max_tokens=4)))


def test_a_head_that_no_folder_can_hold_is_refused_before_the_first_step(
    config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(HEADS, "count")
    with pytest.raises(ConfigError, match=r"cannot save count \(CountHead\)"):
        pretrain(config)
    assert not Path(config.output).exists()
