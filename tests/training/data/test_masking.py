from __future__ import annotations

import numpy as np
import pytest

from tests.training.data.made import features
from training.data.masking import Mlm, mask_tokens, mlm_for, unmasked
from training.runtime import stateless_random

SPECIAL = (0, 1, 2, 3, 4, 5)
MLM = Mlm(mask_id=4, vocabulary=50_000, special_ids=SPECIAL)


def test_everything_but_special_tokens_que_and_answers_may_be_hidden():
    example = features(source=4, target=5)  # <s> [QUE] 100 101 102 </s></s> 103 104 105 106 107 </s>; 103 104 answer
    masked = mask_tokens(example, Mlm(4, 50_000, SPECIAL, rate=1.0), key=1)
    assert masked.places.tolist() == [2, 3, 4, 9, 10, 11]
    assert masked.labels.tolist() == [100, 101, 102, 105, 106, 107]


def test_a_special_token_within_the_text_is_not_hidden():
    example = features()
    example = example._replace(ids=(*example.ids[:2], 3, *example.ids[3:]))  # <unk>
    assert mask_tokens(example, Mlm(4, 50_000, SPECIAL, rate=1.0), key=1).places.tolist() == [3, 4, 9, 10, 11]


def test_15_percent_are_predicted_of_which_80_are_masked_and_10_replaced():
    example = features(source=20_000, target=20_000, first_token=6)
    masked = mask_tokens(example, MLM, key=stateless_random.key(1, 2))
    now = masked.ids[masked.places]
    kept, hidden = now == masked.labels, now == 4
    replaced = now[~kept & ~hidden]
    assert len(masked.places) == pytest.approx(0.15 * 40_000, rel=0.05)
    assert hidden.mean() == pytest.approx(0.8, abs=0.02)
    assert kept.mean() == pytest.approx(0.1, abs=0.02)
    assert len(replaced) / len(now) == pytest.approx(0.1, abs=0.02)
    assert replaced.min() >= 6 and replaced.max() < 50_000
    assert np.histogram(replaced, 4, (6, 50_000))[0] == pytest.approx(len(replaced) / 4, rel=0.25)
    untouched = np.setdiff1d(np.arange(len(example.ids)), masked.places)
    assert (masked.ids[untouched] == np.array(example.ids)[untouched]).all()


def test_masks_follow_from_the_key_alone():
    example = features(source=100, target=100)
    first = mask_tokens(example, MLM, key=7)
    mask_tokens(example, MLM, key=8)
    again, other = mask_tokens(example, MLM, key=7), mask_tokens(example, MLM, key=8)
    assert again.ids.tolist() == first.ids.tolist() and again.places.tolist() == first.places.tolist()
    assert other.places.tolist() != first.places.tolist()


def test_masks_are_those_of_the_first_release():
    # A run that resumes under a later version must see the same masks.
    assert mask_tokens(features(source=20, target=20), MLM, key=7).places.tolist() == [8, 10, 26, 31, 36]


def test_without_mlm_nothing_is_hidden():
    masked = unmasked(features())
    assert masked.ids.tolist() == list(features().ids) and not len(masked.places) and not len(masked.labels)


def test_a_tokenizers_rule_spares_its_special_tokens(encoder):
    mlm = mlm_for(encoder)
    assert {encoder.que_id, encoder.mask_id, *encoder.tokenizer.all_special_ids} <= set(mlm.special_ids)
    assert mlm.vocabulary == len(encoder.tokenizer)
    assert len(mlm.ordinary_ids) == mlm.vocabulary - len(mlm.special_ids)
