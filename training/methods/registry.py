"""Finds the formulation that a method has for a kind of task."""

from __future__ import annotations

from pkgutil import resolve_name

from training.checks.finetuning import check_method
from training.data.tokens import TextEncoder
from training.methods.formulation import Formulation
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import MethodSettings


def formulation_class(method: MethodSettings, kind: str) -> type[Formulation]:
    """Imports the class. Raises `ConfigError` if the method has none for this kind of task."""
    check_method(method, kind)
    formulation: type[Formulation] = resolve_name(method.formulations[kind])
    return formulation


def formulation_of(settings: InferenceSettings, encoder: TextEncoder) -> Formulation:
    """Returns the formulation for these settings. Raises as `formulation_class` does."""
    return formulation_class(settings.method, settings.kind)(settings, encoder)
