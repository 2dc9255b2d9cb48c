"""`polyspan-train evaluate`: a fine-tuned model and a benchmark's files → predictions in its official formats, and the
figures that `polyspan-train score` gives for exactly these; for mPMR's entities `span_f1` too, which is over all that
the model finds likely, overlaps and all. Also what chooses the best weights during training.

results/TASK/
  predictions/xquad.de.json    the official format: {id: answer}; .tsv: a tag a line; .txt: a label a line
  predictions/xquad.de.jsonl   all that the model says: `Prediction`s, with places and probabilities
  report.json, report.txt      the figures
  evaluation.json              the files of all this, the first that is written
The folder is written beside its place, which it takes when it is complete.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import check_output, locked, recover
from schemas.runtime.shown_paths import shown_path
from training import score
from training.checks.inference import checked, output_of
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
)
from training.methods.base import EncoderWithHeads
from training.methods.formulation import Formulation
from training.metrics import aggregates
from training.metrics.counting import Counted
from training.metrics.reports import FORMATS, Report, as_json, as_text
from training.models.folder import Provenance
from training.recipes.finetuning import InferenceSettings
from training.recipes.inference import EvaluateConfig
from training.runtime import atomic_write
from training.runtime.outputs import EVALUATION, evaluation_files
from training.score import ScoreConfig
from training.tasks.catalog import TASKS, Task
from training.tasks.files import Flags, Ledger
from training.tasks.predictions import Prediction
from training.tasks.tags import Entity


def run(config: EvaluateConfig) -> str:
    """The report. Raises `ConfigError` for what cannot work and `InputError` for files that cannot be read, both before
    anything is predicted; `InputError` after that where files turn out to have no labels."""
    return FORMATS[config.reporting.format](evaluate(config))


def evaluate(config: EvaluateConfig) -> Report:
    """Writes the output folder. Raises as `run` does."""
    output = output_of(config)
    recover(output, evaluation_files)
    check_output(output, evaluation_files, inputs_of(config))
    scoring, task = checked(config, output)
    golds = read_golds(config, scoring, task)
    with locked(output):
        return evaluate_into(output, config, golds, task)


def evaluate_into(output: Path, config: EvaluateConfig, golds: Sequence[Gold], task: Task) -> Report:
    """Writes the output folder, which no other process writes to, in place of the evaluation that may be there."""
    device = device_of(config.computing)
    predictor = load_predictor(model_in(config.model), device)
    for each in misfits(predictor.reading, config.model, config.task, task):
        say(each)

    without = [gold.path for gold in golds if "unlabelled" in gold.flags and not config.labels]
    report, error = None, None
    with atomic_write.folder(output, evaluation_files) as beside:
        scoring, _ = checked(config, beside)
        if config.labels and not scoring.langs:  # a label file does not always say its language
            scoring = replace(scoring, langs=tuple(gold.langs[0] for gold in golds))
        list_files(beside, config.task, scoring.predictions)
        unresolved = predict_all(config, scoring, golds, task, predictor)
        try:
            report = None if without else score.report_of(scoring, unresolved)
        except InputError as raised:  # the predictions, which took longer, stay
            error = raised
        if report:
            values = json.loads(as_json(report)) | {"model": origin(config, predictor)}
            atomic_write.text(beside / "report.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")
            atomic_write.text(beside / "report.txt", as_text(report))
    if error:
        raise error
    if report is None:
        raise InputError(
            f"{without[0]}: has no labels, so nothing is scored. The predictions of all files are in "
            f"{output / 'predictions'}. XTREME takes the labels out of its test files: give its label files with "
            "--labels"
        )
    say(f"Written: {output}")
    return report


def predict_all(
    config: EvaluateConfig, scoring: ScoreConfig, golds: Sequence[Gold], task: Task, predictor: Predictor
) -> list[list[tuple[Entity, ...]] | None]:
    """Writes the predictions of every file; returns what is known of entities before overlaps were resolved."""
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
        atomic_write.text(path, official(task.kind, predictions, predictor.reading.labels))
        lines = (json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in predictions)
        atomic_write.text(path.with_suffix(".jsonl"), "".join(lines))
        unresolved.append(unresolved_of(predictions))
    for note, what in NOTED.items():
        if notes[note]:
            say(f"{what}: {notes[note]:,}")
    return unresolved


def list_files(folder: Path, task: str, predictions: Sequence[Path]) -> None:
    """Writes evaluation.json, which says what belongs to the evaluation; another file in its folder is the user's."""
    names = [each.relative_to(folder).as_posix() for path in predictions for each in (path, path.with_suffix(".jsonl"))]
    files = sorted({*names, "report.json", "report.txt", EVALUATION})
    atomic_write.text(
        folder / EVALUATION, json.dumps({"format_version": 1, "task": task, "files": files}, indent=2) + "\n"
    )


def inputs_of(config: EvaluateConfig) -> dict[str, Sequence[str | Path]]:
    """What must not be in the output folder, by the option that names it."""
    return {"MODEL": [config.model], "--gold": config.gold, "--labels": config.labels}


class Gold(NamedTuple):
    """One file."""

    path: Path
    records: Sequence[Any]
    flags: Flags
    ledger: Ledger

    @property
    def langs(self) -> list[str]:
        """In the order in which they come."""
        return list(dict.fromkeys(each.lang for each in self.records))


# --- before anything is predicted -------------------------------------------------------------------------------------


def read_golds(config: EvaluateConfig, scoring: ScoreConfig, task: Task) -> list[Gold]:
    """The gold files. Raises `InputError` if one is empty, `ConfigError` for languages that cannot be scored."""
    golds = []
    for at, path in enumerate(config.gold):
        gold = Gold(path, *task.read(path, config.reporting.langs[at] if config.reporting.langs else None))
        if not gold.records:
            raise InputError(f"{path}: holds nothing to score")
        golds.append(gold)
    rows = [(path, lang) for path, gold in zip(scoring.gold, golds, strict=True) for lang in gold.langs]
    score.refuse_twice([task.row(path, lang) for path, lang in rows])
    for _, lang in rows:
        score.normalizer(config.task, lang)
    return golds


def misfits(reading: InferenceSettings, model: str, name: str, task: Task) -> list[str]:
    """What to tell of a model whose labels are not the task's. Raises `ConfigError` if no figure could come of it."""
    if reading.kind != task.kind:
        fitting = [each for each, of in TASKS.items() if of.kind == reading.kind]
        raise ConfigError(
            f"{model} was trained for {reading.kind}, but {name} is {task.kind}. Its tasks: {', '.join(fitting)}"
        )
    missing = [label for label in task.labels if label not in reading.labels]
    strange = [label for label in reading.labels if label not in task.labels]
    if (task.kind == "pairs" and strange) or (task.labels and len(missing) == len(task.labels)):
        raise ConfigError(
            f"{model} has the labels {', '.join(reading.labels)}, but those of {name} are {', '.join(task.labels)}"
        )
    found = []
    if missing:
        found.append(f"{model} does not know {', '.join(missing)} of {name}: none will be found")
    if strange:
        found.append(f"{model} also finds {', '.join(strange)}, which {name} lacks: these count as wrong")
    return found


# --- what is written --------------------------------------------------------------------------------------------------


def answers_of(predictions: Sequence[Prediction]) -> dict[str, str]:
    """id → the best answer; empty where there is none."""
    return {each.id: each.spans[0].text if each.spans else "" for each in predictions}


def labels_of(predictions: Sequence[Prediction], labels: Sequence[str]) -> list[str]:
    """A label for every pair: the first one where the model says none, since nothing could be read."""
    return [each.label or labels[0] for each in predictions]


def official(kind: str, predictions: Sequence[Prediction], labels: Sequence[str]) -> str:
    """What the task's own scorers read."""
    if kind == "qa":
        return json.dumps(answers_of(predictions), ensure_ascii=False, indent=0) + "\n"
    if kind == "tagging":
        return "\n".join("".join(f"{tag}\n" for tag in each.tags) for each in predictions)
    return "".join(f"{label}\n" for label in labels_of(predictions, labels))


def origin(config: EvaluateConfig, predictor: Predictor) -> dict[str, Any]:
    """Which model the figures are of."""
    of = predictor.provenance
    return {
        # Without the name that a new series' folder has until it is complete.
        "model": shown_path(re.sub(r"(^|/)\.([^/]+)\.new(?=/|$)", r"\1\2", config.model)),
        "device": predictor.device.type,
        "precision": precision_of(config.computing, predictor.device),
        "reading": asdict(predictor.reading) | {"method": type(predictor.reading.method).__name__},
        "provenance": of and asdict(shown_provenance(of)),
    }


def shown_provenance(of: Provenance) -> Provenance:
    """Older releases wrote whole paths."""
    return replace(of, base_model=shown_path(of.base_model), recipe=shown_recipe(of.recipe))


def say(text: str) -> None:
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
    """Set → figure → percent, the mean of its languages: what `evaluate` says of the same predictions."""
    scores = {}
    for each in sets:
        predictions = predict(model, formulation, each.records, device, precision, most_tokens)
        by_lang = counted(each.task, each.records, predictions)
        names = next(iter(by_lang.values())).figures
        scores[each.name] = {
            name: aggregates.mean({lang: of.figures[name][0] for lang, of in by_lang.items()}) for name in names
        }
    return scores


def counted(task: str, records: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Counted]:
    """Language → what is counted in it. Predictions belong to records by their place: published ids may repeat."""
    langs, kind = [each.lang for each in records], TASKS[task].kind
    if kind == "qa":
        numbered = [replace(each, id=str(at)) for at, each in enumerate(records)]
        answers = answers_of([each._replace(id=str(at)) for at, each in enumerate(predictions)])
        return score.count_questions(numbered, answers, task)
    if kind == "tagging":
        golds, tags = [each.tags for each in records], [each.tags for each in predictions]
        return score.count_sentences(langs, golds, tags, unresolved_of(predictions))
    return score.count_pairs(langs, [each.label for each in records], labels_of(predictions, TASKS[task].labels))


def unresolved_of(predictions: Sequence[Prediction]) -> list[tuple[Entity, ...]] | None:
    """What the model found in each sentence before entities that overlap were resolved; None if it does not say."""
    return [each.unresolved for each in predictions if each.unresolved is not None] or None


def main_score(figures: Mapping[str, Mapping[str, float]]) -> float:
    """The mean of the sets' main figures: F1 for questions and entities (XTREME's own number for questions is the mean
    of F1 and exact match, which moves in coarser steps), accuracy for pairs."""
    return aggregates.mean({name: of.get("f1", of.get("accuracy", 0.0)) for name, of in figures.items()})
