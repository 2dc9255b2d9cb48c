"""What the tasks of one kind share: the schema of their records, their files of predictions, and what is compared.

The three kinds are questions ("qa"), tagged sentences ("tagging") and sentence pairs ("pairs").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.errors import InputError
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample
from training.metrics.counting import Graded
from training.metrics.tags import TAG, Entity, entities
from training.tasks import squad_json
from training.tasks.columns import read_tags
from training.tasks.files import lang_in, refuse_unlabelled, require_lang
from training.tasks.predictions import Prediction
from training.tasks.tsv import read_labels

if TYPE_CHECKING:
    from training.tasks.files import FileRecords

    Reader = Callable[[Path, str | None], FileRecords[Any]]


class GradedFile(NamedTuple):
    """The gold labels of a file beside the predictions of another."""

    langs: Sequence[str]  # of each record
    records: Graded
    gold: Mapping[str, RecordCounts]  # language → what became of the gold file's records and labels
    notes: Mapping[str, int] = {}  # what the report mentions of the whole file


class Kind(NamedTuple):
    """What the tasks of one kind share."""

    schema: str  # of the datasets of their records; older versions are read too
    suffix: str  # of the files of predictions
    official: Callable[[Sequence[Prediction], Sequence[str]], str]  # predictions, labels → the text of such a file
    graded: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], Graded]  # records, predictions, labels
    read_graded: Callable[[Reader, Sequence[str], Path, Path, str | None], GradedFile]
    """Takes the task's reader and labels, the gold file, the file of predictions and the language, if it is given."""
    takes_other_labels: bool = True  # a prediction may have a label that the task lacks: it counts as wrong


# --- questions --------------------------------------------------------------------------------------------------------


def _answers(predictions: Sequence[Prediction]) -> list[str]:
    """Returns the best answer to each question; "" where there is none."""
    return [prediction.spans[0].text if prediction.spans else "" for prediction in predictions]


def _official_answers(predictions: Sequence[Prediction], labels: Sequence[str]) -> str:
    ids = [prediction.id for prediction in predictions]
    return json.dumps(dict(zip(ids, _answers(predictions), strict=True)), ensure_ascii=False, indent=0) + "\n"


def _graded_questions(
    records: Sequence[MrcExample], predictions: Sequence[Prediction], labels: Sequence[str]
) -> Graded:
    return Graded([record.answer_texts for record in records], _answers(predictions))


def _read_graded_questions(read: Reader, labels: Sequence[str], gold: Path, path: Path, lang: str | None) -> GradedFile:
    predictions = squad_json.load(path)
    if not isinstance(predictions, dict) or not all(isinstance(answer, str) for answer in predictions.values()):
        raise InputError(f"{path}: expected a JSON object with a text for each question's id, as official scorers do")
    records, flags, ledger = read(gold, lang)
    refuse_unlabelled(gold, len(flags.get("unlabelled", ())), len(records))
    if unanswered := [record.id for record in records if not record.answer_texts]:
        raise InputError(
            f"{gold}: {len(unanswered):,} questions are unanswerable, such as {unanswered[0]}, but the scorer of SQuAD "
            "1.1 compares with answers. Take them out of the file"
        )
    graded = Graded([record.answer_texts for record in records], [predictions.get(record.id) for record in records])
    notes = {
        "unknown_ids": len(predictions.keys() - {record.id for record in records}),
        "duplicate_ids": len(flags.get("duplicate_id", ())),
    }
    return GradedFile([record.lang for record in records], graded, ledger.counts(records), notes)


# --- tagged sentences -------------------------------------------------------------------------------------------------


def _official_tags(predictions: Sequence[Prediction], labels: Sequence[str]) -> str:
    return "\n".join("".join(f"{tag}\n" for tag in prediction.tags) for prediction in predictions)


def _graded_sentences(
    records: Sequence[TaggingExample], predictions: Sequence[Prediction], labels: Sequence[str]
) -> Graded:
    tags = [prediction.tags for prediction in predictions]
    return Graded([record.tags for record in records], tags, unresolved_entities(predictions))


def unresolved_entities(predictions: Sequence[Prediction]) -> list[tuple[Entity, ...]] | None:
    """Returns the likely entities of each sentence, which may overlap; None if the model does not report them."""
    return [prediction.unresolved for prediction in predictions if prediction.unresolved is not None] or None


def _read_graded_sentences(read: Reader, labels: Sequence[str], gold: Path, path: Path, lang: str | None) -> GradedFile:
    records, flags, ledger = read(gold, lang)
    golds: list[Sequence[str]] = [record.tags for record in records]
    counts = ledger.counts(records)
    if unlabelled := flags.get("unlabelled"):  # one column: XTREME's label file, or its test file, which has no labels
        if not all(TAG.fullmatch(word) for record in records for word in record.words):
            refuse_unlabelled(gold, len(unlabelled), len(records))
        golds = [tags for _, tags in read_tags(gold, labels)]
        total = sum(len(entities(tags)) for tags in golds)
        counts = {records[0].lang: RecordCounts(len(golds), len(golds), {}, total, total)}
    predictions = read_tags(path)
    if len(predictions) != len(golds):
        raise InputError(f"{path}: expected {len(golds)} sentences, as {gold} has; found {len(predictions)}")
    for record, tags, (line, predicted) in zip(records, golds, predictions, strict=True):
        if len(tags) != len(predicted):
            raise InputError(
                f"{path}:{line}: expected a sentence of {len(tags)} tags, as {record.id} in {gold} has; "
                f"found {len(predicted)}"
            )
    unknown = sum(entity.type not in labels for _, tags in predictions for entity in entities(tags))
    graded = Graded(golds, [tags for _, tags in predictions])
    return GradedFile([record.lang for record in records], graded, counts, {"unknown_labels": unknown})


# --- sentence pairs ---------------------------------------------------------------------------------------------------


def _labels(predictions: Sequence[Prediction], labels: Sequence[str]) -> list[str]:
    """Returns a label for every pair: the task's first one where the model could read nothing of the pair."""
    return [prediction.label or labels[0] for prediction in predictions]


def _official_labels(predictions: Sequence[Prediction], labels: Sequence[str]) -> str:
    return "".join(f"{label}\n" for label in _labels(predictions, labels))


def _graded_pairs(records: Sequence[PairExample], predictions: Sequence[Prediction], labels: Sequence[str]) -> Graded:
    return Graded([record.label for record in records], _labels(predictions, labels))


def _read_graded_pairs(read: Reader, labels: Sequence[str], gold: Path, path: Path, lang: str | None) -> GradedFile:
    lines = read_labels(gold)
    if all(len(line.split()) == 1 for _, line in lines):  # XTREME's label file
        lang = require_lang(lang, lang_in(gold, r"(?:dev|test)-(?P<lang>\w\w)\.tsv"), gold)
        langs, golds = [lang] * len(lines), [_known_label(labels, gold, *line) for line in lines]
        counts: Mapping[str, RecordCounts] = {lang: RecordCounts(len(golds), len(golds), {}, len(golds), len(golds))}
    else:
        records, flags, ledger = read(gold, lang)
        refuse_unlabelled(gold, len(flags.get("unlabelled", ())), len(records))
        counts = ledger.counts(records)
        langs, golds = [record.lang for record in records], [record.label for record in records]
    predictions = [_known_label(labels, path, *line) for line in read_labels(path)]
    if len(predictions) != len(golds):
        raise InputError(f"{path}: expected {len(golds)} labels, as {gold} has; found {len(predictions)}")
    return GradedFile(langs, Graded(golds, predictions), counts)


def _known_label(labels: Sequence[str], path: Path, line: int, label: str) -> str:
    if label not in labels:
        raise InputError(f"{path}:{line}: expected a label of {', '.join(labels)}; found {label!r}")
    return label


KINDS = {
    "qa": Kind("mrc/2", ".json", _official_answers, _graded_questions, _read_graded_questions),
    "tagging": Kind("tagging/1", ".tsv", _official_tags, _graded_sentences, _read_graded_sentences),
    "pairs": Kind("pair/1", ".txt", _official_labels, _graded_pairs, _read_graded_pairs, takes_other_labels=False),
}
