"""A model as a folder: what Hugging Face loads, and beside it our heads and where all of it comes from.

config.json, model.safetensors    the encoder and its MLM head: `AutoModel` or `AutoModelForMaskedLM`; of a model that
                                  was fine-tuned with a standard head, that one: `AutoModelForQuestionAnswering`, …
tokenizer.json, …                 with [QUE], where it was trained: `AutoTokenizer`
heads.safetensors                 the weights of heads that transformers does not know: "span.start.weight.weight"
polyspan.json                     the heads' kinds and sizes, recipe, data, commit, step; checksums of the weights; and
                                  how a fine-tuned model reads (`training.models.finetuned`)
README.md                         the model card, for people and the hub

A folder is whole or absent: it is written beside its place, then renamed. Weights are never pickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import AddedToken
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from schemas.clism import QUE_TOKEN
from training.checkpoint import publish
from training.errors import ConfigError, InputError
from training.models.card import model_card
from training.models.encoder import FAMILIES
from training.models.heads import HEADS, TASK_HEADS, Head, name_in_model

FORMAT_VERSION = 1

_WEIGHTS, _HEAD_WEIGHTS, _ABOUT = "model.safetensors", "heads.safetensors", "polyspan.json"
_VOCABULARIES = ("tokenizer.json", "sentencepiece.bpe.model", "vocab.json", "vocab.txt")
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt"]
_LM_HEADS = ("lm_head.", "cls.predictions.")
_TO_SAFETENSORS = (
    "python -c \"from transformers import {auto} as M, AutoTokenizer as T; f='{folder}'; "
    "o=f+'-safetensors'; "
    'M.from_pretrained(f).save_pretrained(o); T.from_pretrained(f).save_pretrained(o)"'
)

RESTORE = "Restore it from a copy, or write the model again from its last checkpoint"

TASK_MODELS: dict[str, Any] = {
    "ForQuestionAnswering": AutoModelForQuestionAnswering,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForSequenceClassification": AutoModelForSequenceClassification,
}
"""What transformers loads a fine-tuned model with, by how its `architectures` end."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from: written to polyspan.json and into the model card."""

    base_model: str  # that training began from: a folder or a name on the hub
    recipe: Mapping[str, Any]  # the resolved configuration, plain JSON values
    data: Mapping[str, str]  # each dataset's folder → the fingerprint of its manifest
    step: int
    commit: str | None = None


@dataclass(frozen=True)
class About:
    """What polyspan.json holds."""

    heads: Mapping[str, Mapping[str, Any]]  # name in `HEADS` or `TASK_HEADS` → what its class is made with
    attention_dropout: float  # that it was trained with; config.json's holds outside of packed attention
    provenance: Provenance
    versions: Mapping[str, str]
    sha256: Mapping[str, str]  # of the files of weights
    reading: Mapping[str, Any] | None = None  # of a fine-tuned model: a `Reading` as plain JSON values
    scores: Mapping[str, float] = field(default_factory=dict)  # of a fine-tuned model, on its dev files
    format_version: int = field(default=FORMAT_VERSION, kw_only=True)


class Pretrained(NamedTuple):
    """What `load_model` finds. `Encoder(language_model.base_model)` and `MlmHead(language_model)` share its weights."""

    language_model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    heads: dict[str, Head]  # those that the folder holds beside the MLM head; none in a folder that is not ours
    provenance: Provenance | None  # None in a folder that is not ours


def save_model(
    folder: str | Path,
    language_model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    heads: Mapping[str, Head],
    provenance: Provenance,
) -> None:
    """Writes the folder, whole or not at all. The same model and provenance give the same bytes.

    `heads` are modules of `HEADS` under their names there. A folder that this function has written is replaced; any
    other that stands there is left alone, and `ConfigError` raised.
    """
    if strange := [
        f"{name} ({type(head).__name__})" for name, head in heads.items() if type(head) is not HEADS.get(name)
    ]:
        expected = ", ".join(f"{name} ({kind.__name__})" for name, kind in HEADS.items())
        raise ConfigError(f"{folder}: cannot save {', '.join(strange)}. Expected heads: {expected}")
    write_model(folder, language_model, tokenizer, heads, provenance)


def write_model(
    folder: str | Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    heads: Mapping[str, Head],
    provenance: Provenance,
    reading: Mapping[str, Any] | None = None,
    scores: Mapping[str, float] | None = None,
) -> None:
    """Writes the folder as `save_model` does. Weights of `TASK_HEADS` are `model`'s to hold."""
    folder = Path(folder)
    if folder.exists() and not (folder / _ABOUT).is_file():
        raise ConfigError(f"{folder} exists and is no model of ours: it has no {_ABOUT}. Give another folder")
    beside, old = folder.with_name(f".{folder.name}.unfinished"), folder.with_name(f".{folder.name}.old")
    for left in (beside, old):  # by a run that was killed here
        shutil.rmtree(left, ignore_errors=True)
    beside.mkdir(parents=True)
    model.save_pretrained(beside, max_shard_size="1TB")
    tokenizer.save_pretrained(beside)
    own = {name: head for name, head in heads.items() if name in HEADS}
    tensors = {f"{name}.{key}": value.contiguous() for name in own for key, value in own[name].state_dict().items()}
    if tensors:
        save_file(tensors, beside / _HEAD_WEIGHTS)
    about = About(
        heads={name: heads[name].settings for name in sorted(heads)},
        attention_dropout=0.0,
        provenance=provenance,
        versions={name: version(name) for name in ("tokenizers", "torch", "transformers")},
        sha256={name: _sha256(beside / name) for name in (_WEIGHTS, _HEAD_WEIGHTS) if (beside / name).is_file()},
        reading=reading,
        scores=scores or {},
    )
    text = json.dumps(asdict(about), indent=2, ensure_ascii=False, allow_nan=False)
    (beside / _ABOUT).write_text(text + "\n", encoding="utf-8")
    (beside / "README.md").write_text(model_card(about, model.config), encoding="utf-8")
    if folder.exists():
        folder.rename(old)
    publish(beside, folder)
    shutil.rmtree(old, ignore_errors=True)


def load_model(folder_or_name: str | Path, seed: int = 0) -> Pretrained:
    """A model of the XLM-R family from a folder, or from the hub, in fp32.

    A folder without an MLM head gets one with random weights, which are a function of `seed`, and a warning says so.
    Raises `InputError` if there is no such folder or name, if it holds no such model, or if files are missing, pickled,
    damaged, or (in our own folders) not those that were written.
    """
    folder = local_folder(folder_or_name)
    check_model_files(folder)
    about = read_about(folder)
    language_model = load_language_model(folder, seed)
    tokenizer = load_tokenizer_of(folder, language_model)
    if about is None:
        return Pretrained(language_model, tokenizer, {}, None)
    return Pretrained(language_model, tokenizer, load_heads(folder, about.heads), about.provenance)


def load_tokenizer_of(folder: Path, model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """The folder's tokenizer, once it is known that the model has an embedding for each of its tokens."""
    tokenizer = load_tokenizer(folder, add_que=False)
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, but the model only "
            f"{model.config.vocab_size}. Expected the tokenizer that the model was trained with"
        )
    return tokenizer


def load_tokenizer(folder_or_name: str | Path, add_que: bool = True) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a folder or a name on the hub, with [QUE] as its last token unless it had it, or not."""
    folder = local_folder(folder_or_name)
    # Without its vocabulary transformers makes a tokenizer of the five special tokens, and says nothing.
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        raise InputError(f"{folder}: no tokenizer. Expected {' or '.join(_VOCABULARIES)}; found {_found(folder)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # the tokenizers library raises no narrower class
        raise InputError(f"{folder}: the tokenizer cannot be read ({type(error).__name__}: {error})") from error
    if add_que:
        _add_que(tokenizer)
    return tokenizer


def add_que_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int = 0) -> int:
    """Makes sure that both know [QUE]; returns its id. Does nothing where they do.

    [QUE] begins as `<mask>`, which also stands for words that are to be found, plus noise of a tenth of its deviation
    (a function of `seed`), so that the two can part. The vocabulary grows to a multiple of 64, which GPUs multiply
    faster; the rows that no token uses are zero. All new tokens get `<mask>`'s output bias: like it, they are never
    predicted.
    """
    before: int = model.config.vocab_size
    mask_id: Any = tokenizer.mask_token_id
    known = _knows_que(tokenizer)
    _add_que(tokenizer)
    que_id: Any = tokenizer.convert_tokens_to_ids(QUE_TOKEN)
    if known and que_id < before:
        return que_id
    if que_id >= before:
        with torch.random.fork_rng(devices=[]):  # transformers draws rows that are overwritten below
            model.resize_token_embeddings(que_id + 1, pad_to_multiple_of=64, mean_resizing=False)
    embedding, decoder = model.get_input_embeddings(), model.get_output_embeddings()  # type: ignore[no-untyped-call]
    rows_VD: Any = embedding.weight
    bias_V: Any = decoder.bias
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        mask_D = rows_VD[mask_id]
        noise_D = torch.randn(mask_D.shape, generator=generator).to(mask_D)
        rows_VD[before:] = 0
        rows_VD[que_id] = mask_D + 0.1 * mask_D.std() * noise_D
        bias_V[[que_id, *range(before, len(bias_V))]] = bias_V[mask_id].clone()
    return que_id


def _knows_que(tokenizer: PreTrainedTokenizerBase) -> bool:
    return tokenizer.convert_tokens_to_ids(QUE_TOKEN) not in (None, tokenizer.unk_token_id)


def _add_que(tokenizer: PreTrainedTokenizerBase) -> None:
    if not _knows_que(tokenizer):
        token = AddedToken(QUE_TOKEN, normalized=False)
        tokenizer.add_special_tokens({"extra_special_tokens": [token]}, replace_extra_special_tokens=False)


def local_folder(folder_or_name: str | Path) -> Path:
    """The folder itself, or the hub's copy of that name, fetched unless it is here already."""
    if Path(folder_or_name).is_dir():
        return Path(folder_or_name)
    try:
        return Path(snapshot_download(str(folder_or_name), allow_patterns=_HUB_FILES))
    except Exception as error:  # of the hub's name rules, of the network, of the cache
        raise InputError(
            f"{folder_or_name}: no such folder, and no model of that name could be had from the hub "
            f"({type(error).__name__}). Give a folder that holds config.json, {_WEIGHTS} and a tokenizer"
        ) from error


def check_model_files(folder: Path) -> None:
    """Raises `InputError` unless there are a config.json of a known family and safetensors."""
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: no model. Expected config.json, {_WEIGHTS} and a tokenizer; found {_found(folder)}"
        )
    config = read_json(folder / "config.json")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise InputError(
            f"{folder}: config.json has model_type {family!r}. "
            f"Expected one of {', '.join(FAMILIES)}, such as xlm-roberta-base"
        )
    if (folder / _WEIGHTS).is_file() or (folder / f"{_WEIGHTS}.index.json").is_file():
        return
    if (folder / "pytorch_model.bin").is_file():
        auto = TASK_MODELS.get(task_suffix(config) or "", AutoModelForMaskedLM)
        raise InputError(
            f"{folder}: pytorch_model.bin is a pickle, which can run code when it is read. Only safetensors are. "
            f"If you trust its origin, convert it:\n{_TO_SAFETENSORS.format(folder=folder, auto=auto.__name__)}"
        )
    raise InputError(f"{folder}: no weights. Expected {_WEIGHTS}; found {_found(folder)}")


def task_suffix(config: Mapping[str, Any]) -> str | None:
    """The key in `TASK_MODELS` of a model that was fine-tuned with a standard head, by its config.json."""
    names = [str(name) for name in config.get("architectures") or []]
    return next((suffix for name in names for suffix in TASK_MODELS if name.endswith(suffix)), None)


def load_language_model(folder: Path, seed: int) -> PreTrainedModel:
    """The encoder with its MLM head, or with a random one."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # leaves GPUs' generators alone
        model, missing = load_weights(folder, AutoModelForMaskedLM)
    if lost := [name for name in missing if not name.startswith(_LM_HEADS)]:
        raise InputError(f"{folder}: {_WEIGHTS} lacks {len(lost)} of the encoder's tensors, such as {lost[0]}")
    if missing:
        _log.warning("%s: no MLM head: it begins with random weights (%s)", folder, ", ".join(missing))
    return model


def load_weights(folder: Path, auto: Any) -> tuple[PreTrainedModel, list[str]]:
    """The folder's model as the auto class `auto` makes it, in fp32, and the weights that the folder lacks."""
    try:
        model, info = auto.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder}: the model cannot be read ({type(error).__name__}: {error})") from error
    return model, sorted(info["missing_keys"])


def read_about(folder: Path) -> About | None:
    """polyspan.json, once the weights beside it are known to be those that it was written with."""
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
        if unknown := sorted(set(about.heads) - set(HEADS) - set(TASK_HEADS)):
            raise InputError(f"{path}: unknown heads: {', '.join(unknown)}. Read it with the release that wrote it")
        for name, expected in about.sha256.items():
            if not (folder / name).is_file():
                raise InputError(f"{folder}: {name} is missing. {RESTORE}")
            if _sha256(folder / name) != expected:
                raise InputError(f"{folder / name} is not the file that was written: its checksum differs. {RESTORE}")
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is not as it was written ({type(error).__name__}: {error}). {RESTORE}") from None
    return about


def load_heads(folder: Path, settings: Mapping[str, Any]) -> dict[str, Head]:
    """The heads of a folder of ours, as polyspan.json names them."""
    heads: dict[str, Head] = {}
    try:
        for name, its_settings in settings.items():
            head = heads[name] = (HEADS | TASK_HEADS)[name](**its_settings)
            in_model = name in TASK_HEADS
            with safe_open(folder / (_WEIGHTS if in_model else _HEAD_WEIGHTS), framework="pt") as tensors:
                names = {key: name_in_model(key) if in_model else f"{name}.{key}" for key in head.state_dict()}
                head.load_state_dict({key: tensors.get_tensor(stored) for key, stored in names.items()})
    except (OSError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: its heads cannot be read ({type(error).__name__}: {error}). {RESTORE}") from None
    return heads


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({type(error).__name__}: {error})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected an object, found a {type(values).__name__}")
    return values


def _found(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "nothing"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
