from __future__ import annotations

from pathlib import Path

import pytest

from schemas.shards import read_examples
from tests.training.runs import DATA
from training.engine.run_setup import fingerprint
from training.methods.pretraining_tasks import CLISM, WAE
from training.models.tiny import tiny_model

COLUMNS = {"tiny_clism": CLISM.vocabulary_texts, "tiny_mpmr": WAE.vocabulary_texts}


@pytest.mark.parametrize("recipe", COLUMNS)
def test_the_same_datasets_and_seed_give_the_same_model_and_tokenizer(recipe: str) -> None:
    one, same, other = (tiny_model([str(DATA[recipe])], COLUMNS[recipe], seed) for seed in (0, 0, 1))
    assert one.tokenizer.backend_tokenizer.to_str() == same.tokenizer.backend_tokenizer.to_str()
    assert fingerprint(one.language_model) == fingerprint(same.language_model) != fingerprint(other.language_model)


def test_its_tokenizer_is_of_xlm_rs_form_and_reads_the_shards_texts() -> None:
    tokenizer = tiny_model([str(DATA["tiny_clism"])], CLISM.vocabulary_texts, seed=0).tokenizer
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert tokenizer.convert_tokens_to_ids(list(special)) == [0, 1, 2, 3, len(tokenizer) - 1]
    for example in read_examples(Path(DATA["tiny_clism"])):
        ids = tokenizer(example.target_text)["input_ids"]
        assert ids.count(tokenizer.unk_token_id) <= 1
