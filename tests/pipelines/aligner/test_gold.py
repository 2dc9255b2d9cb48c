"""Real sentence pairs: the aligner finds what people have linked."""

from __future__ import annotations

import pytest

from benchmarks.bench_aligner import judge_model, read_corpus, read_gold
from pipelines.aligner import AlignerConfig, train
from schemas.languages import LanguagePair


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("target, bound", [("fr", 0.105), ("hi", 0.45), ("ja", 0.53), ("zh", 0.245)])
def test_error_rate_after_training_on_two_thousand_pairs_and_the_gold_text(target: str, bound: float) -> None:
    pair = LanguagePair("en", target)
    gold = read_gold(pair)
    model = train(read_corpus(pair, 2000) + [item.words for item in gold], AlignerConfig())
    assert judge_model(model, gold).error_rate < bound


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("target, bound", [("fr", 0.11), ("hi", 0.45), ("ja", 0.55), ("zh", 0.26)])
def test_error_rate_on_text_that_a_model_of_two_thousand_pairs_adapts_to(target: str, bound: float) -> None:
    pair = LanguagePair("en", target)
    gold = read_gold(pair)
    model = train(read_corpus(pair, 2000), AlignerConfig())
    adapted = train([item.words for item in gold], AlignerConfig(), prior=model)
    assert judge_model(adapted, gold).error_rate < min(bound, judge_model(model, gold).error_rate - 0.02)
