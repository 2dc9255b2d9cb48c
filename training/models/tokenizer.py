"""Loads and saves tokenizers, and adds `[QUE]` to a tokenizer and its model."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, normalizers
from transformers import AutoTokenizer, DebertaV2Tokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import import_protobuf

from schemas.clism import QUE_TOKEN
from schemas.errors import InputError
from training.models.files import local_folder, names_in

_VOCABULARIES = ("tokenizer.json", "sentencepiece.bpe.model", "spm.model", "vocab.json", "vocab.txt")


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves the tokenizer as transformers does, but so that release 4 of transformers can load it too, and release 5
    keeps DeBERTa's normalization (`_normalize_as_sentencepiece`)."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    # Release 5 reads either name; release 4 has a mapping under the new one, and fails at a list.
    if isinstance(values.get("extra_special_tokens"), list):
        values["additional_special_tokens"] = values.pop("extra_special_tokens")
    if values.get("tokenizer_class") in ("DebertaV2Tokenizer", "TokenizersBackend"):
        values["tokenizer_class"] = "PreTrainedTokenizerFast"  # which both releases read as tokenizer.json has it
    path.write_text(json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def load_tokenizer(folder_or_name: str | Path, add_que: bool = True) -> PreTrainedTokenizerBase:
    """Loads the fast tokenizer of a folder or a name on the hub. With `add_que` it gets [QUE] as its last token if it
    lacks it."""
    folder = local_folder(folder_or_name)
    # Without its vocabulary transformers makes a tokenizer of the five special tokens, and says nothing.
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        raise InputError(f"{folder}: no tokenizer. Expected {' or '.join(_VOCABULARIES)}; found {names_in(folder)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # the tokenizers library raises no narrower class
        raise InputError(f"{folder}: the tokenizer cannot be read ({type(error).__name__}: {error})") from error
    if isinstance(tokenizer, DebertaV2Tokenizer):
        _normalize_as_sentencepiece(tokenizer, folder)
    if add_que:
        _add_que(tokenizer)
    return tokenizer


def _normalize_as_sentencepiece(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Gives DeBERTa's tokenizer the normalization of its SentencePiece model.

    Release 5 of transformers leaves it out, so that the Chinese comma, say, becomes unknown. Release 4 had it. A folder
    with tokenizer.json alone has it there.
    """
    backend: Any = tokenizer.backend_tokenizer
    if (folder / "spm.model").is_file():
        proto = import_protobuf().ModelProto()  # type: ignore[no-untyped-call]
        proto.ParseFromString((folder / "spm.model").read_bytes())
        table = proto.normalizer_spec.precompiled_charsmap
    else:
        described = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["normalizer"] or {}
        steps = described.get("normalizers", [described])
        table = base64.b64decode("".join(step.get("precompiled_charsmap", "") for step in steps))
    if table:
        backend.normalizer = normalizers.Sequence([normalizers.Precompiled(table), backend.normalizer])


def load_tokenizer_of(folder: Path, model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """Loads the folder's tokenizer. Raises `InputError` if the model has no embedding for one of its tokens."""
    tokenizer = load_tokenizer(folder, add_que=False)
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, but the model only "
            f"{model.config.vocab_size}. Expected the tokenizer that the model was trained with"
        )
    return tokenizer


def add_que_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int = 0) -> int:
    """Adds [QUE] to model and tokenizer if they lack it; returns its id.

    The embedding of [QUE] begins as that of `<mask>`, which also replaces words to predict, plus noise of a tenth of
    its standard deviation (a function of `seed`), so that the two can become different. The vocabulary grows to a
    multiple of 64, which GPUs multiply faster; rows that no token uses are zero. All new tokens get `<mask>`'s output
    bias: like it, they are never predicted.
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
