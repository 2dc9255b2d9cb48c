from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from schemas.errors import InputError
from schemas.mrc import PairExample
from training.data.pair_features import pair_features
from training.data.tokens import TextEncoder
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import Plain

from .conftest import TEXTS
from .sentences import LONG

PAIRS = InferenceSettings(Plain(), "pairs", ("no", "yes"), max_tokens=24)


@pytest.mark.parametrize("max_tokens", [5, 8, 15, 16, 24, 25, 40, 500])
def test_pairs_are_cut_as_hugging_faces_tokenizer_cuts_them(
    max_tokens: int, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    texts = ["Anna", *[LONG[lang] for lang in ("en", "zh", "ar")], TEXTS["hi"]]
    records = [PairExample("p", "en", first, second, "yes", "xnli") for first in ["", *texts] for second in texts]
    features = pair_features(records, encoder, replace(PAIRS, max_tokens=max_tokens))
    for at, (record, found) in enumerate(zip(records, features, strict=True)):
        theirs = tokenizer(record.sentence1, record.sentence2, truncation=True, max_length=max_tokens).input_ids
        assert found.ids.tolist() == theirs
        assert found.ids.dtype == np.int32
        assert found.record == at
        longer = len(tokenizer(record.sentence1, record.sentence2).input_ids) > max_tokens
        assert found.notes == (("truncated_pair",) if longer else ())


def test_labels_of_pairs_are_numbered(encoder: TextEncoder) -> None:
    labels = ["yes", None, "no"]
    found = pair_features([PairExample("p", "en", "a", "b", label, "xnli") for label in labels], encoder, PAIRS)
    assert [each.label for each in found] == [1, -1, 0]
    with pytest.raises(InputError, match="p: expected a label of no, yes, found maybe"):
        pair_features([PairExample("p", "en", "a", "b", "maybe", "xnli")], encoder, PAIRS)
