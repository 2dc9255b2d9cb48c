"""Finds the formulation that a method has for a kind of task."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from training.data.tokens import TextEncoder
from training.methods.formulation import Formulation
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import MethodSettings, check_method


def formulation_class(method: MethodSettings, kind: str) -> type[Formulation]:
    """Imports the class. Raises `ConfigError` if the method has none for this kind of task."""
    check_method(method, kind)
    formulation: type[Formulation] = resolve_name(method.formulations[kind])
    return formulation


def formulation_of(settings: InferenceSettings, encoder: TextEncoder, **run_data: Any) -> Formulation:
    """Returns the formulation; `run_data` are `RunData.fields`. Raises as `formulation_class` does."""
    return formulation_class(settings.method, settings.kind)(settings, encoder, **run_data)
