"""`polyspan-train predict`: answers JSON lines with a fine-tuned model, one line of output for each line of input.

lines → requests, or errors → records → predictions → answers
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, BinaryIO, cast

from schemas.errors import ConfigError
from training.checks.inference import OUTPUT_EXISTS, check_predict
from training.inference.json_requests import LINE_FORMATS, Refused, Request, line_of, request
from training.inference.predictor import (
    Predictor,
    Progress,
    device_of,
    load_predictor,
    model_in,
    precision_of,
    with_translations,
)
from training.inference.predictor import predict as predict_records
from training.recipes.inference import PredictConfig
from training.tasks.catalog import TASKS
from training.tasks.predictions import Prediction
from training.tasks.translations import Translations


def run(config: PredictConfig) -> int:
    """Returns the exit code: 1 if a line could not be read. Raises `ConfigError` or `InputError` before it reads any
    line."""
    check_predict(config)
    predictor = load_predictor(model_in(config.model), device_of(config.computing))
    check_rationales(config, predictor)
    example = LINE_FORMATS[predictor.settings.kind].example
    if config.input == "-" and sys.stdin.isatty():
        print(f"One object a line, such as {example}; Ctrl-D ends it.", file=sys.stderr)
    answered, refused = answer_lines(config, predictor)
    if refused:
        hint = f", and expected: {example}" if refused == answered else ""
        print(
            f'polyspan-train: {refused:,} of {answered:,} lines could not be read: see their "error"{hint}',
            file=sys.stderr,
        )
    return 1 if refused else 0


def answer_lines(config: PredictConfig, predictor: Predictor) -> tuple[int, int]:
    """Reads the input and writes the output; returns how many lines were answered, and how many of them refused."""
    interactive = config.interactive or (config.input == "-" and sys.stdin.isatty())
    batch_size = 1 if interactive else config.batch_size
    kind, task = predictor.settings.kind, trained_on(predictor)
    reads_translations = predictor.settings.method.reads_translations
    answered = refused = 0
    with _input(config.input) as lines, _output(config) as write, _progress(not interactive) as progress:
        numbered = enumerate(lines, 1)
        while batch := list(islice(numbered, batch_size)):
            requests = [request(kind, task, number, line, reads_translations) for number, line in batch]
            write("".join(map(line_of, answers(config, predictor, requests))))
            answered += len(requests)
            refused += sum(isinstance(each, Refused) for each in requests)
            progress(answered)
    return answered, refused


def check_rationales(config: PredictConfig, predictor: Predictor) -> None:
    """Raises `ConfigError` if rationales are asked of a model that cannot give them."""
    if config.rationales and predictor.settings.kind not in predictor.settings.method.rationales:
        raise ConfigError(
            f"--rationales: {config.model} cannot give any. Expected a model for pairs of the unified method, such as "
            "recipe mpmr_xnli trains"
        )


def trained_on(predictor: Predictor) -> str:
    """Returns the task that the model was trained on. The unified method words XNLI's pairs differently from
    PAWS-X's."""
    if predictor.provenance and "task" in predictor.provenance.recipe:
        return str(predictor.provenance.recipe["task"])
    labels = set(predictor.settings.labels)
    return next((name for name, task in TASKS.items() if task.kind == "pairs" and set(task.labels) == labels), "")


# --- from records to answers ------------------------------------------------------------------------------------------


def answers(config: PredictConfig, predictor: Predictor, requests: Sequence[Request | Refused]) -> Iterator[Any]:
    """Yields an object for each request, in their order."""
    readable = [asked for asked in requests if isinstance(asked, Request)]
    if predictor.settings.method.reads_translations:
        predictor = with_translations(predictor, translations_of(readable, predictor))
    predictions = iter(predictions_of(config, predictor, [asked.record for asked in readable]))
    answer = LINE_FORMATS[predictor.settings.kind].answer
    for asked in requests:
        if isinstance(asked, Refused):
            yield {"id": asked.id, "error": asked.error}
        else:
            yield {"id": asked.id, **answer(asked, next(predictions), config.best, config.rationales)}


def translations_of(requests: Sequence[Request], predictor: Predictor) -> Translations:
    """Returns the translations that the lines hold."""
    settings: Any = predictor.settings.method
    return Translations.between(
        [(asked.record, asked.translation) for asked in requests if asked.translation], settings.source_lang
    )


def predictions_of(config: PredictConfig, predictor: Predictor, records: Sequence[Any]) -> list[Prediction]:
    def ask(formulation: Any, asked: Sequence[Any]) -> list[Prediction]:
        precision = precision_of(config.computing, predictor.device)
        return predict_records(
            predictor.model, formulation, asked, predictor.device, precision, config.computing.batch_tokens
        )

    predictions = ask(predictor.formulation, records)
    if config.rationales:
        with_rationales = resolve_name(predictor.settings.method.rationales[predictor.settings.kind])
        return cast(list[Prediction], with_rationales(predictor.formulation, records, predictions, ask, config.best))
    return predictions


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _input(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as lines:
            yield lines


@contextmanager
def _output(config: PredictConfig) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes text. A file takes its name when it is complete; standard output is flushed after
    every text."""
    if config.output == "-":

        def write_and_flush(text: str) -> None:
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()

        yield write_and_flush
        return
    final = Path(config.output)
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".unfinished", dir=final.parent)
    beside = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:

            def write(text: str) -> None:
                file.write(text)

            yield write
        beside.chmod(0o666 & ~_umask())  # as other new files: mkstemp's are for their owner alone
        _publish(beside, final, config.overwrite)
    finally:
        beside.unlink(missing_ok=True)


def _publish(beside: Path, final: Path, overwrite: bool) -> None:
    """Gives the file its final name. Raises `ConfigError` if another process has made such a file meanwhile."""
    if overwrite:
        beside.replace(final)
        return
    try:
        os.link(beside, final)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise ConfigError(f"--output {final}: {OUTPUT_EXISTS}") from None
    except OSError:  # a file system without hard links
        if final.exists():
            raise ConfigError(f"--output {final}: {OUTPUT_EXISTS}") from None
        beside.replace(final)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[int], None]]:
    if shown:
        with Progress("lines answered") as progress:
            yield progress
    else:
        yield lambda done: None
