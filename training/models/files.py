"""The files of a model of transformers: where they are, whether they are whole, and what is in them.

Imports torch and transformers only to load a model: they take seconds, and wrong paths are reported before.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from schemas.errors import ConfigError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# model_type → does its first position follow the padding's? (XLM-R: 2, since `<pad>` is 1.) Only encoders whose layers
# one can run by themselves.
FAMILIES = {"xlm-roberta": True, "roberta": True, "bert": False, "xlm-roberta-xl": True, "deberta-v2": False}
WEIGHTS, ABOUT = "model.safetensors", "polyspan.json"
TASK_MODELS = {
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
}
"""The class of transformers that loads a fine-tuned model, by how the model's `architectures` end."""

_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "*.txt"]
_LM_HEADS = ("lm_head.", "cls.predictions.")
_TO_SAFETENSORS = (
    "python -c \"from transformers import {auto} as M, AutoTokenizer as T; f='{folder}'; "
    "o=f+'-safetensors'; "
    'M.from_pretrained(f).save_pretrained(o); T.from_pretrained(f).save_pretrained(o)"'
)

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")

_log = logging.getLogger(__name__)


def check_model(run_or_model: str | Path, finetuned: bool = False, fetch: bool = True) -> None:
    """Raises `ConfigError` or `InputError` if there is no such model, or one of its files is missing.

    What is in the weights is not looked at. A model of the hub is fetched unless it is here already; without `fetch`,
    a name that may be the hub's passes.
    """
    if not fetch and not Path(run_or_model).exists() and _HUB_NAME.fullmatch(str(run_or_model)):
        return
    folder = local_folder(run_or_model)
    check_model_files(folder)
    if finetuned:
        check_finetuned(folder)


def model_in(run_or_model: str | Path) -> str | Path:
    """Returns the model's folder of a complete run; any other name is returned as it is."""
    run = Path(run_or_model)
    if (run / "run.json").is_file() and not (run / "config.json").is_file():
        if not (run / "model").is_dir():
            raise InputError(f"{run}: this run has no model/ yet. Repeat its command: it goes on to the end")
        return run / "model"
    return run_or_model


def snapshot_download(name: str) -> str:
    """Fetches a model of the hub, unless it was fetched before, and returns its folder."""
    from huggingface_hub import snapshot_download as download

    return download(name, allow_patterns=_HUB_FILES)


def local_folder(folder_or_name: str | Path) -> Path:
    """Returns the folder itself, that of a run's model, or that of the hub's model of this name, fetched unless it was
    fetched before."""
    folder_or_name = model_in(folder_or_name)
    if Path(folder_or_name).is_dir():
        return Path(folder_or_name)
    if Path(folder_or_name).exists() or not _HUB_NAME.fullmatch(str(folder_or_name)):
        what = "a file" if Path(folder_or_name).exists() else "no such folder"
        raise ConfigError(
            f"{folder_or_name}: {what}. Expected a folder that holds config.json, {WEIGHTS} and a tokenizer, or a name "
            "on Hugging Face's hub"
        )
    try:
        return Path(snapshot_download(str(folder_or_name)))
    except Exception as error:  # of the hub's name rules, of the network, of the cache
        raise InputError(
            f"{folder_or_name}: no such folder, and no model of that name could be had from the hub "
            f"({type(error).__name__}). Give a folder that holds config.json, {WEIGHTS} and a tokenizer"
        ) from error


def check_model_files(folder: Path) -> None:
    """Raises `InputError` unless the folder has a config.json of a known family and safetensors."""
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
    # Published DeBERTa-v3 models have no MLM head that transformers loads: it would write a random one.
    plain = "AutoModel" if family == "deberta-v2" else "AutoModelForMaskedLM"
    check_weight_files(folder, TASK_MODELS.get(task_suffix(config) or "", plain))


def check_translation_model(folder_or_name: str) -> None:
    """Raises `ConfigError` or `InputError` if there is no such sequence-to-sequence model, or one of its files is
    missing. A model of the hub is fetched unless it is here already."""
    folder = local_folder(folder_or_name)
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: no model. Expected config.json, {WEIGHTS} and a tokenizer; found {names_in(folder)}"
        )
    config = read_json(folder / "config.json")
    if not config.get("is_encoder_decoder"):
        raise InputError(
            f"{folder}: config.json has model_type {config.get('model_type')!r}, which does not translate. Expected a "
            "sequence-to-sequence model, such as Helsinki-NLP/opus-mt-en-de or facebook/nllb-200-distilled-600M"
        )
    check_weight_files(folder, "AutoModelForSeq2SeqLM")


def check_weight_files(folder: Path, auto: str) -> None:
    """Raises `InputError` unless the folder has safetensors. `auto` is the class that loads the model to convert it."""
    if (folder / WEIGHTS).is_file() or (folder / f"{WEIGHTS}.index.json").is_file():
        return
    if (folder / "pytorch_model.bin").is_file():
        raise InputError(
            f"{folder}: pytorch_model.bin is a pickle, which can run code when it is read. Only safetensors are. "
            f"If you trust its origin, convert it:\n{_TO_SAFETENSORS.format(folder=folder, auto=auto)}"
        )
    raise InputError(f"{folder}: no weights. Expected {WEIGHTS}; found {names_in(folder)}")


def check_finetuned(folder: Path) -> None:
    """Raises `InputError` if the model was not fine-tuned, by us or with a head of transformers'."""
    if (folder / ABOUT).is_file():
        if read_json(folder / ABOUT).get("reading") is None:
            raise InputError(f"{folder}: this model was pre-trained, but not fine-tuned. {finetune_first(folder)}")
        return
    config = read_json(folder / "config.json")
    if task_suffix(config) is None:
        found = ", ".join(map(str, config.get("architectures") or ["none"]))
        raise InputError(
            f"{folder}: no fine-tuned model. Expected {ABOUT} or an architecture …{', …'.join(TASK_MODELS)}; "
            f"found {found}. {finetune_first(folder)}"
        )


def finetune_first(folder: Path) -> str:
    return f"Fine-tune it first: polyspan-train finetune … --model {folder}"


def task_suffix(config: Mapping[str, Any]) -> str | None:
    """Returns the key in `TASK_MODELS` of a config.json of a model with a standard head, or None."""
    names = [str(name) for name in config.get("architectures") or []]
    return next((suffix for name in names for suffix in TASK_MODELS if name.endswith(suffix)), None)


def auto_class(name: str) -> Any:
    """Returns a class of transformers that loads models."""
    import transformers

    return getattr(transformers, name)


def load_weights(folder: Path, auto: Any, **changes: Any) -> tuple[PreTrainedModel, list[str]]:
    """Loads the folder's model with the class `auto`, in fp32, with `changes` of its configuration. Returns it and the
    names of weights that are missing."""
    import torch

    try:
        with _reports_kept_back():
            model, info = auto.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **changes
            )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder}: the model cannot be read ({type(error).__name__}: {error})") from error
    return model, sorted(info["missing_keys"])


@contextmanager
def _reports_kept_back() -> Iterator[None]:
    """Delays transformers' reports on missing and unexpected weights inside the block; prints them if loading fails.

    They would call a sound model without an MLM head corrupted. `load_weights` returns the missing weights' names.
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
    """Loads the encoder with its MLM head. If there is none it gets a random one, with a warning if `mlm`.

    DeBERTa's is the head that transformers calls `legacy`, with an output layer of its own; published DeBERTa-v3 models
    hold none.
    """
    import torch

    changes = {"legacy": True} if read_json(folder / "config.json").get("model_type") == "deberta-v2" else {}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # leaves GPUs' generators alone
        model, missing = load_weights(folder, auto_class("AutoModelForMaskedLM"), **changes)
    if lost := [name for name in missing if not name.startswith(_LM_HEADS)]:
        raise InputError(f"{folder}: {WEIGHTS} lacks {len(lost)} of the encoder's tensors, such as {lost[0]}")
    if missing and mlm:
        _log.warning("%s: no MLM head: it begins with random weights (%s)", folder, ", ".join(missing))
    return model


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file that holds one JSON object."""
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
