"""Every encoder of docs/encoders.md: a small random model whose config.json is the hub's but for its sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForQuestionAnswering

from tests.training.models.families import MDEBERTA, family_folder
from tests.training.people import people_config
from training.data.batches import pack
from training.finetune import finetune
from training.inference.predictor import load_predictor, predict
from training.models.encoder import Encoder
from training.models.files import FAMILIES
from training.models.finetuned import load_finetuned
from training.models.folder import load_model
from training.tasks.records import read_records

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "encoders.md"


class Known(NamedTuple):
    """What the hub's folder is: its config.json, its tokenizer's family, and whether it holds an MLM head."""

    config: dict[str, Any]
    tokenizer: str
    mlm: bool = True


_DROPOUT = {"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_XLMR = {
    **_DROPOUT,
    "model_type": "xlm-roberta",
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "position_embedding_type": "absolute",
    "output_past": True,
}
_BERT = {
    **_DROPOUT,
    "model_type": "bert",
    "directionality": "bidi",
    "pad_token_id": 0,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
_DEBERTA = {
    **_DROPOUT,
    **MDEBERTA,
    "model_type": "deberta-v2",
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_position_embeddings": 512,
}
KNOWN = {
    "FacebookAI/xlm-roberta-base": Known(_XLMR, "xlm-roberta"),
    "microsoft/infoxlm-base": Known(_XLMR, "xlm-roberta"),
    "microsoft/xlm-align-base": Known(_XLMR, "xlm-roberta"),
    "intfloat/multilingual-e5-base": Known(_XLMR, "xlm-roberta", mlm=False),
    "facebook/xlm-roberta-xl": Known({**_XLMR, "model_type": "xlm-roberta-xl"}, "xlm-roberta"),
    "FacebookAI/roberta-base": Known({**_XLMR, "model_type": "roberta"}, "roberta"),
    "google-bert/bert-base-multilingual-cased": Known(_BERT, "bert"),
    "sentence-transformers/LaBSE": Known(_BERT, "bert", mlm=False),
    "intfloat/multilingual-e5-small": Known(
        {**_BERT, "tokenizer_class": "XLMRobertaTokenizer"}, "xlm-roberta", mlm=False
    ),
    "microsoft/mdeberta-v3-base": Known(_DEBERTA, "deberta-v2", mlm=False),
    "microsoft/deberta-v2-xlarge": Known(
        {**_DEBERTA, "conv_kernel_size": 3, "conv_act": "gelu", "attention_head_size": 16}, "deberta-v2", mlm=False
    ),
}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture
def folder_of(xlmr_folder: Path, tmp_path: Path) -> Callable[[str, list[str]], Path]:
    """Writes the folder of an encoder whose tokenizer can spell the texts."""

    def write(name: str, texts: list[str]) -> Path:
        known = KNOWN[name]
        folder = family_folder(known.tokenizer, xlmr_folder, texts, tmp_path / "tokenizer")
        rows = AutoConfig.from_pretrained(folder).vocab_size
        own = tmp_path / "encoder"
        own.mkdir()
        values = {**known.config, **_SIZES, "vocab_size": rows, "initializer_range": 0.1}
        (own / "config.json").write_text(json.dumps(values))
        torch.manual_seed(0)
        auto = AutoModelForMaskedLM if known.mlm else AutoModel
        auto.from_config(AutoConfig.from_pretrained(own)).save_pretrained(own)
        for path in folder.iterdir():
            if path.name not in ("config.json", "model.safetensors"):
                (own / path.name).write_bytes(path.read_bytes())
        return own

    return write


def test_the_document_names_exactly_these() -> None:
    rows = re.findall(r"^\| (\S+/\S+) \| `([\w-]+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert rows == [(name, known.config["model_type"]) for name, known in KNOWN.items()]
    assert {family for _, family in rows} == FAMILIES.keys()


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_encoder_gives_what_its_own_forward_gives(name: str, folder_of: Callable[..., Path]) -> None:
    folder = folder_of(name, ["Anna lives in Hanoi."])
    encoder = Encoder(load_model(folder, mlm=False).language_model.base_model).eval()  # type: ignore[arg-type]
    own = AutoModel.from_pretrained(folder).eval()
    inputs = pack([[0, 5, 6, 7, 2], [0, 9, 2], [0, 8, 5, 9, 10, 11, 2]])
    ids_NL, mask_NL = inputs.padded(own.config.pad_token_id)
    with torch.no_grad():
        expected_TD = own(input_ids=ids_NL, attention_mask=mask_NL.long()).last_hidden_state[mask_NL]
        torch.testing.assert_close(encoder(inputs), expected_TD, rtol=0, atol=1e-5)
    assert encoder.max_tokens == 512


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_encoder_without_mlm_head_says_so_before_pre_training(
    name: str, folder_of: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    load_model(folder_of(name, ["Anna lives in Hanoi."]))
    assert ("no MLM head: it begins with random weights" in caplog.text) != KNOWN[name].mlm


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_encoder_is_fine_tuned_saved_loaded_and_asked(
    name: str, folder_of: Callable[..., Path], xlmr_folder: Path, tmp_path: Path
) -> None:
    given = people_config(xlmr_folder, tmp_path)
    texts = [text for file in tmp_path.glob("*.json") for text in file.read_text("utf-8").split("\n")]
    recipe = replace(given.recipe, model=str(folder_of(name, texts)), steps=2)
    finetune(replace(given, recipe=recipe, evaluate_every=1))
    model = tmp_path / "run" / "model"
    assert load_finetuned(model).settings.kind == "qa"
    _, info = AutoModelForQuestionAnswering.from_pretrained(model, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    predictor = load_predictor(model, torch.device("cpu"))
    records = read_records(given.dev, "squad", ["en"]).records
    assert len(predict(predictor.model, predictor.formulation, records, predictor.device)) == len(records)
