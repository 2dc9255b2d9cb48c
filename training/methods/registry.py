"""Which formulation a method has for a kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from training.checks.finetuning import check_method
from training.data.tokens import TextEncoder
from training.methods.formulation import Formulation
from training.methods.pairs import PlainPairs
from training.methods.que_tags import QueTags
from training.methods.questions import PlainQuestions, QueQuestions
from training.methods.tags import PlainTags
from training.methods.two_stage import TwoStageQuestions
from training.methods.unified import UnifiedPairs, UnifiedQuestions, UnifiedTags
from training.recipes.finetuning import InferenceSettings, MethodSettings, Plain, Que, TwoStage, Unified

FORMULATIONS: dict[tuple[type[MethodSettings], str], Callable[..., Formulation]] = {
    (Plain, "qa"): PlainQuestions,
    (Plain, "tagging"): PlainTags,
    (Plain, "pairs"): PlainPairs,
    (Que, "qa"): QueQuestions,
    (Que, "tagging"): QueTags,
    (Unified, "qa"): UnifiedQuestions,
    (Unified, "tagging"): UnifiedTags,
    (Unified, "pairs"): UnifiedPairs,
    (TwoStage, "qa"): TwoStageQuestions,
}


def formulation_of(
    reading: InferenceSettings, encoder: TextEncoder, candidates: Mapping[MrcExample, Sequence[CharSpan]] | None = None
) -> Formulation:
    """What reads the task. `candidates`: for two-stage training alone, as `TwoStageQuestions` has them.

    Raises as `check_method` does."""
    check_method(reading.method, reading.kind)
    made_by = FORMULATIONS[type(reading.method), reading.kind]
    return made_by(reading, encoder) if candidates is None else made_by(reading, encoder, candidates=candidates)
