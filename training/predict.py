"""`polyspan-train predict`: texts as JSON lines → what a fine-tuned model says of them, a line for each line.

lines → requests, or what is wrong with them → records → predictions → answers
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from schemas.errors import ConfigError
from training.checks.inference import THERE, check_predict
from training.inference.json_requests import EXAMPLES, Number, Refused, Request, request
from training.inference.predictor import Predictor, Progress, device_of, load_predictor, model_in, precision_of
from training.inference.predictor import predict as predicted
from training.methods.rationales import with_rationales
from training.methods.unified import UnifiedPairs
from training.recipes.inference import PredictConfig
from training.tasks.catalog import TASKS
from training.tasks.predictions import Prediction, Span


def run(config: PredictConfig) -> int:
    """The exit code: 1 if a line could not be read. Raises `ConfigError` or `InputError` before anything is read."""
    check_predict(config)
    predictor = load_predictor(model_in(config.model), device_of(config.computing))
    refuse_unfit(config, predictor)
    interactive = config.interactive or (config.input == "-" and sys.stdin.isatty())
    size = 1 if interactive else config.batch_size
    if config.input == "-" and sys.stdin.isatty():
        print(f"One object a line, such as {EXAMPLES[predictor.settings.kind]}; Ctrl-D ends it.", file=sys.stderr)
    done = bad = 0
    with _input(config.input) as lines, _output(config) as put, _progress(not interactive) as progress:
        asked = enumerate(lines, 1)
        while some := list(islice(asked, size)):
            requests = [request(predictor.settings.kind, trained_on(predictor), *each) for each in some]
            put("".join(map(line_of, answers(config, predictor, requests))))
            done += len(requests)
            bad += sum(isinstance(each, Refused) for each in requests)
            progress(done)
    if bad:
        hint = f", and expected: {EXAMPLES[predictor.settings.kind]}" if bad == done else ""
        print(f'polyspan-train: {bad:,} of {done:,} lines could not be read: see their "error"{hint}', file=sys.stderr)
    return 1 if bad else 0


def refuse_unfit(config: PredictConfig, predictor: Predictor) -> None:
    if config.rationales and not isinstance(predictor.formulation, UnifiedPairs):
        raise ConfigError(
            f"--rationales: {config.model} cannot give any. Expected a model for pairs of the unified method, such as "
            "recipe mpmr_xnli trains"
        )


def trained_on(predictor: Predictor) -> str:
    """What the model was trained on: the unified method asks XNLI's pairs otherwise than PAWS-X's."""
    if predictor.provenance and "task" in predictor.provenance.recipe:
        return str(predictor.provenance.recipe["task"])
    labels = set(predictor.settings.labels)
    return next((name for name, task in TASKS.items() if task.kind == "pairs" and set(task.labels) == labels), "")


# --- from records to answers ------------------------------------------------------------------------------------------


def answers(config: PredictConfig, predictor: Predictor, requests: Sequence[Request | Refused]) -> Iterator[Any]:
    """An object for each request, in their order."""
    records = [each.record for each in requests if isinstance(each, Request)]
    predictions = iter(predictions_of(config, predictor, records))
    for each in requests:
        if isinstance(each, Refused):
            yield {"id": each.id, "error": each.error}
        else:
            yield {"id": each.id, **_ANSWERS[predictor.settings.kind](config, each, next(predictions))}


def predictions_of(config: PredictConfig, predictor: Predictor, records: Sequence[Any]) -> list[Prediction]:
    def ask(formulation: Any, asked: Sequence[Any]) -> list[Prediction]:
        precision = precision_of(config.computing, predictor.device)
        return predicted(
            predictor.model, formulation, asked, predictor.device, precision, config.computing.batch_tokens
        )

    found = ask(predictor.formulation, records)
    if config.rationales and isinstance(predictor.formulation, UnifiedPairs):
        return with_rationales(predictor.formulation, records, found, ask, config.best)
    return found


def _answered(config: PredictConfig, of: Request, prediction: Prediction) -> dict[str, Any]:
    none = {name: prediction.scores[name] for name in ("no_answer",) if name in prediction.scores}
    return {"answers": [_span(each) for each in prediction.spans[: config.best]], **none}


def _tagged(config: PredictConfig, of: Request, prediction: Prediction) -> dict[str, Any]:
    entities = [_span(each, label=each.label) for each in prediction.spans]
    return {"entities": entities, **({"tags": list(prediction.tags)} if of.with_tags else {})}


def _labelled(config: PredictConfig, of: Request, prediction: Prediction) -> dict[str, Any]:
    values: dict[str, Any] = {"label": prediction.label, "scores": dict(prediction.scores)}
    if config.rationales:
        values["rationales"] = [_span(each, sentence=each.label) for each in prediction.spans]
    return values


_ANSWERS = {"qa": _answered, "tagging": _tagged, "pairs": _labelled}


def _span(span: Span, **more: Any) -> dict[str, Any]:
    return {"text": span.text, "start_char": span.start_char, "end_char": span.end_char, **more, "score": span.score}


def line_of(answer: Mapping[str, Any]) -> str:
    """A line of JSON. A number that was given as an id is spelt as it was: 1.50 does not become 1.5."""
    id_ = answer["id"]
    spelt = id_.spelling if isinstance(id_, Number) else json.dumps(id_, ensure_ascii=False)
    rest = json.dumps({name: value for name, value in answer.items() if name != "id"}, ensure_ascii=False)
    return f'{{"id": {spelt}, {rest[1:]}\n'


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
    """What writes text. A file takes its name when it is whole; standard output is flushed at once."""
    if config.output == "-":

        def put(text: str) -> None:
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()

        yield put
        return
    final = Path(config.output)
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".unfinished", dir=final.parent)  # a name of ours
    beside = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:

            def write(text: str) -> None:
                file.write(text)

            yield write
        beside.chmod(0o666 & ~_umask())  # what other files get: mkstemp's are for their owner alone
        _publish(beside, final, config.overwrite)
    finally:
        beside.unlink(missing_ok=True)


def _publish(beside: Path, final: Path, overwrite: bool) -> None:
    """Gives the file its name. Raises `ConfigError` if another file has come to have it meanwhile."""
    if overwrite:
        beside.replace(final)
        return
    try:
        os.link(beside, final)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise ConfigError(f"--output {final}: {THERE}") from None
    except OSError:  # a file system without hard links
        if final.exists():
            raise ConfigError(f"--output {final}: {THERE}") from None
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
