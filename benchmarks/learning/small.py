"""A small XLM-R from scratch, trained by `polyspan-train pretrain`, and read again for the benchmarks' questions."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, cast

import torch
import transformers
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaTokenizer,
)

from schemas.shards import read_shards
from training.models.encoder import Encoder
from training.models.folder import Pretrained
from training.pretrain import pretrain
from training.recipes.pretraining import PretrainConfig, Recipe

LAYERS, HIDDEN, HEADS, POSITIONS = 3, 96, 4, 128
WORDS_STD, POSITIONS_SIZE = 0.1, 0.2


def write_small(folder: Path, texts: Iterable[str], seed: int) -> Path:
    """A model folder with random weights; its tokenizer knows every word of the texts."""
    tokenizer = word_tokenizer(texts)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=4 * HIDDEN,
        max_position_embeddings=POSITIONS + 2,
        type_vocab_size=1,
        initializer_range=WORDS_STD,  # with 0.02, layers this small hardly distinguish tokens
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(seed)
    model = XLMRobertaForMaskedLM(config)
    # Attention from nothing takes thousands of steps to find a neighbour. So it begins with a little of what XLM-R has:
    # positions are waves and keys are queries, by which tokens look at what is near or alike.
    place_P1 = torch.arange(POSITIONS + 2).unsqueeze(1)
    angles = place_P1 * torch.exp(-math.log(1000) * torch.arange(HIDDEN // 2) / (HIDDEN // 2))
    with torch.no_grad():
        model.roberta.embeddings.position_embeddings.weight.copy_(
            POSITIONS_SIZE * torch.cat([angles.sin(), angles.cos()], dim=1)
        )
        for attention in (cast(Any, layer).attention.self for layer in model.roberta.encoder.layer):
            attention.key.weight.copy_(attention.query.weight)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerBase:
    """XLM-R's tokenizer with whole words for its vocabulary, and letters for what is in no text."""
    known = {word for text in texts for word in text.split()}
    letters = {"▁", *(letter for word in known for letter in word)}
    pieces = [(f"▁{word}", -1.0) for word in sorted(known)] + [(letter, -9.0) for letter in sorted(letters)]
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    return XLMRobertaTokenizer(vocab=[*special, *pieces, ("<mask>", 0.0)], model_max_length=POSITIONS)


def trained(recipe: Recipe, start: Path, data: Path, output: Path) -> Path:
    """The model folder that `polyspan-train pretrain RECIPE --model START --data DATA --output OUTPUT` leaves."""
    recipe = replace(recipe, model=str(start))
    with contextlib.redirect_stderr(io.StringIO()):
        pretrain(PretrainConfig(recipe, data=(str(data),), output=str(output), device="cpu", loader_workers=0))
    return output / "model"


def encoder_of(model: Pretrained) -> Encoder:
    return Encoder(cast(PreTrainedModel, model.language_model.base_model))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in read_shards(folder) for row in batch.to_pylist()]


# --- the command line -----------------------------------------------------------------------------


def arguments(description: str | None, *flags: str) -> argparse.Namespace:
    """The options that all of these benchmarks have, and yes-or-no ones of their own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pipelines-python", default=sys.executable, help="a Python with polyspan[pipelines]; this one"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed and a few steps: does it run?")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    options = parser.parse_args()
    options.seeds = 1 if options.quick else options.seeds
    return options


def table(header: Sequence[str], rows: Iterable[Sequence[str | Sequence[float]]]) -> str:
    """Markdown. A cell of numbers, one for each seed, shows their mean and their range: `0.98 (0.97–0.99)`."""
    lines = [header, ["---"] * len(header)]
    lines += [[cell if isinstance(cell, str) else spread(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float]) -> str:
    if math.isnan(mean(values)):
        return "–"
    least, most = min(values), max(values)
    return f"{mean(values):.2f}" + (f" ({least:.2f}–{most:.2f})" if len(values) > 1 else "")
