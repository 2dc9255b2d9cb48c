from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.shards import read_shards

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GOLDEN = Path(__file__).parents[1] / "golden"

# Whoever tests the pipelines alone has no torch.
collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["*"]


@pytest.fixture(scope="session")
def xlmr_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An XLM-R as a user has it, only small: random weights with an MLM head, its own tokenizer without [QUE].

    3 layers of 32 in 2 heads, 512 positions, some 400 tokens. Read only: a test that writes makes a copy.
    """
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM, XLMRobertaTokenizer

    from training.models.tiny import sentencepiece_model

    folder = tmp_path_factory.mktemp("xlmr")
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(iter(golden_texts()), 400))
    # `from_pretrained`, since XLMRobertaTokenizer(vocab_file=…) ignores the file and has five tokens.
    tokenizer = XLMRobertaTokenizer.from_pretrained(folder, model_max_length=512)
    tokenizer.save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        initializer_range=0.1,  # with 0.02, layers this small hardly tell tokens apart
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        XLMRobertaForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def que_tokenizer(xlmr_folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of `xlmr_folder` with [QUE]."""
    from training.models.tokenizer import load_tokenizer

    return load_tokenizer(xlmr_folder)


def golden_texts() -> list[str]:
    """Every text of the golden datasets: Latin, Arabic, Devanagari, Thai and Han script, emoji."""
    folders = (GOLDEN / "clism-1", GOLDEN / "anchor_mrc-1")
    rows = [row for folder in folders for batch in read_shards(folder) for row in batch.to_pylist()]
    names = ("source_text", "target_text", "context_text", "query_text")
    return [row[name].replace("[MASK]", "") for row in rows for name in names if name in row]
