"""The files of a model of transformers: where they are, whether they are whole, and what is in them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from training.errors import InputError
from training.models.encoder import FAMILIES

WEIGHTS = "model.safetensors"
TASK_MODELS: dict[str, Any] = {
    "ForQuestionAnswering": AutoModelForQuestionAnswering,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForSequenceClassification": AutoModelForSequenceClassification,
}
"""What transformers loads a fine-tuned model with, by how its `architectures` end."""

_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]
_LM_HEADS = ("lm_head.", "cls.predictions.")
_TO_SAFETENSORS = (
    "python -c \"from transformers import {auto} as M, AutoTokenizer as T; f='{folder}'; "
    "o=f+'-safetensors'; "
    'M.from_pretrained(f).save_pretrained(o); T.from_pretrained(f).save_pretrained(o)"'
)

_log = logging.getLogger(__name__)


def local_folder(folder_or_name: str | Path) -> Path:
    """The folder itself, or the hub's copy of that name, fetched unless it is here already."""
    if Path(folder_or_name).is_dir():
        return Path(folder_or_name)
    try:
        return Path(snapshot_download(str(folder_or_name), allow_patterns=_HUB_FILES))
    except Exception as error:  # of the hub's name rules, of the network, of the cache
        raise InputError(
            f"{folder_or_name}: no such folder, and no model of that name could be had from the hub "
            f"({type(error).__name__}). Give a folder that holds config.json, {WEIGHTS} and a tokenizer"
        ) from error


def check_model_files(folder: Path) -> None:
    """Raises `InputError` unless there are a config.json of a known family and safetensors."""
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: no model. Expected config.json, {WEIGHTS} and a tokenizer; found {names_in(folder)}"
        )
    config = read_json(folder / "config.json")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise InputError(
            f"{folder}: config.json has model_type {family!r}. "
            f"Expected one of {', '.join(FAMILIES)}, such as xlm-roberta-base"
        )
    if (folder / WEIGHTS).is_file() or (folder / f"{WEIGHTS}.index.json").is_file():
        return
    if (folder / "pytorch_model.bin").is_file():
        auto = TASK_MODELS.get(task_suffix(config) or "", AutoModelForMaskedLM)
        raise InputError(
            f"{folder}: pytorch_model.bin is a pickle, which can run code when it is read. Only safetensors are. "
            f"If you trust its origin, convert it:\n{_TO_SAFETENSORS.format(folder=folder, auto=auto.__name__)}"
        )
    raise InputError(f"{folder}: no weights. Expected {WEIGHTS}; found {names_in(folder)}")


def task_suffix(config: Mapping[str, Any]) -> str | None:
    """The key in `TASK_MODELS` of a model that was fine-tuned with a standard head, by its config.json."""
    names = [str(name) for name in config.get("architectures") or []]
    return next((suffix for name in names for suffix in TASK_MODELS if name.endswith(suffix)), None)


def load_weights(folder: Path, auto: Any) -> tuple[PreTrainedModel, list[str]]:
    """The folder's model as the auto class `auto` makes it, in fp32, and the weights that the folder lacks."""
    try:
        with _reports_kept_back():
            model, info = auto.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder}: the model cannot be read ({type(error).__name__}: {error})") from error
    return model, sorted(info["missing_keys"])


@contextmanager
def _reports_kept_back() -> Iterator[None]:
    """Inside, transformers' reports on missing and unexpected weights wait; they come out only if loading fails.

    Of a sound model without an MLM head they say that it seems corrupted. Whoever loads gets the missing ones by name.
    """
    kept: list[logging.LogRecord] = []

    def keep_back(record: logging.LogRecord) -> bool:
        if "LOAD REPORT" not in str(record.msg) and "seem corrupted" not in str(record.msg):
            return True
        kept.append(record)
        return False

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(keep_back)
    try:
        yield
    except BaseException:
        logger.removeFilter(keep_back)
        for record in kept:
            logger.handle(record)
        raise
    finally:
        logger.removeFilter(keep_back)


def load_language_model(folder: Path, seed: int, mlm: bool = True) -> PreTrainedModel:
    """The encoder with its MLM head, or with a random one, of which a warning tells unless nobody needs it (`mlm`)."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # leaves GPUs' generators alone
        model, missing = load_weights(folder, AutoModelForMaskedLM)
    if lost := [name for name in missing if not name.startswith(_LM_HEADS)]:
        raise InputError(f"{folder}: {WEIGHTS} lacks {len(lost)} of the encoder's tensors, such as {lost[0]}")
    if missing and mlm:
        _log.warning("%s: no MLM head: it begins with random weights (%s)", folder, ", ".join(missing))
    return model


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({type(error).__name__}: {error})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected an object, found a {type(values).__name__}")
    return values


def names_in(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "nothing"


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
