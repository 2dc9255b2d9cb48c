"""Small random models of every supported family, as a user has them: a masked LM and its own tokenizer, on disk."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaTokenizer,
)
from transformers.convert_slow_tokenizer import bytes_to_unicode

FAMILIES = ("xlm-roberta", "roberta", "bert")
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "initializer_range": 0.1,  # with 0.02, layers this small hardly tell tokens apart
}


def family_folder(family: str, xlmr_folder: Path, texts: Sequence[str], folder: Path) -> Path:
    """`xlmr_folder` itself, or a model of another family whose tokenizer can spell the texts, written to `folder`."""
    if family == "xlm-roberta":
        return xlmr_folder
    folder.mkdir()
    tokenizer = _bert_tokenizer(texts, folder) if family == "bert" else roberta_tokenizer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if family == "bert":
            model: Any = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **_SIZES))
        else:
            config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=514, **_SIZES)
            model = RobertaForMaskedLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _bert_tokenizer(texts: Sequence[str], folder: Path) -> BertTokenizer:
    """Cased; a token a character, and whatever a character is made of."""
    characters = sorted({part for text in texts for part in unicodedata.normalize("NFD", text) + text})
    pieces = [piece for character in characters if not character.isspace() for piece in (character, f"##{character}")]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]), "utf-8")
    return BertTokenizer.from_pretrained(folder, do_lower_case=False)


def roberta_tokenizer(folder: Path) -> RobertaTokenizer:
    """A token a byte."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *bytes_to_unicode().values()]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    return RobertaTokenizer.from_pretrained(folder)
