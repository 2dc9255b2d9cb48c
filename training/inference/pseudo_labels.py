"""Makes what X-Mixup trains on besides the records: translations, translations back and, for the pseudo-labels of
targets, the probabilities that a plain model gives them (X-Mixup, 4.1 and 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from schemas.errors import ConfigError
from schemas.runtime.shown_paths import shown_path
from training.inference.predictor import Predictor
from training.inference.soft_labels import data_with_teacher
from training.methods.parallel import Parallel
from training.methods.registry import formulation_of
from training.recipes.finetuning import FinetuneConfig
from training.recipes.methods import Plain, RunData, XMixup
from training.tasks.records import Record
from training.tasks.translations import Translations


def mixup_data(config: FinetuneConfig, records: Sequence[Record]) -> RunData:
    """Returns translations and pseudo-labels as `XMixupFormulation` takes them.

    Raises `ConfigError` if the teacher is no plain model, and otherwise as `soft_labels.parallel_data`.
    """
    data = data_with_teacher(config, records, reads_targets_alone)
    method = cast(XMixup, config.recipe.method)
    return data._replace(lines=[*data.lines, sampling_line(records, data.fields["translations"], method)])


def reads_targets_alone(config: FinetuneConfig, teacher: Predictor) -> Parallel:
    """Returns the formulation with which a plain model labels the targets, each text alone."""
    if not isinstance(teacher.settings.method, Plain):
        raise ConfigError(
            f"--baseline {shown_path(config.baseline)}: expected a plain model, which labels the translations, found "
            f"one of the method {teacher.settings.method.name}. Leave --baseline out to train one first"
        )
    alone = XMixup(mixup=False, sampling_decay=0.0, source_lang=cast(XMixup, config.recipe.method).source_lang)
    return cast(Parallel, formulation_of(replace(teacher.settings, method=alone), teacher.encoder))


def sampling_line(records: Sequence[Record], translations: Translations, method: XMixup) -> str:
    """Says how many translations are translated back. Without any, source texts are always the real ones."""
    if not method.sampling_decay:
        return "  scheduled sampling: off, source texts are always the real ones"
    there = [translation for record in records for translation in translations.of(record).values()]
    backs = sum(method.source_lang in translations.of(translation.record()) for translation in there)
    if not backs:
        return (
            "  scheduled sampling: --translations have no translations back into "
            f"{method.source_lang}, so source texts are always the real ones"
        )
    return f"  scheduled sampling: {backs:,} of {len(there):,} translations are translated back"
