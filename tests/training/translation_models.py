"""Small translation models as users have them: Marian, M2M-100, NLLB and mBART-50 with real tokenizers.

Their weights are random, except for those of `substituting_model`, which are set so that it replaces each word by
another one: word i of the translation attends to word i of the sentence alone.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
)

POSITIONS = 128
LETTERS = "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,?äöü"
SIZES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "init_std": 0.3,  # with 0.02, all translations begin with the same word
}


def spm_of(texts: Sequence[str], **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, minloglevel=2, num_threads=1, **options
    )
    return model.getvalue()


def marian_files(folder: Path, spm: bytes, vocabulary: Sequence[str], **config: Any) -> None:
    """Writes the tokenizer of a Marian model with one vocabulary for both sides."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm)
    (folder / "vocab.json").write_text(json.dumps({piece: at for at, piece in enumerate(vocabulary)}))
    values = {"tokenizer_class": "MarianTokenizer", "model_max_length": 512, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


def marian(folder: Path, codes: Sequence[str] = (), texts: Sequence[str] = (), **config: Any) -> Path:
    """A Marian model of random weights; with `codes` such as de, one that translates into several languages."""
    spm = spm_of([*texts, LETTERS], vocab_size=120, hard_vocab_limit=False, model_type="unigram")
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.id_to_piece(at) for at in range(processor.get_piece_size())]
    words = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
    vocabulary = ["</s>", "<unk>", *(f">>{code}<<" for code in codes), *words, "<pad>"]
    marian_files(folder, spm, vocabulary, **config)
    pad = len(vocabulary) - 1
    save(
        MarianMTModel,
        MarianConfig(
            **SIZES,
            vocab_size=len(vocabulary),
            pad_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
            decoder_start_token_id=pad,
            max_position_embeddings=32,
        ),
        folder,
    )
    return folder


def m2m100(folder: Path, texts: Sequence[str] = ()) -> Path:
    folder.mkdir(parents=True)
    spm = spm_of([*texts, LETTERS], vocab_size=120, hard_vocab_limit=False, model_type="unigram")
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.id_to_piece(at) for at in range(processor.get_piece_size())]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *(p for p in pieces if p not in ("<unk>", "<s>", "</s>"))]
    (folder / "vocab.json").write_text(json.dumps({piece: at for at, piece in enumerate(vocabulary)}))
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(folder)
    size = len(vocabulary) + 108  # 100 languages, and 8 rows that no token uses
    save(M2M100ForConditionalGeneration, M2M100Config(**SIZES, vocab_size=size, max_position_embeddings=32), folder)
    return folder


def nllb(folder: Path) -> Path:
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *dict.fromkeys(LETTERS)]
    tokenizer = NllbTokenizer(vocab={piece: at for at, piece in enumerate(vocabulary)}, merges=[])
    tokenizer.save_pretrained(folder)
    size = len(tokenizer)
    save(M2M100ForConditionalGeneration, M2M100Config(**SIZES, vocab_size=size, max_position_embeddings=32), folder)
    return folder


def mbart50(folder: Path) -> Path:
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((letter, -2.0) for letter in dict.fromkeys(LETTERS))]
    tokenizer = MBart50Tokenizer(vocab=pieces)
    tokenizer.save_pretrained(folder)
    size = len(tokenizer)
    save(MBartForConditionalGeneration, MBartConfig(**SIZES, vocab_size=size, max_position_embeddings=32), folder)
    return folder


def save(kind: Any, config: Any, folder: Path) -> None:
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        kind(config).save_pretrained(folder)


def substituting_model(folder: Path, words: Mapping[str, str], **config: Any) -> Path:
    """A BART with Marian's tokenizer that replaces each word of `words`, as white space separates them, and keeps all
    words that are values. It reads `POSITIONS` tokens."""
    known = list(dict.fromkeys([*words, *words.values()]))
    spm = spm_of(known * 2, model_type="word", vocab_size=len(known) + 3, hard_vocab_limit=False)
    vocabulary = ["</s>", "<unk>", *(f"▁{word}" for word in known), "<pad>"]
    marian_files(folder, spm, vocabulary, **config)
    number = {piece: at for at, piece in enumerate(vocabulary)}
    pad, size = len(vocabulary) - 1, len(vocabulary)
    model = BartForConditionalGeneration(
        BartConfig(
            vocab_size=size,
            d_model=size + POSITIONS,  # a dimension for each word and for each position
            encoder_layers=0,
            decoder_layers=1,
            encoder_attention_heads=1,
            decoder_attention_heads=1,
            encoder_ffn_dim=4,
            decoder_ffn_dim=4,
            max_position_embeddings=POSITIONS,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=pad,
            decoder_start_token_id=pad,
            forced_eos_token_id=0,
        )
    )
    becomes = {number[f"▁{source}"]: number[f"▁{target}"] for source, target in words.items()}
    network: Any = model.model
    layer = network.decoder.layers[0]
    attention = layer.encoder_attn
    with torch.no_grad():
        for part in (network.shared, network.encoder.embed_positions, network.decoder.embed_positions):
            part.weight.zero_()
        for part in (layer.self_attn, layer.fc1, layer.fc2, attention):
            for parameter in part.parameters():
                parameter.zero_()
        for token in range(size):
            network.shared.weight[token, token] = 1.0
            attention.v_proj.weight[becomes.get(token, token), token] = 1.0
            attention.out_proj.weight[token, token] = 100.0
        for at in range(size, size + POSITIONS):
            for side in (network.encoder, network.decoder):
                side.embed_positions.weight[at - size + 2, at] = 1.0  # BART's first position has number 2
            attention.q_proj.weight[at, at] = 10.0
            attention.k_proj.weight[at, at] = 10.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder
