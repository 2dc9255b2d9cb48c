from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, BertConfig, BertForSequenceClassification, XLMRobertaConfig
from transformers.models.bert.modeling_bert import BertPooler
from transformers.models.splinter.modeling_splinter import QuestionAwareSpanSelectionHead, SplinterConfig
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaClassificationHead

from training.data.batches import pack
from training.models.encoder import Encoder
from training.models.heads import MlmHead, PairHead, QaHead, SpanHead, TagHead, WaeExtractor, task_head


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_linear_span_scores_are_the_papers_equations() -> None:
    head, x_TD, que_Q = SpanHead(6), torch.randn(5, 6), torch.tensor([3, 0])
    start_QT, end_QT = head(x_TD, que_Q)
    for scores_QT, boundary in ((start_QT, head.start), (end_QT, head.end)):
        W = boundary.weight.weight
        for q, que in enumerate(que_Q):
            s_q = W @ x_TD[que]  # equation 1
            for k in range(5):
                assert scores_QT[q, k].item() == pytest.approx((x_TD[k] @ s_q).item(), abs=1e-6)  # equations 2 and 3
    assert not torch.equal(start_QT, end_QT)
    assert len(list(head.parameters())) == 2


def test_deep_span_scores_are_splinters() -> None:
    head, splinter = SpanHead(6, deep=True), QuestionAwareSpanSelectionHead(SplinterConfig(hidden_size=6))
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    for side in ("start", "end"):
        boundary = getattr(head, side)
        for ours, theirs in ((boundary.question, f"query_{side}_transform"), (boundary.token, f"{side}_transform")):
            getattr(splinter, theirs).dense.load_state_dict(ours[0].state_dict())
            getattr(splinter, theirs).LayerNorm.load_state_dict(ours[2].state_dict())
        getattr(splinter, f"{side}_classifier").load_state_dict(boundary.weight.state_dict())
    x_TD, que_Q = torch.randn(5, 6), torch.tensor([3, 0])
    expected = splinter(x_TD.unsqueeze(0), que_Q.unsqueeze(0))
    for scores_QT, expected_1QT in zip(head(x_TD, que_Q), expected, strict=True):
        torch.testing.assert_close(scores_QT, expected_1QT.squeeze(0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("deep", [False, True])
def test_span_scores_are_fp32_under_autocast(deep: bool) -> None:
    """Equal to scores of the same representations without autocast, not to their bf16 neighbours."""
    head, x_TD, que_Q = SpanHead(64, deep), 4 * torch.randn(50, 64), torch.tensor([7])
    with torch.autocast("cpu", torch.bfloat16):
        start_QT, end_QT = head(x_TD.bfloat16(), que_Q)
        question_QD = head.start.question(x_TD.bfloat16()[que_Q]).float()
        token_TD = head.start.token(x_TD.bfloat16()).float()
    assert start_QT.dtype == end_QT.dtype == torch.float32
    expected_QT = (question_QD @ head.start.weight.weight.T) @ token_TD.T
    torch.testing.assert_close(start_QT, expected_QT, rtol=1e-5, atol=1e-5)
    assert not torch.equal(start_QT, start_QT.bfloat16().float())


def test_wae_factors_multiply_to_the_released_score() -> None:
    extractor, h_TD = WaeExtractor(6, inner_size=10, dropout=0.5).eval(), torch.randn(5, 6)
    for parameter in extractor.parameters():
        torch.nn.init.normal_(parameter)
    start_TD, end_TD = extractor(h_TD)

    def score(i: int, j: int) -> Tensor:
        inner = torch.nn.functional.gelu(extractor.inner.weight @ h_TD[j] + extractor.inner.bias)
        return h_TD[i] @ (extractor.outer.weight @ inner + extractor.outer.bias)

    expected_TT = torch.stack([torch.stack([score(i, j) for j in range(5)]) for i in range(5)])
    torch.testing.assert_close(start_TD @ end_TD.T, expected_TT, rtol=1e-5, atol=1e-5)


def test_wae_drops_out_the_ends_only_while_training() -> None:
    extractor, h_TD = WaeExtractor(6, inner_size=10, dropout=0.5), torch.randn(5, 6)
    (start_TD, end_TD), (again_TD, other_TD) = extractor(h_TD), extractor(h_TD)
    assert torch.equal(start_TD, again_TD) and not torch.equal(end_TD, other_TD)
    extractor.eval()
    assert torch.equal(extractor(h_TD)[1], extractor(h_TD)[1])


def test_wae_factors_are_fp32_under_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert {factor.dtype for factor in WaeExtractor(6)(torch.randn(5, 6).bfloat16())} == {torch.float32}


def test_mlm_head_is_the_pretrained_one_at_masked_places(xlmr_folder: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(xlmr_folder).eval()
    encoder, head = Encoder(model.base_model).eval(), MlmHead(model)
    inputs, masked_M = pack([range(5, 12), range(20, 24)]), torch.tensor([2, 8, 10])
    ids_NL, mask_NL = inputs.padded(1)
    expected_TV = model(input_ids=ids_NL, attention_mask=mask_NL).logits[mask_NL]
    logits_MV = head(encoder(inputs), masked_M)
    assert logits_MV.shape == (3, model.config.vocab_size)
    torch.testing.assert_close(logits_MV, expected_TV[masked_M], rtol=0, atol=1e-5)


def test_mlm_head_and_embedding_are_trained_as_one(xlmr_folder: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(xlmr_folder)
    both = torch.nn.ModuleList([Encoder(model.base_model), MlmHead(model)])
    assert {id(each) for each in both.parameters()} == {id(each) for each in model.parameters()}
    assert len(list(both.parameters())) == len(list(model.parameters()))


@pytest.mark.parametrize(
    "head",
    [
        *(SpanHead(64), SpanHead(64, deep=True), WaeExtractor(64, 128), QaHead(1024)),
        *(TagHead(512, "OBI"), PairHead(64, "x" * 64), PairHead(64, "x" * 64, family="bert")),
    ],
)
def test_heads_begin_as_transformers_begins_its_own(head: torch.nn.Module) -> None:
    for module in head.modules():
        if isinstance(module, torch.nn.Linear):
            assert 0.018 < module.weight.std() < 0.022
            assert module.bias is None or not module.bias.any()


def test_no_question_and_no_masked_token_give_no_row(xlmr_folder: Path) -> None:
    none, x_TD = torch.empty(0, dtype=torch.int64), torch.randn(5, 32)
    assert SpanHead(32)(x_TD, none)[0].shape == (0, 5)
    assert TagHead(32, "OBI")(x_TD, none).shape == PairHead(32, "abc")(x_TD, none).shape == (0, 3)
    model = AutoModelForMaskedLM.from_pretrained(xlmr_folder)
    assert MlmHead(model)(x_TD, none).shape == (0, model.config.vocab_size)


def test_question_scores_are_two_columns_of_one_layer() -> None:
    head, x_TD = QaHead(6), torch.randn(5, 6)
    start_T, end_T = head(x_TD)
    (start_D, end_D), bias = head.qa_outputs.weight, head.qa_outputs.bias
    torch.testing.assert_close(start_T, x_TD @ start_D + bias[0])
    torch.testing.assert_close(end_T, x_TD @ end_D + bias[1])


def test_tags_are_scored_at_the_words_places_behind_dropout() -> None:
    head, x_TD, words_W = TagHead(6, ("O", "B-X", "I-X"), dropout=0.5), torch.randn(5, 6), torch.tensor([3, 1])
    assert not torch.equal(head(x_TD, words_W), head(x_TD, words_W))
    expected_WC = x_TD[[3, 1]] @ head.classifier.weight.T + head.classifier.bias
    torch.testing.assert_close(head.eval()(x_TD, words_W), expected_WC)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("family", ["xlm-roberta", "bert"])
def test_pairs_are_scored_by_the_familys_own_head(family: str, training: bool) -> None:
    """With the same draws of dropout, too."""
    head, x_TD, cls_N = PairHead(6, "abc", 0.5, family).train(training), torch.randn(7, 6), torch.tensor([0, 4])
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    x_N1D = x_TD[cls_N].unsqueeze(1)
    if family == "bert":
        pooler, model = BertPooler(BertConfig(hidden_size=6)), BertForSequenceClassification(_small(BertConfig))
        pooler.load_state_dict(head.pooler.state_dict())
        model.classifier.load_state_dict(head.classifier.state_dict())
        model.train(training)
        torch.manual_seed(1)
        expected_NC = model.classifier(model.dropout(pooler(x_N1D)))
    else:
        theirs = XLMRobertaClassificationHead(_small(XLMRobertaConfig)).train(training)
        theirs.load_state_dict(head.classifier.state_dict())
        torch.manual_seed(1)
        expected_NC = theirs(x_N1D)
    torch.manual_seed(1)
    torch.testing.assert_close(head(x_TD, cls_N), expected_NC)


def _small(config: type[Any]) -> Any:
    sizes = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 6}
    return config(vocab_size=9, num_labels=3, classifier_dropout=0.5, **sizes)


@pytest.mark.parametrize("name", ["qa", "tags", "pairs"])
def test_scores_of_standard_heads_are_fp32_under_autocast(name: str) -> None:
    config = _small(BertConfig)
    head, x_TD = task_head(name, config, "abc").eval(), 8 * torch.randn(5, 6)
    places = [] if name == "qa" else [torch.arange(5)]
    with torch.autocast("cpu", torch.bfloat16):
        found = head(x_TD.bfloat16(), *places)
    expected = head(x_TD.bfloat16().float(), *places)
    for scores, exact in zip(found, expected, strict=True):
        assert scores.dtype == torch.float32 and torch.equal(scores, exact)


@pytest.mark.parametrize(("own", "expected"), [(None, 0.1), (0.25, 0.25), (0.0, 0.0)])
def test_standard_heads_drop_out_as_the_configuration_says(own: float | None, expected: float) -> None:
    config = _small(BertConfig)
    config.classifier_dropout = own
    assert task_head("tags", config, "abc").settings["dropout"] == expected
    assert task_head("pairs", config, "abc").settings["dropout"] == expected
