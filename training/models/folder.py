"""A model as a folder: what Hugging Face loads, and beside it our heads and where all of it comes from.

config.json, model.safetensors    the encoder and its MLM head: `AutoModel` or `AutoModelForMaskedLM`; of a model that
                                  was fine-tuned with a standard head, that one: `AutoModelForQuestionAnswering`, …
tokenizer.json, …                 with [QUE], where it was trained: `AutoTokenizer`
heads.safetensors                 the weights of heads that transformers does not know: "span.start.weight.weight"
polyspan.json                     the heads' names and sizes, recipe, data, commit, step, checksums of the weights, and
                                  a fine-tuned model's inference settings (`training.models.finetuned`)
README.md                         the model card, for people and the hub

A folder is whole or absent: it is written under another name, then renamed or exchanged. Weights are never pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from schemas.errors import ConfigError, InputError
from schemas.runtime.checksums import sha256_of
from schemas.runtime.output_folder import NEW, files_in
from training.models.about import FORMAT_VERSION, About
from training.models.about import Provenance as Provenance
from training.models.card import PRETRAINED, CardText, model_card
from training.models.files import ABOUT as _ABOUT
from training.models.files import WEIGHTS, check_model_files, load_language_model, local_folder, read_json
from training.models.heads import HEADS, TASK_HEADS, Head, head_class
from training.models.tokenizer import load_tokenizer_of, save_tokenizer
from training.runtime import atomic_write
from training.runtime.outputs import model_files

_HEAD_WEIGHTS = "heads.safetensors"

RESTORE = "Restore it from a copy, or write the model again from its last checkpoint"


class Pretrained(NamedTuple):
    """What `load_model` returns. `Encoder(language_model.base_model)` and `MlmHead(language_model)` share weights."""

    language_model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    heads: dict[str, Head]  # the heads besides the MLM head; empty for a folder that polyspan did not write
    provenance: Provenance | None  # None for a folder that polyspan did not write


def save_model(
    folder: str | Path,
    language_model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    heads: Mapping[str, Head],
    provenance: Provenance,
) -> None:
    """Writes the folder, whole or not at all. The same model and provenance give the same bytes.

    `heads`: name in `HEADS` → module of that class. A folder that this function has written is replaced; for any other
    folder it raises `ConfigError`.
    """
    check_heads(folder, heads)
    write_model(folder, language_model, tokenizer, heads, provenance)


def check_heads(folder: str | Path, heads: Mapping[str, nn.Module]) -> None:
    """Raises `ConfigError` for a head that no model folder can hold: it is not in `HEADS` under its name."""
    if strange := [
        f"{name} ({type(head).__name__})" for name, head in heads.items() if type(head) is not HEADS.get(name)
    ]:
        expected = ", ".join(f"{name} ({kind.__name__})" for name, kind in HEADS.items())
        raise ConfigError(f"{folder}: cannot save {', '.join(strange)}. Expected heads: {expected}")


def write_model(
    folder: str | Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    heads: Mapping[str, Head],
    provenance: Provenance,
    reading: Mapping[str, Any] | None = None,
    scores: Mapping[str, float] | None = None,
    text: CardText = PRETRAINED,
) -> None:
    """Writes the folder as `save_model` does; `model` holds the weights of `TASK_HEADS`. `text` is for the model
    card."""
    folder = Path(folder)
    if folder.exists() and not (folder / _ABOUT).is_file():
        raise ConfigError(f"{folder} exists and is no model of ours: it has no {_ABOUT}. Give another folder")
    with atomic_write.folder(folder, model_files) as beside, atomic_write.os_errors_of(folder):
        model.save_pretrained(beside, max_shard_size="1TB")
        save_tokenizer(tokenizer, beside)
        own = {name: head for name, head in heads.items() if name not in TASK_HEADS}
        tensors = {f"{name}.{key}": value.contiguous() for name in own for key, value in own[name].state_dict().items()}
        if tensors:
            save_file(tensors, beside / _HEAD_WEIGHTS)
        about = About(
            heads={name: heads[name].settings for name in sorted(heads)},
            attention_dropout=0.0,
            provenance=provenance,
            versions={name: version(name) for name in ("tokenizers", "torch", "transformers")},
            sha256={name: sha256_of(beside / name) for name in (WEIGHTS, _HEAD_WEIGHTS) if (beside / name).is_file()},
            reading=reading,
            scores=scores or {},
            files=sorted({*(name for name in files_in(beside) if name != NEW), _ABOUT, "README.md"}),
        )
        values = json.dumps(asdict(about), indent=2, ensure_ascii=False, allow_nan=False)
        (beside / _ABOUT).write_text(values + "\n", encoding="utf-8")
        purposes = {name: head.purpose for name, head in heads.items()}
        (beside / "README.md").write_text(model_card(about, model.config, purposes, text), encoding="utf-8")


def load_model(folder_or_name: str | Path, seed: int = 0, mlm: bool = True) -> Pretrained:
    """Loads a model of one of `FAMILIES` from a folder or from the hub, in fp32.

    A model without an MLM head gets one with random weights, which are a function of `seed`, with a warning if `mlm`.
    Raises `InputError` if there is no such folder or name, if it holds no such model, or if files are missing, pickled,
    damaged, or (in folders that polyspan wrote) not those that were written.
    """
    folder = local_folder(folder_or_name)
    check_model_files(folder)
    about = read_about(folder)
    language_model = load_language_model(folder, seed, mlm)
    tokenizer = load_tokenizer_of(folder, language_model)
    if about is None:
        return Pretrained(language_model, tokenizer, {}, None)
    return Pretrained(language_model, tokenizer, load_heads(folder, about.heads), about.provenance)


def read_about(folder: Path) -> About | None:
    """Reads polyspan.json and checks that the weights beside it have its checksums; None if there is none."""
    path = folder / _ABOUT
    if not path.is_file():
        return None
    values = read_json(path)
    if values.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {values.get('format_version')!r}, but this release of polyspan reads version "
            f"{FORMAT_VERSION}. Read it with the release that wrote it, or a later one"
        )
    try:
        about = About(**{**values, "provenance": Provenance(**values["provenance"])})
        if unknown := sorted(name for name in about.heads if head_class(name) is None):
            raise InputError(f"{path}: unknown heads: {', '.join(unknown)}. Read it with the release that wrote it")
        for name, expected in about.sha256.items():
            if not (folder / name).is_file():
                raise InputError(f"{folder}: {name} is missing. {RESTORE}")
            if sha256_of(folder / name) != expected:
                raise InputError(f"{folder / name} is not the file that was written: its checksum differs. {RESTORE}")
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is not as it was written ({type(error).__name__}: {error}). {RESTORE}") from None
    return about


def load_heads(folder: Path, settings: Mapping[str, Any]) -> dict[str, Head]:
    """Loads the heads that polyspan.json names: name → the arguments of its class."""
    heads: dict[str, Head] = {}
    try:
        for name, arguments in settings.items():
            kind = head_class(name)
            assert kind is not None  # `read_about` refuses unknown heads
            head = heads[name] = kind(**arguments)
            in_model = name in TASK_HEADS
            with safe_open(folder / (WEIGHTS if in_model else _HEAD_WEIGHTS), framework="pt") as tensors:
                names = {key: head.name_in_model(key) if in_model else f"{name}.{key}" for key in head.state_dict()}
                head.load_state_dict({key: tensors.get_tensor(stored) for key, stored in names.items()})
    except (OSError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: its heads cannot be read ({type(error).__name__}: {error}). {RESTORE}") from None
    return heads
