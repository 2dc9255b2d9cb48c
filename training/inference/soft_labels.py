"""Makes what methods of parallel text train on besides the records: the translations and, for a student, the teacher's
probabilities of the translations' labels (FILTER, algorithm 1), as a dataset of schema soft_labels/1.

The manifest identifies the teacher by the fingerprint of its weights, the tokenizer by its own, and the sequences by
the checksum of their tokens; the student is refused if any of them, or the labels, differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from schemas import manifest
from schemas.errors import ConfigError, InputError
from schemas.runtime.shown_paths import shown_path
from schemas.shards import read_shards
from schemas.soft_labels import SoftLabelCounts, SoftLabels
from training.data.dataset_writer import write_dataset
from training.engine.run_setup import choose_device, fingerprint, log_line, resolve_precision
from training.inference.predictor import MOST_TOKENS, Predictor, batches, inference_mode, load_predictor
from training.inference.run_datasets import baseline_name, is_made_of
from training.methods.parallel import Parallel, ParallelFeatures, Rows, Scores, TeacherLabels, sequences_digest
from training.recipes.finetuning import FinetuneConfig
from training.recipes.methods import RunData
from training.runtime.distributed import barrier, process_group, rank
from training.runtime.outputs import SOFT_LABELS, fingerprint_of_dataset
from training.tasks.records import Record
from training.tasks.translations import Translations, join_lines, read_translations

SCHEMA = f"{SOFT_LABELS}/1"
AsTeacher = Callable[[FinetuneConfig, Predictor], Parallel]
"""Returns the formulation with which a teacher labels the targets, without translations."""
_DECIDING = ("teacher_sha256", "tokenizer", "labels", "sequences_sha256")  # of the manifest's configuration


def parallel_data(config: FinetuneConfig, records: Sequence[Record]) -> RunData:
    """Returns the data of a method whose teacher reads translations, as the student does (FILTER)."""
    return data_with_teacher(config, records, _reads_translations)


def data_with_teacher(config: FinetuneConfig, records: Sequence[Record], as_teacher: AsTeacher) -> RunData:
    """Returns the translations and, if the run has a teacher, its soft labels, as `Parallel` takes them.

    Raises `ConfigError` if the teacher is of another kind, and if soft labels are there that were made by another
    teacher, with another tokenizer, for other labels or for other sequences.
    """
    translations = read_translations(config.translations, config.recipe.task, config.translation_langs)
    fields: dict[str, Any] = {"translations": translations}
    lines = join_lines(records, translations)
    if not config.baseline:
        return RunData(fields, files=translations.files, lines=lines)
    folder = Path(config.output) / SOFT_LABELS
    fields["soft_labels"] = teacher_labels(config, folder, records, translations, as_teacher)
    return RunData(fields, fingerprint_of_dataset(str(folder)), translations.files, lines)


def _reads_translations(config: FinetuneConfig, teacher: Predictor) -> Parallel:
    if not isinstance(teacher.formulation, Parallel):
        raise ConfigError(
            f"--baseline {shown_path(config.baseline)}: expected a teacher that reads translations, found a model "
            f"of the method {teacher.settings.method.name}. Leave --baseline out to train one first"
        )
    return teacher.formulation


def teacher_labels(
    config: FinetuneConfig,
    folder: Path,
    records: Sequence[Record],
    translations: Translations,
    as_teacher: AsTeacher = _reads_translations,
) -> TeacherLabels:
    """Returns the teacher's probabilities for each training feature from `folder`. The first rank makes them if they do
    not exist."""
    if rank() == 0:
        teacher = load_predictor(config.baseline, torch.device("cpu"))
        formulation: Any = replace(as_teacher(config, teacher), translations=translations)
        features = formulation.training_features(records)
        made_of = about(config, teacher, features)
        if not (folder.exists() and is_made_of(folder, made_of, _DECIDING, config.overwrite)):
            with process_group() as process_device:
                device = choose_device(config.device, process_device)
            teacher.model.to(device)
            log_line(f"The teacher labels {len(features):,} sequences")
            teacher = teacher._replace(formulation=formulation, device=device)
            write_soft_labels(folder, teacher, features, made_of, config)
    barrier()
    return read_soft_labels(folder)


def about(config: FinetuneConfig, teacher: Predictor, features: Sequence[ParallelFeatures]) -> dict[str, Any]:
    """Returns the manifest's description of what the soft labels are made of. The teacher must be on the CPU."""
    return {
        "teacher": shown_path(baseline_name(config)),
        "teacher_sha256": fingerprint(teacher.model),
        "tokenizer": teacher.encoder.fingerprint,
        "labels": list(teacher.settings.labels),
        "sequences_sha256": sequences_digest(features),
        "reading": asdict(teacher.settings),
    }


def write_soft_labels(
    folder: Path,
    teacher: Predictor,
    features: Sequence[ParallelFeatures],
    made_of: dict[str, Any],
    config: FinetuneConfig,
) -> None:
    """Writes the teacher's probabilities for the target of each pair of features, in their order."""
    precision = resolve_precision(config.recipe, teacher.device)
    formulation: Any = teacher.formulation
    rows: list[Rows] = [()] * len(features)
    with inference_mode(teacher.model, teacher.device, precision, MOST_TOKENS[teacher.device.type]):
        for indices in batches([len(pair.ids) for pair in features], MOST_TOKENS[teacher.device.type]):
            batch = formulation.batch([features[index]._replace(soft=()) for index in indices]).to(teacher.device)
            _, target = formulation.scores(teacher.model, batch)
            split = rows_of(target, [features[index] for index in indices])
            for index, of_feature in zip(indices, split, strict=True):
                rows[index] = of_feature
    langs = Counter[str](pair.target_lang for pair in features)
    counts = {lang: SoftLabelCounts(number, number) for lang, number in sorted(langs.items())}

    def examples() -> Iterator[SoftLabels]:
        for pair, of_feature in zip(features, rows, strict=True):
            distributions = tuple(tuple(matrix.flatten().tolist()) for matrix in of_feature)
            yield SoftLabels(pair.id, pair.target_lang, distributions, of_feature[0].shape[1])

    write_dataset(
        folder,
        SCHEMA,
        examples(),
        counts,
        config={**made_of, "precision": precision},
        versions={"torch": torch.__version__},
        overwrite=True,
    )


def rows_of(scores: Scores, features: Sequence[ParallelFeatures]) -> list[Rows]:
    """Returns the probabilities of each feature's target: of all tokens of its window for start and for end, or of all
    labels for each of its words or for the pair."""
    per_feature: list[list[np.ndarray]] = [[] for _ in features]
    for scores_RC in scores:
        p_RC = scores_RC.float().softmax(dim=1).cpu().numpy()
        first = 0
        for index, pair in enumerate(features):
            rows = len(pair.target.places) if hasattr(pair.target, "places") else 1
            classes = len(pair.target.ids) if hasattr(pair.target, "answers") else p_RC.shape[1]
            per_feature[index].append(p_RC[first : first + rows, :classes])
            first += rows
    return [tuple(matrices) for matrices in per_feature]


def _rows_in(batch: pa.RecordBatch) -> Iterator[Rows]:
    """Yields the distributions of each row as views of the batch's memory: there are hundreds of numbers in a row."""
    of_row, values = batch["distributions"].offsets.to_pylist(), batch["distributions"].values
    of_distribution, numbers = values.offsets.to_pylist(), values.values.to_numpy()
    for (start, end), classes in zip(pairwise(of_row), batch["classes"].to_pylist(), strict=True):
        edges = pairwise(of_distribution[start : end + 1])
        yield tuple(numbers[first:last].reshape(-1, classes) for first, last in edges)


def read_soft_labels(folder: Path) -> TeacherLabels:
    """Returns the probabilities of all sequences. Raises `DatasetError` or `InputError` if the folder has none."""
    index = manifest.load(folder)
    if index.schema != SCHEMA:
        raise InputError(f"{folder}: expected a dataset of schema {SCHEMA}, found {index.schema}")
    rows = [row for batch in read_shards(folder) for row in _rows_in(batch)]
    return TeacherLabels(str(folder), rows, tuple(index.config["labels"]), index.config["sequences_sha256"])
