"""Saves and loads fine-tuned models. A model with a standard head is one that transformers loads as
`AutoModelForQuestionAnswering`, `…TokenClassification` or `…SequenceClassification`; any other is a masked language
model with its heads in a file of their own. polyspan.json holds the inference settings of both.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from schemas.errors import ConfigError, InputError
from training.data.tag_windows import tag_names
from training.models.card import CardText
from training.models.files import (
    FAMILIES,
    TASK_MODELS,
    auto_class,
    check_finetuned,
    check_model_files,
    finetune_first,
    load_language_model,
    load_weights,
    local_folder,
    read_json,
    task_suffix,
)
from training.models.folder import RESTORE, Provenance, load_heads, read_about, write_model
from training.models.heads import Head, head_class, task_head
from training.models.tokenizer import load_tokenizer_of
from training.recipes.finetuning import InferenceSettings, plain_values
from training.recipes.methods import METHODS, Plain

Kind = Literal["qa", "tagging", "pairs"]


class _Standard(NamedTuple):
    """What a kind of task has in transformers."""

    head: str  # its name in `TASK_HEADS`
    suffix: str  # how the architecture of a model with that head ends
    title: str  # of the model card
    hub_task: str  # the hub's name for the kind of task


_STANDARD: dict[Kind, _Standard] = {
    "qa": _Standard("qa", "ForQuestionAnswering", "A cross-lingual reader of questions", "question-answering"),
    "tagging": _Standard(
        "tags", "ForTokenClassification", "A cross-lingual tagger of entities", "token-classification"
    ),
    "pairs": _Standard("pairs", "ForSequenceClassification", "A cross-lingual reader of pairs", "text-classification"),
}
_KINDS: dict[str, Kind] = {standard.suffix: kind for kind, standard in _STANDARD.items()}

_log = logging.getLogger(__name__)


class Finetuned(NamedTuple):
    """What `load_finetuned` returns. `language_model.base_model` is the encoder."""

    language_model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    heads: dict[str, Head]
    settings: InferenceSettings
    provenance: Provenance | None  # None for a folder that polyspan did not write


def save_finetuned(
    folder: str | Path,
    language_model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    heads: Mapping[str, nn.Module],
    settings: InferenceSettings,
    provenance: Provenance,
    scores: Mapping[str, float],
) -> None:
    """Writes the folder, whole or not at all. The same model and provenance give the same bytes.

    `language_model` is the model that training started from, whose `base_model` is now trained. Only the `heads` that
    prediction needs are written. A folder that polyspan has written is replaced; for any other folder it raises
    `ConfigError`.
    """
    saved = {name: _checked(folder, name, heads) for name in _head_names(settings)}
    standard, model = _STANDARD[settings.kind], language_model
    if settings.method.uses_standard_head:
        model = _with_head(language_model, saved[standard.head], settings)
        tokenizer = _without_token_types(tokenizer)
    text = CardText(standard.title, standard.hub_task, TASK_MODELS[standard.suffix])
    write_model(folder, model, tokenizer, saved, provenance, _to_json(settings), scores, text)


def _checked(folder: str | Path, name: str, heads: Mapping[str, nn.Module]) -> Head:
    """Returns the head of that name. Raises `ConfigError` if it is missing or of another class."""
    head, expected = heads.get(name), head_class(name)
    if isinstance(head, Head) and type(head) is expected:
        return head
    found = ", ".join(f"{name} ({type(head).__name__})" for name, head in heads.items()) or "none"
    class_name = expected.__name__ if expected else "of no known class"
    raise ConfigError(f"{folder}: expected a head {name} ({class_name}) to save, found {found}")


def load_finetuned(folder_or_name: str | Path) -> Finetuned:
    """Loads a fine-tuned model of one of `FAMILIES`, in fp32: one of polyspan or of transformers' three kinds.

    Raises `InputError` as `load_model` does, and if the model was not fine-tuned, or lacks its head.
    """
    folder = local_folder(folder_or_name)
    check_model_files(folder)
    about = read_about(folder)
    check_finetuned(folder)
    if about is None or about.reading is None:
        return _load_foreign(folder)
    settings = _from_json(about.reading, folder)
    heads = load_heads(folder, about.heads)
    for name in _head_names(settings):
        if name not in heads:
            found = ", ".join(heads) or "none"
            raise InputError(f"{folder}: expected a head {name} in polyspan.json, found {found}. {RESTORE}")
    if settings.method.uses_standard_head:
        model = _load_task_model(folder, settings.kind)
        name = _STANDARD[settings.kind].head
        if heads[name].settings != task_head(name, model.config, _classes(settings)).settings:
            raise InputError(f"{folder}: polyspan.json and config.json disagree on labels or sizes. {RESTORE}")
    else:
        model = load_language_model(folder, seed=0)
    return Finetuned(model, load_tokenizer_of(folder, model), heads, settings, about.provenance)


def _head_names(settings: InferenceSettings) -> tuple[str, ...]:
    """Returns the names of the heads that prediction reads."""
    standard = (_STANDARD[settings.kind].head,) if settings.method.uses_standard_head else ()
    return (*standard, *settings.method.heads)


def _classes(settings: InferenceSettings) -> tuple[str, ...]:
    """Returns the classes of the standard head."""
    return {"qa": (), "tagging": tag_names(settings.labels), "pairs": settings.labels}[settings.kind]


def _with_head(language_model: PreTrainedModel, head: Head, settings: InferenceSettings) -> PreTrainedModel:
    """Returns encoder and head as one model of transformers, which shares their weights. It can be saved but not run:
    weights that it needs only to run are missing."""
    config = copy.deepcopy(language_model.config)
    if settings.kind == "qa":
        config.num_labels = 2
    else:
        config.id2label = dict(enumerate(_classes(settings)))
        config.label2id = {name: number for number, name in config.id2label.items()}
    config.problem_type = "single_label_classification" if settings.kind == "pairs" else None
    with torch.device("meta"):
        model: PreTrainedModel = auto_class(TASK_MODELS[_STANDARD[settings.kind].suffix]).from_config(config)
    encoder = language_model.base_model.state_dict().items()
    # BERT's pooler comes from the head.
    weights = {f"{model.base_model_prefix}.{key}": value for key, value in encoder if not key.startswith("pooler.")}
    weights |= {head.name_in_model(key): value for key, value in head.state_dict().items()}
    model.load_state_dict(weights, assign=True)
    return model


def _without_token_types(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Returns a tokenizer without token types: BERT's would give second texts type 1, but `Encoder` gives all tokens
    type 0."""
    tokenizer = copy.copy(tokenizer)
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    # transformers writes the attributes that `init_kwargs` names.
    tokenizer.init_kwargs = {**tokenizer.init_kwargs, "model_input_names": tokenizer.model_input_names}
    return tokenizer


def _load_task_model(folder: Path, kind: Kind) -> PreTrainedModel:
    model, missing = load_weights(folder, auto_class(TASK_MODELS[_STANDARD[kind].suffix]))
    if missing:
        raise InputError(
            f"{folder}: the weights lack {len(missing)} tensors of a {type(model).__name__}, such as {missing[0]}. "
            f"{finetune_first(folder)}"
        )
    return model


def _load_foreign(folder: Path) -> Finetuned:
    """Loads a model of transformers' three kinds, with the method plain."""
    suffix = task_suffix(read_json(folder / "config.json"))
    assert suffix is not None  # says check_finetuned
    model = _load_task_model(folder, _KINDS[suffix])
    tokenizer = load_tokenizer_of(folder, model)
    settings = _foreign_settings(folder, model.config, _KINDS[suffix])
    knows_types = "token_type_ids" in tokenizer.model_input_names and model.config.type_vocab_size > 1
    if settings.kind != "tagging" and knows_types:
        _log.warning("%s: was trained with token types; polyspan reads both texts as type 0: expect less of it", folder)
    name = _STANDARD[settings.kind].head
    head = task_head(name, model.config, _classes(settings))
    weights = model.state_dict()
    own = {key: weights[head.name_in_model(key)] for key in head.state_dict()}
    if settings.kind == "tagging":
        own = {key: _in_order(value, _class_names(model.config), _classes(settings)) for key, value in own.items()}
    head.load_state_dict(own)
    return Finetuned(model, tokenizer, {name: head}, settings, None)


def foreign_heads(folder_or_name: str | Path) -> dict[str, Head]:
    """Returns the head of a model of transformers' three kinds, to continue training with. Empty for any other folder,
    and for a tagger that lacks one of our tags."""
    folder = local_folder(folder_or_name)
    if read_about(folder) or task_suffix(read_json(folder / "config.json")) is None:
        return {}
    heads = _load_foreign(folder).heads
    sound = all(bool(weight.isfinite().all()) for head in heads.values() for weight in head.state_dict().values())
    return heads if sound else {}


def _in_order(rows: Tensor, found: tuple[str, ...], wanted: tuple[str, ...]) -> Tensor:
    """Returns a classifier's weights or biases in the order `wanted`. A tag that it lacks is never chosen."""
    never = torch.zeros_like(rows[0]) if rows.dim() == 2 else torch.tensor(-math.inf)
    return torch.stack([rows[found.index(name)] if name in found else never for name in wanted])


def _class_names(config: PreTrainedConfig) -> tuple[str, ...]:
    names: Mapping[Any, Any] = config.id2label or {}
    return tuple(str(names[number]) for number in sorted(names))


def _foreign_settings(folder: Path, config: PreTrainedConfig, kind: Kind) -> InferenceSettings:
    names = _class_names(config)
    if kind == "qa":
        labels: tuple[str, ...] = ()
    elif kind == "tagging":
        labels = _entity_labels(names, folder)
    elif len(names) > 1 and config.problem_type in (None, "single_label_classification"):
        labels = names
    else:
        raise InputError(
            f"{folder}: expected a classifier of one label among several, found {config.problem_type} among "
            f"{', '.join(names)}. {finetune_first(folder)}"
        )
    taken = config.pad_token_id + 1 if FAMILIES[config.model_type] else 0
    most = min(InferenceSettings.max_tokens, config.max_position_embeddings - taken)
    return InferenceSettings(Plain(), kind, labels, max_tokens=most)


def _entity_labels(tags: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Returns the entity types of IOB1 or IOB2 tags, in order of appearance."""
    others = [tag for tag in tags if tag != "O"]
    if "O" not in tags or not others or not all(tag[:2] in ("B-", "I-") and tag[2:] for tag in others):
        raise InputError(
            f"{folder}: expected tags O, B-… and I-… in config.json's id2label, found {', '.join(tags)}. "
            f"{finetune_first(folder)}"
        )
    return tuple(dict.fromkeys(tag[2:] for tag in others))


def _to_json(settings: InferenceSettings) -> dict[str, Any]:
    return plain_values(settings) | {"labels": list(settings.labels)}


def _from_json(values: Mapping[str, Any], folder: Path) -> InferenceSettings:
    try:
        fields = dict(values["method"])
        method = METHODS[fields.pop("name")](**fields)
        settings = InferenceSettings(**{**values, "method": method, "labels": tuple(values["labels"])})
        _STANDARD[settings.kind]
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{folder / 'polyspan.json'}: its reading is not as it was written ({type(error).__name__}: {error}). "
            f"{RESTORE}"
        ) from None
    return settings
