"""`polyspan-train evaluate`: predicts a benchmark's files with a fine-tuned model and scores the predictions.

The figures are those that `polyspan-train score` gives for the same predictions. For mPMR's entities there is also
`span_f1`, over all likely spans, including those that overlap. Fine-tuning chooses the best weights by these figures.

results/TASK/
  predictions/xquad.de.json    the official format: {id: answer}; .tsv: a tag on each line; .txt: a label on each line
  predictions/xquad.de.jsonl   the complete `Prediction`s, with offsets and probabilities
  report.json, report.txt      the figures
  evaluation.json              the list of these files, written first
The folder is written beside its final path and renamed when it is complete.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import check_output, locked, recover
from schemas.runtime.shown_paths import shown_path
from training import score
from training.checks.inference import checked, evaluations_of, output_of
from training.engine.metrics_log import NOTED
from training.engine.run_folder import shown_recipe
from training.inference.predictor import (
    Predictor,
    Progress,
    device_of,
    load_predictor,
    model_in,
    precision_of,
    predict,
    with_translations,
)
from training.methods.base import EncoderWithHeads
from training.methods.formulation import Formulation
from training.metrics import aggregates
from training.metrics.counting import Counted
from training.metrics.reports import FORMATS, Report, as_json, as_text, main_figures
from training.metrics.tags import Entity
from training.models.folder import Provenance
from training.recipes.finetuning import InferenceSettings
from training.recipes.inference import EvaluateConfig
from training.recipes.scoring import Reporting, ScoreConfig
from training.runtime import atomic_write
from training.runtime.outputs import EVALUATION, evaluation_files
from training.tasks.catalog import TASKS, Task
from training.tasks.files import FileLedger, Flags
from training.tasks.kinds import unresolved_entities
from training.tasks.predictions import Prediction
from training.tasks.translations import Translations, read_translations

Unresolved = list[tuple[Entity, ...]] | None  # likely entities of each sentence of a file, if the model reports them


def run(config: EvaluateConfig) -> str:
    """Evaluates and returns the report in the format that was asked for.

    Raises `ConfigError` for what cannot work and `InputError` for files that cannot be read, both before anything is
    predicted; `InputError` after that where files turn out to have no labels.
    """
    scored = evaluate_tasks(evaluations_of(config))
    for each in scored:
        if isinstance(each, InputError):
            raise each
    reports = [each for each in scored if isinstance(each, Report)]
    if config.reporting.format == "json" and len(reports) > 1:
        return json.dumps([json.loads(as_json(report)) for report in reports], indent=2, ensure_ascii=False) + "\n"
    return "\n".join(map(FORMATS[config.reporting.format], reports))


def evaluate(config: EvaluateConfig) -> Report:
    """Writes the output folder of one task and returns the report. Raises as `run` does."""
    (scored,) = evaluate_tasks([config])
    if isinstance(scored, InputError):
        raise scored
    return scored


def evaluate_tasks(configs: Sequence[EvaluateConfig]) -> list[Report | InputError]:
    """Evaluates one model on several tasks and loads it once. Returns a report for each task, or an error if its files
    have no labels; such predictions are written too. Raises as `run` does before anything is predicted."""
    prepared = []
    for config in configs:
        output = output_of(config)
        recover(output, evaluation_files)
        check_output(output, evaluation_files, inputs_of(config))
        scoring, task = checked(config, output)
        prepared.append((output, config, read_golds(config, scoring, task), task))
    with ExitStack() as locks:
        for output, *_ in prepared:
            locks.enter_context(locked(output))
        predictor = load_predictor(model_in(configs[0].model), device_of(configs[0].computing))
        for _, config, _, task in prepared:
            for warning in label_warnings(predictor.settings, config.model, config.task, task):
                log(warning)
        predictors = [with_translations(predictor, translations_of(config)) for _, config, _, _ in prepared]
        return [evaluate_into(*each, with_its_own) for each, with_its_own in zip(prepared, predictors, strict=True)]


def evaluate_into(
    output: Path, config: EvaluateConfig, golds: Sequence[Gold], task: Task, predictor: Predictor
) -> Report | InputError:
    """Writes the output folder in place of an older evaluation. The caller holds the folder's lock. If nothing can be
    scored, the folder keeps the predictions, which took longer."""
    with atomic_write.folder(output, evaluation_files) as beside:
        scoring = scoring_of(config, beside, golds)
        list_files(beside, config.task, scoring.predictions)
        unresolved = predict_all(config, scoring, golds, task, predictor)
        scored = report_or_error(config, scoring, golds, unresolved, output)
        if isinstance(scored, Report):
            write_report(beside, scored, origin(config, predictor))
    if isinstance(scored, Report):
        log(f"Written: {output}")
    return scored


def translations_of(config: EvaluateConfig) -> Translations | None:
    """Reads the translations of the gold files' records; None if none are given."""
    if not config.translations:
        return None
    return read_translations(config.translations, config.task, config.translation_langs)


def scoring_of(config: EvaluateConfig, folder: Path, golds: Sequence[Gold]) -> ScoreConfig:
    """Returns what the scorer is asked for: the predictions are in `folder`."""
    scoring, _ = checked(config, folder)
    if config.labels and not scoring.langs:  # the name of a label file does not always say its language
        return replace(scoring, langs=tuple(gold.langs[0] for gold in golds))
    return scoring


def report_or_error(
    config: EvaluateConfig, scoring: ScoreConfig, golds: Sequence[Gold], unresolved: Sequence[Unresolved], output: Path
) -> Report | InputError:
    """Scores the predictions. Returns an error where files have no labels, or where they do not fit the predictions."""
    if unlabelled := [gold.path for gold in golds if "unlabelled" in gold.flags and not config.labels]:
        return InputError(
            f"{unlabelled[0]}: has no labels, so nothing is scored. The predictions of all files are in "
            f"{output / 'predictions'}. XTREME takes the labels out of its test files: give its label files with "
            "--labels"
        )
    try:
        return score.report_of(scoring, unresolved)
    except InputError as error:
        return error


def write_report(folder: Path, report: Report, model: Mapping[str, Any]) -> None:
    """Writes report.json, which also says which `model` the figures are of, and report.txt."""
    values = json.loads(as_json(report)) | {"model": model}
    atomic_write.text(folder / "report.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    atomic_write.text(folder / "report.txt", as_text(report))


def predict_all(
    config: EvaluateConfig, scoring: ScoreConfig, golds: Sequence[Gold], task: Task, predictor: Predictor
) -> list[Unresolved]:
    """Writes the predictions of every file; returns the likely entities of each before overlaps were resolved."""
    notes: Counter[str] = Counter()
    unresolved = []
    for gold, path in zip(golds, scoring.predictions, strict=True):
        with Progress(gold.path.name, len(gold.records)) as progress:
            predictions = predict(
                predictor.model,
                predictor.formulation,
                gold.records,
                predictor.device,
                precision_of(config.computing, predictor.device),
                config.computing.batch_tokens,
                progress,
                notes,
            )
        atomic_write.text(path, task.shared.official(predictions, predictor.settings.labels))
        lines = (json.dumps(prediction.to_json(), ensure_ascii=False) + "\n" for prediction in predictions)
        atomic_write.text(path.with_suffix(".jsonl"), "".join(lines))
        unresolved.append(unresolved_entities(predictions))
    for note, text in NOTED.items():
        if notes[note]:
            log(f"{text}: {notes[note]:,}")
    return unresolved


def list_files(folder: Path, task: str, predictions: Sequence[Path]) -> None:
    """Writes evaluation.json, which lists the evaluation's files; any other file in its folder is the user's."""
    written = [file for path in predictions for file in (path, path.with_suffix(".jsonl"))]
    names = [file.relative_to(folder).as_posix() for file in written]
    files = sorted({*names, "report.json", "report.txt", EVALUATION})
    atomic_write.text(
        folder / EVALUATION, json.dumps({"format_version": 1, "task": task, "files": files}, indent=2) + "\n"
    )


def inputs_of(config: EvaluateConfig) -> dict[str, Sequence[str | Path]]:
    """Returns the paths that must not be in the output folder, by the option that names them."""
    return {
        "MODEL": [config.model],
        "--gold": config.gold,
        "--labels": config.labels,
        "--translations": config.translations,
    }


class Gold(NamedTuple):
    """The records of one gold file."""

    path: Path
    records: Sequence[Any]
    flags: Flags
    ledger: FileLedger

    @property
    def langs(self) -> list[str]:
        """The records' languages, in the order in which they first occur."""
        return list(dict.fromkeys(record.lang for record in self.records))


# --- before anything is predicted -------------------------------------------------------------------------------------


def read_golds(config: EvaluateConfig, scoring: ScoreConfig, task: Task) -> list[Gold]:
    """Reads the gold files. Raises `InputError` if one is empty, `ConfigError` for languages that cannot be scored."""
    golds = []
    for index, path in enumerate(config.gold):
        gold = Gold(path, *task.read(path, config.reporting.langs[index] if config.reporting.langs else None))
        if not gold.records:
            raise InputError(f"{path}: holds nothing to score")
        golds.append(gold)
    rows = [(path, lang) for path, gold in zip(scoring.gold, golds, strict=True) for lang in gold.langs]
    score.refuse_twice([task.row(path, lang) for path, lang in rows])
    for _, lang in rows:
        score.check_lang(task.metric, lang)
    return golds


def label_warnings(settings: InferenceSettings, model: str, name: str, task: Task) -> list[str]:
    """Returns what to warn of where the model's labels are not the task's. Raises `ConfigError` for a model that
    cannot be scored on the task."""
    if settings.kind != task.kind:
        fitting = [other for other, of_kind in TASKS.items() if of_kind.kind == settings.kind]
        raise ConfigError(
            f"{model} was trained for {settings.kind}, but {name} is {task.kind}. Its tasks: {', '.join(fitting)}"
        )
    missing = [label for label in task.labels if label not in settings.labels]
    other = [label for label in settings.labels if label not in task.labels]
    if (other and not task.shared.takes_other_labels) or (task.labels and len(missing) == len(task.labels)):
        raise ConfigError(
            f"{model} has the labels {', '.join(settings.labels)}, but those of {name} are {', '.join(task.labels)}"
        )
    warnings = []
    if missing:
        warnings.append(f"{model} does not know {', '.join(missing)} of {name}: none will be found")
    if other:
        warnings.append(f"{model} also finds {', '.join(other)}, which {name} lacks: these count as wrong")
    return warnings


# --- the model in report.json -----------------------------------------------------------------------------------------


def origin(config: EvaluateConfig, predictor: Predictor) -> dict[str, Any]:
    """Returns which model the figures are of, and the translations that it read."""
    translations = getattr(predictor.formulation, "translations", None) if config.translations else None
    return {
        # Without the name that a new series' folder has until it is complete.
        "model": shown_path(re.sub(r"(^|/)\.([^/]+)\.new(?=/|$)", r"\1\2", config.model)),
        "device": predictor.device.type,
        "precision": precision_of(config.computing, predictor.device),
        **({"translations": translations.files} if translations else {}),
        "reading": asdict(predictor.settings) | {"method": type(predictor.settings.method).__name__},
        "provenance": predictor.provenance and asdict(shown_provenance(predictor.provenance)),
    }


def shown_provenance(provenance: Provenance) -> Provenance:
    """Returns the provenance with shortened paths: older releases wrote whole ones."""
    return replace(provenance, base_model=shown_path(provenance.base_model), recipe=shown_recipe(provenance.recipe))


def log(text: str) -> None:
    print(text, file=sys.stderr)


# --- during training --------------------------------------------------------------------------------------------------


class DevSet(NamedTuple):
    """Labelled records to choose the best weights by."""

    name: str
    task: str
    records: Sequence[Any]


def dev_scores(
    model: EncoderWithHeads,
    formulation: Formulation,
    sets: Sequence[DevSet],
    device: torch.device,
    precision: Literal["bf16", "fp32"] = "fp32",
    most_tokens: int | None = None,
) -> dict[str, dict[str, float]]:
    """Returns set → figure → percent, the mean over its languages; `evaluate` gives the same for these predictions."""
    scores = {}
    for dev in sets:
        predictions = predict(model, formulation, dev.records, device, precision, most_tokens)
        by_lang = counted(dev.task, dev.records, predictions)
        names = next(iter(by_lang.values())).figures
        scores[dev.name] = {
            name: aggregates.mean({lang: counts.figures[name][0] for lang, counts in by_lang.items()}) for name in names
        }
    return scores


def counted(task: str, records: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Counted]:
    """Returns language → counts. Predictions are in the order of the records, because published ids may repeat."""
    graded = TASKS[task].shared.graded(records, predictions, TASKS[task].labels)
    return score.counted_by_lang(TASKS[task].metric, [record.lang for record in records], graded, Reporting())


def main_score(figures: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean of the sets' main figures: F1 for questions and entities, accuracy for pairs. XTREME's own
    number for questions, the mean of F1 and exact match, moves in coarser steps."""
    return aggregates.mean({name: values[main_figures(values)[0]] for name, values in figures.items()})
