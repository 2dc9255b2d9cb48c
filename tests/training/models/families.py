"""Small random models of every supported family, as a user has them: a masked LM and its own tokenizer, on disk."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DebertaV2Tokenizer,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaTokenizer,
    XLMRobertaXLConfig,
    XLMRobertaXLForMaskedLM,
)
from transformers.convert_slow_tokenizer import bytes_to_unicode

from training.models.tiny import sentencepiece_model

FAMILIES = ("xlm-roberta", "roberta", "bert", "xlm-roberta-xl", "deberta-v2")
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
    tokenizer: Any = {
        "bert": lambda: _bert_tokenizer(texts, folder),
        "roberta": lambda: roberta_tokenizer(folder),
        "xlm-roberta-xl": lambda: AutoTokenizer.from_pretrained(xlmr_folder),
        "deberta-v2": lambda: deberta_tokenizer(texts, folder),
    }[family]()
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 512, **_SIZES}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = {
            "bert": lambda: BertForMaskedLM(BertConfig(**sizes)),
            "roberta": lambda: RobertaForMaskedLM(RobertaConfig(**sizes | {"max_position_embeddings": 514})),
            "xlm-roberta-xl": lambda: XLMRobertaXLForMaskedLM(
                XLMRobertaXLConfig(**sizes | {"max_position_embeddings": 514})
            ),
            "deberta-v2": lambda: DebertaV2ForMaskedLM(
                DebertaV2Config(**sizes | {"vocab_size": len(tokenizer) + SPARE}, **MDEBERTA)
            ),
        }[family]()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SPARE = 20
"""Rows of mDeBERTa's embedding that no token uses, of which it has some 900."""
MDEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "position_buckets": 256,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pooler_dropout": 0,
    "pooler_hidden_act": "gelu",
}
"""What microsoft/mdeberta-v3-base has in its config.json besides its sizes."""


def deberta_tokenizer(texts: Sequence[str], folder: Path) -> DebertaV2Tokenizer:
    """Of the form of mDeBERTa's: a SentencePiece vocabulary with these four special tokens, and [MASK] after it."""
    special = {
        "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3,
        "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]",
    }  # fmt: skip
    (folder / "spm.model").write_bytes(sentencepiece_model(iter(texts), 3_000, **special))
    return DebertaV2Tokenizer.from_pretrained(folder)


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
