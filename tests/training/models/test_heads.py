from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM
from transformers.models.splinter.modeling_splinter import QuestionAwareSpanSelectionHead, SplinterConfig

from training.data.batches import pack
from training.models.encoder import Encoder
from training.models.heads import MlmHead, SpanHead, WaeExtractor


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


@pytest.mark.parametrize("head", [SpanHead(64), SpanHead(64, deep=True), WaeExtractor(64, 128)])
def test_heads_begin_as_transformers_begins_its_own(head: torch.nn.Module) -> None:
    for module in head.modules():
        if isinstance(module, torch.nn.Linear):
            assert 0.018 < module.weight.std() < 0.022
            assert module.bias is None or not module.bias.any()


def test_no_question_and_no_masked_token_give_no_row(xlmr_folder: Path) -> None:
    none, x_TD = torch.empty(0, dtype=torch.int64), torch.randn(5, 32)
    assert SpanHead(32)(x_TD, none)[0].shape == (0, 5)
    model = AutoModelForMaskedLM.from_pretrained(xlmr_folder)
    assert MlmHead(model)(x_TD, none).shape == (0, model.config.vocab_size)
