"""Loads a fine-tuned model and predicts records with it, in batches of similar length."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from schemas.errors import ConfigError
from schemas.mrc import MrcExample, TaggingExample
from training.data.tokens import TextEncoder
from training.engine.run_setup import choose_device
from training.methods.base import EncoderWithHeads
from training.methods.formulation import Formulation
from training.methods.registry import formulation_of
from training.models.encoder import Encoder
from training.models.files import model_in as model_in
from training.models.finetuned import load_finetuned
from training.models.folder import Provenance
from training.recipes.finetuning import InferenceSettings
from training.recipes.inference import Computing
from training.runtime.errors import TrainingError
from training.tasks.predictions import Prediction
from training.tasks.records import Record
from training.tasks.translations import Translations

MOST_TOKENS = {"cuda": 16_384, "cpu": 4_096}  # fewer on a CPU: the same speed and less memory
RECORDS_AT_ONCE = 2_048  # the most records whose features are in memory together


class Predictor(NamedTuple):
    """A fine-tuned model with everything that prediction needs."""

    model: EncoderWithHeads
    formulation: Formulation
    settings: InferenceSettings
    encoder: TextEncoder
    device: torch.device
    provenance: Provenance | None  # None if another program wrote the folder


def device_of(computing: Computing) -> torch.device:
    """Returns the device to use. Raises `ConfigError` if a GPU is asked for and there is none."""
    return choose_device(computing.device, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def precision_of(computing: Computing, device: torch.device) -> Literal["bf16", "fp32"]:
    if computing.precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return computing.precision


def load_predictor(folder: str | Path, device: torch.device) -> Predictor:
    """Loads a model that this project has fine-tuned, or one of Hugging Face's for questions, tags or pairs.

    Raises `InputError` if there is none, and `ConfigError` if its settings need more positions than it has.
    """
    loaded = load_finetuned(folder)
    text_encoder = TextEncoder(loaded.tokenizer)
    model = EncoderWithHeads(Encoder(cast(PreTrainedModel, loaded.language_model.base_model)), loaded.heads)
    if loaded.settings.max_tokens > model.encoder.max_tokens:
        raise ConfigError(
            f"{folder}: is set to read {loaded.settings.max_tokens} tokens at once, but has positions for "
            f"{model.encoder.max_tokens}"
        )
    model.to(device).eval()
    formulation = formulation_of(loaded.settings, text_encoder)
    return Predictor(model, formulation, loaded.settings, text_encoder, device, loaded.provenance)


def with_translations(predictor: Predictor, translations: Translations | None) -> Predictor:
    """Returns the predictor with the translations of the records that it will predict; without any, a method that reads
    translations reads each record beside itself. Raises `ConfigError` if the model's method reads none."""
    if translations is None:
        return predictor
    formulation: Any = predictor.formulation
    if not predictor.settings.method.reads_translations:
        raise ConfigError(
            f"--translations: a model of method {predictor.settings.method.name} reads none. Expected one of a method "
            "that does, such as filter"
        )
    return predictor._replace(formulation=replace(formulation, translations=translations))


def predict(
    model: EncoderWithHeads,
    formulation: Formulation,
    records: Sequence[Any],
    device: torch.device,
    precision: Literal["bf16", "fp32"] = "fp32",
    most_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
    notes: Counter[str] | None = None,
) -> list[Prediction]:
    """Returns one prediction for each record, in their order. Batching changes only the rounding.

    Does not use labels, not even to place windows. No batch has more than `most_tokens` tokens (if None, the device's
    `MOST_TOKENS`), unless a single sequence does. Calls `progress` with the number of records that are done; `notes`
    counts what was cut or lost. Restores the model's mode. Raises `TrainingError` if the device's memory is too small.
    """
    predictions: list[Prediction] = []
    most_tokens = most_tokens or MOST_TOKENS[device.type]
    with inference_mode(model, device, precision, most_tokens):
        for first in range(0, len(records), RECORDS_AT_ONCE):
            chunk = [unlabelled(record) for record in records[first : first + RECORDS_AT_ONCE]]
            features = formulation.features(chunk)
            if notes is not None:
                notes.update(note for feature in features for note in feature.notes)
            outputs: list[Any] = [None] * len(features)
            done = 0
            for indices in batches([len(feature.ids) for feature in features], most_tokens):
                batch = formulation.batch([features[index] for index in indices]).to(device)
                for index, output in zip(indices, formulation.outputs(model, batch), strict=True):
                    outputs[index] = output
                done += len(indices)
                if progress:
                    progress(first + len(chunk) * done // len(features))
            predictions += formulation.predictions(chunk, features, outputs)
            if progress:
                progress(len(predictions))
    return predictions


def unlabelled(record: Record) -> Record:
    """Returns the record without its labels."""
    if isinstance(record, MrcExample):
        return replace(record, answers=(), answer_texts=(), answerable=False)
    return replace(record, tags=()) if isinstance(record, TaggingExample) else replace(record, label=None)


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yields indices of `lengths` in batches of similar length, the longest first: memory runs out early or never."""
    batch: list[int] = []
    tokens = 0
    for index in np.argsort(-np.asarray(lengths, np.int64), kind="stable").tolist():
        if batch and tokens + lengths[index] > most_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch


@contextmanager
def inference_mode(model: nn.Module, device: torch.device, precision: str, most_tokens: int) -> Iterator[None]:
    """Switches off gradients and dropout inside the block, and then restores the model's mode."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            yield
    except torch.cuda.OutOfMemoryError as error:
        raise TrainingError(
            f"The device's memory does not hold {most_tokens:,} tokens at once. Repeat the command with "
            f"--batch-tokens {most_tokens // 2} ({error})"
        ) from None
    finally:
        model.train(training)


class Progress:
    """Prints `xquad.de.json: 640 of 1,190` on standard error: a line that changes on a terminal, otherwise a line every
    half minute. If `total` is 0, the number of records is unknown."""

    def __init__(self, name: str, total: int = 0) -> None:
        self.name, self.total, self.done = name, total, 0
        self._live = sys.stderr.isatty()
        self._printed = time.monotonic()

    def __call__(self, done: int) -> None:
        self.done = done
        if time.monotonic() - self._printed > (0.2 if self._live else 30.0):
            self._print(end="\r" if self._live else "\n")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._print(end="\n")

    def _print(self, end: str) -> None:
        self._printed = time.monotonic()
        of = f" of {self.total:,}" if self.total else ""
        print(f"{self.name}: {self.done:,}{of}", end=end, file=sys.stderr, flush=True)
