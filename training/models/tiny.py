"""`--model tiny`: an XLM-R to try things with, small and random, its tokenizer trained on the shards themselves."""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import PreTrainedTokenizerBase, XLMRobertaConfig, XLMRobertaForMaskedLM, XLMRobertaTokenizer

from schemas.clism import QUE_TOKEN
from schemas.shards import read_shards
from training.models.folder import Pretrained

MOST_TEXTS = 20_000  # that the tokenizer is trained on
VOCABULARY = 6_000
LAYERS, HIDDEN, HEADS, INNER, POSITIONS = 2, 128, 4, 512, 514


def tiny_model(datasets: Sequence[str], columns: Sequence[str], seed: int) -> Pretrained:
    """Makes a model whose tokenizer is trained on these columns of the datasets. Equal arguments give equal models."""
    return random_model(train_tokenizer(itertools.islice(texts(datasets, columns), MOST_TEXTS)), seed)


def random_model(tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretrained:
    """Makes a model whose weights depend only on the seed and the size of the vocabulary."""
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=POSITIONS,
        type_vocab_size=1,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Pretrained(XLMRobertaForMaskedLM(config), tokenizer, {}, None)


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerBase:
    """Trains a SentencePiece vocabulary like XLM-R's, but smaller. The trainer of `tokenizers` is not deterministic."""
    with tempfile.TemporaryDirectory(prefix="polyspan-") as folder:
        (Path(folder) / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(texts, VOCABULARY, 0.9995))
        # Not XLMRobertaTokenizer(vocab_file=…), which ignores the file.
        tokenizer = XLMRobertaTokenizer.from_pretrained(folder, model_max_length=POSITIONS - 2)
    tokenizer.name_or_path = "tiny"
    return tokenizer


def sentencepiece_model(texts: Iterator[str], size: int, coverage: float = 1.0, **options: Any) -> bytes:
    """Returns a Unigram model of at most `size` pieces; equal texts give equal models."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts,
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=coverage,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def texts(datasets: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Reads the texts of these columns, row by row, with a blank for each `[QUE]`."""
    for folder in datasets:
        for batch in read_shards(folder, columns=columns):
            for row in batch.to_pylist():
                yield from (text.replace(QUE_TOKEN, " ") for text in row.values())
