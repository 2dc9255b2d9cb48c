"""Records to predictions: a fine-tuned model, in batches of similar length."""

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

MOST_TOKENS = {"cuda": 16_384, "cpu": 4_096}  # fewer keep a CPU's allocator from hoarding, at the same speed
RECORDS_AT_ONCE = 2_048  # whose features are in memory together


class Predictor(NamedTuple):
    """A fine-tuned model and all that it takes to ask it."""

    model: EncoderWithHeads
    formulation: Formulation
    settings: InferenceSettings
    encoder: TextEncoder
    device: torch.device
    provenance: Provenance | None  # None in a folder that is not ours


def device_of(computing: Computing) -> torch.device:
    """Raises `ConfigError` if it asks for a GPU where there is none."""
    return choose_device(computing.device, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def precision_of(computing: Computing, device: torch.device) -> Literal["bf16", "fp32"]:
    if computing.precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return computing.precision


def load_predictor(folder: str | Path, device: torch.device) -> Predictor:
    """A model that this project has fine-tuned, or one of Hugging Face's with a head for questions, tags or pairs.

    Raises `InputError` if there is none, and `ConfigError` if it cannot read as many tokens as it is set to."""
    found = load_finetuned(folder)
    text_encoder = TextEncoder(found.tokenizer)
    model = EncoderWithHeads(Encoder(cast(PreTrainedModel, found.language_model.base_model)), found.heads)
    if found.settings.max_tokens > model.encoder.max_tokens:
        raise ConfigError(
            f"{folder}: is set to read {found.settings.max_tokens} tokens at once, but has positions for "
            f"{model.encoder.max_tokens}"
        )
    model.to(device).eval()
    formulation = formulation_of(found.settings, text_encoder)
    return Predictor(model, formulation, found.settings, text_encoder, device, found.provenance)


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
    """One prediction for each record, in their order. Which records stand together changes nothing but the rounding.

    Labels are not looked at, not even to place windows. No batch has more than `most_tokens` tokens (if None, the
    device's `MOST_TOKENS`), unless one sequence alone does. `progress` is told how many records are done; `notes`
    counts what was cut or lost. The model is left in the mode it was in. Raises `TrainingError` if the device's memory
    is too small.
    """
    found: list[Prediction] = []
    most_tokens = most_tokens or MOST_TOKENS[device.type]
    with _inference_mode(model, device, precision, most_tokens):
        for first in range(0, len(records), RECORDS_AT_ONCE):
            some = [unlabelled(each) for each in records[first : first + RECORDS_AT_ONCE]]
            features = formulation.features(some)
            if notes is not None:
                notes.update(note for each in features for note in each.notes)
            outputs: list[Any] = [None] * len(features)
            done = 0
            for places in batches([len(each.ids) for each in features], most_tokens):
                batch = formulation.batch([features[at] for at in places]).to(device)
                for at, output in zip(places, formulation.outputs(model, batch), strict=True):
                    outputs[at] = output
                done += len(places)
                if progress:
                    progress(first + len(some) * done // len(features))
            found += formulation.predictions(some, features, outputs)
            if progress:
                progress(len(found))
    return found


def unlabelled(record: Record) -> Record:
    """The record as someone has it who does not know its labels."""
    if isinstance(record, MrcExample):
        return replace(record, answers=(), answer_texts=(), answerable=False)
    return replace(record, tags=()) if isinstance(record, TaggingExample) else replace(record, label=None)


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Places of `lengths` in batches of similar length: the longest first, so that memory runs out at once or never."""
    batch: list[int] = []
    tokens = 0
    for at in np.argsort(-np.asarray(lengths, np.int64), kind="stable").tolist():
        if batch and tokens + lengths[at] > most_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(at)
        tokens += lengths[at]
    if batch:
        yield batch


@contextmanager
def _inference_mode(model: nn.Module, device: torch.device, precision: str, most_tokens: int) -> Iterator[None]:
    """No gradients, no dropout; as it was before at the end."""
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
    """`xquad.de.json: 640 of 1,190` on standard error: a line that changes on a terminal, else one in half a minute.
    `total` of 0: unknown."""

    def __init__(self, name: str, total: int = 0) -> None:
        self.name, self.total, self.done = name, total, 0
        self._live = sys.stderr.isatty()
        self._told = time.monotonic()

    def __call__(self, done: int) -> None:
        self.done = done
        if time.monotonic() - self._told > (0.2 if self._live else 30.0):
            self._tell(end="\r" if self._live else "\n")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tell(end="\n")

    def _tell(self, end: str) -> None:
        self._told = time.monotonic()
        of = f" of {self.total:,}" if self.total else ""
        print(f"{self.name}: {self.done:,}{of}", end=end, file=sys.stderr, flush=True)
