from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from transformers import (
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaXLConfig,
    XLMRobertaXLModel,
)

from schemas.errors import ConfigError
from training.data.batches import Packed, pack
from training.models.attention import _kernel_takes
from training.models.encoder import Encoder

SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
BUILD: dict[str, Callable[[], torch.nn.Module]] = {
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**SIZES), add_pooling_layer=False),
    "roberta": lambda: RobertaModel(RobertaConfig(**SIZES), add_pooling_layer=False),
    "bert": lambda: BertModel(BertConfig(**SIZES), add_pooling_layer=False),
    "xlm-roberta-xl": lambda: XLMRobertaXLModel(XLMRobertaXLConfig(**SIZES), add_pooling_layer=False),
    "deberta-v3": lambda: deberta(),
    "deberta-v2-xlarge": lambda: deberta(conv_kernel_size=3, conv_act="gelu"),
    "deberta-v2 of other settings": lambda: deberta(
        share_att_key=False,
        position_buckets=-1,
        max_relative_positions=20,
        norm_rel_ebd="none",
        position_biased_input=True,
        type_vocab_size=2,
    ),
    "deberta-v2 of one product": lambda: deberta(pos_att_type=["c2p"], conv_kernel_size=5, conv_act="tanh"),
}


def deberta(**changes: Any) -> DebertaV2Model:
    """A small model with the other settings of microsoft/mdeberta-v3-base. With 16 buckets, differences of more than 8
    tokens share a row."""
    settings = {
        "relative_attention": True,
        "pos_att_type": "p2c|c2p",
        "share_att_key": True,
        "position_buckets": 16,
        "max_relative_positions": -1,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
    }
    return DebertaV2Model(DebertaV2Config(**SIZES, **(settings | changes)))


def encoder_of(family: str = "xlm-roberta") -> Encoder:
    torch.manual_seed(0)
    return Encoder(BUILD[family]()).eval()


def sequences(*lengths: int, seed: int = 0) -> Packed:
    generator = torch.Generator().manual_seed(seed)
    return pack([torch.randint(5, 100, (length,), generator=generator).numpy() for length in lengths])


def gradients(encoder: Encoder, hidden_TD: Tensor) -> dict[str, Tensor]:
    """Of a loss that weighs every number of the output differently."""
    weights_TD = torch.linspace(-1, 1, hidden_TD.numel()).view_as(hidden_TD)
    encoder.zero_grad()
    (hidden_TD * weights_TD).sum().backward()
    return {name: each.grad.clone() for name, each in encoder.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("family", BUILD)
@pytest.mark.parametrize("lengths", [(7,), (5, 5, 5), (9, 3, 30, 3, 1, 9, 64)])
def test_packed_equals_padded_forward_and_gradient(family: str, lengths: tuple[int, ...]) -> None:
    encoder, inputs = encoder_of(family), sequences(*lengths)
    packed_TD, padded_TD = encoder(inputs), encoder.padded(inputs)
    assert packed_TD.shape == (sum(lengths), 32)
    torch.testing.assert_close(packed_TD, padded_TD, rtol=0, atol=1e-5)
    packed, padded = gradients(encoder, packed_TD), gradients(encoder, padded_TD)
    assert packed.keys() == padded.keys() == dict(encoder.named_parameters()).keys()
    for name, gradient in padded.items():
        torch.testing.assert_close(packed[name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_one_sequence_equals_the_models_own_forward_to_the_bit() -> None:
    encoder, inputs = encoder_of(), sequences(12)
    assert torch.equal(encoder(inputs), encoder.padded(inputs))


@pytest.mark.parametrize("family", BUILD)
def test_a_sequence_is_encoded_alike_in_any_company(family: str) -> None:
    encoder, together = encoder_of(family), sequences(6, 11, 6, 40)
    for start, end in itertools.pairwise(together.bounds_N1.tolist()):
        alone = pack([together.ids_T[start:end].numpy()])
        torch.testing.assert_close(encoder(together)[start:end], encoder(alone), rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", BUILD)
def test_changing_a_sequence_changes_no_other(family: str) -> None:
    encoder, inputs = encoder_of(family), sequences(6, 11, 6, 40)
    changed_T = inputs.ids_T.clone()
    changed_T[6:17] = 99
    changed = Packed(changed_T, inputs.positions_T, inputs.bounds_N1, inputs.longest)
    before_TD, after_TD = encoder(inputs), encoder(changed)
    same_T = (before_TD == after_TD).all(dim=1)
    assert same_T.tolist() == [True] * 6 + [False] * 11 + [True] * 46


@pytest.mark.parametrize("family", BUILD)
def test_no_gradient_crosses_a_bound(family: str) -> None:
    encoder, inputs = encoder_of(family), sequences(4, 9, 4)
    hidden_TD = encoder.embed(inputs).detach().requires_grad_()
    encoder.run(hidden_TD, 0, 3, inputs.bounds_N1, inputs.longest)[4:13].square().sum().backward()
    assert hidden_TD.grad is not None
    assert hidden_TD.grad.abs().sum(dim=1).bool().tolist() == [False] * 4 + [True] * 9 + [False] * 4


@pytest.mark.parametrize("family", BUILD)
def test_layers_run_one_by_one_as_at_once(family: str) -> None:
    encoder, inputs = encoder_of(family), sequences(6, 11, 6)
    hidden_TD = encoder.embed(inputs)
    for layer in range(len(encoder.layers)):
        hidden_TD = encoder.run(hidden_TD, layer, layer + 1, inputs.bounds_N1, inputs.longest)
    assert torch.equal(hidden_TD, encoder(inputs))
    assert torch.equal(encoder.run(hidden_TD, 3, 3, inputs.bounds_N1, inputs.longest), hidden_TD)


@pytest.mark.parametrize("family", BUILD)
def test_layers_may_have_bounds_of_their_own(family: str) -> None:
    """FILTER's encoder: sentences apart, then pairs together. The oracle is the model's own encoder, without its first
    layer, over each concatenation."""
    encoder, inputs = encoder_of(family), sequences(6, 11, 8, 30)
    pairs_N1 = inputs.bounds_N1[::2].contiguous()
    apart_TD = encoder.run(encoder.embed(inputs), 0, 1, inputs.bounds_N1, inputs.longest)
    together_TD = encoder.run(apart_TD, 1, 3, pairs_N1, 38)
    rest = copy.deepcopy(encoder.model.encoder)
    rest.layer, rest.conv = rest.layer[1:], None
    for start, end in itertools.pairwise(pairs_N1.tolist()):
        mask = torch.ones(1, end - start) if family.startswith("deberta") else None
        expected_1LD = rest(apart_TD[start:end].unsqueeze(0), attention_mask=mask).last_hidden_state
        torch.testing.assert_close(together_TD[start:end], expected_1LD.squeeze(0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", BUILD)
def test_no_sequence_at_all_gives_no_row_and_gradients_of_zero(family: str) -> None:
    encoder = encoder_of(family)
    hidden_TD = encoder(sequences())
    assert hidden_TD.shape == (0, 32)
    assert all(not gradient.any() for gradient in gradients(encoder, hidden_TD).values())


@pytest.mark.parametrize("family", ["xlm-roberta", "xlm-roberta-xl", "deberta-v3"])
def test_checkpointed_activations_keep_less_and_change_nothing(family: str) -> None:
    inputs, found = sequences(6, 11, 6), []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        encoder = Encoder(BUILD[family](), checkpointed).train()
        kept: list[int] = []
        torch.manual_seed(1)  # the same dropout
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: (kept.append(x.numel()), x)[1], lambda x: x):
            hidden_TD = encoder(inputs)
        found.append((hidden_TD.detach(), gradients(encoder, hidden_TD), sum(kept)))
    (plain_TD, plain, numbers), (again_TD, again, fewer_numbers) = found
    assert torch.equal(plain_TD, again_TD)
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert fewer_numbers < numbers / 2


def test_training_drops_out_by_the_seed_and_evaluation_does_not() -> None:
    encoder, inputs = encoder_of(), sequences(6, 11)
    settled_TD = encoder(inputs)
    encoder.train()
    torch.manual_seed(1)
    first_TD = encoder(inputs)
    torch.manual_seed(1)
    assert torch.equal(encoder(inputs), first_TD)
    torch.manual_seed(2)
    assert not torch.equal(encoder(inputs), first_TD)
    assert not torch.equal(settled_TD, first_TD)


def test_packed_attention_has_no_dropout_of_probabilities() -> None:
    config = XLMRobertaConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)
    encoder, inputs = Encoder(XLMRobertaModel(config, add_pooling_layer=False)), sequences(6, 11)
    encoder.train()
    assert torch.equal(encoder(inputs), encoder(inputs))
    assert not torch.equal(encoder.padded(inputs), encoder.padded(inputs))


def test_a_sequence_beyond_the_last_position_is_refused() -> None:
    encoder = encoder_of()
    assert encoder.max_tokens == 64
    with pytest.raises(ConfigError, match="has 65 tokens, but this encoder has positions for 64"):
        encoder(sequences(65))


def test_the_sizes_of_relative_positions_are_known() -> None:
    assert (encoder_of().positions, encoder_of().position_products) == (0, ())
    assert (encoder_of("deberta-v3").positions, encoder_of("deberta-v3").position_products) == (32, ("p2c", "c2p"))
    assert encoder_of("deberta-v2 of other settings").positions == 40


def test_other_architectures_are_refused() -> None:
    from transformers import DistilBertConfig, DistilBertModel

    model = DistilBertModel(DistilBertConfig(vocab_size=10, dim=8, n_heads=2, n_layers=1, hidden_dim=8))
    with pytest.raises(ConfigError, match="model_type 'distilbert'"):
        Encoder(model)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # inside torch.compile
def test_compiled_layers_give_what_plain_ones_give() -> None:
    encoder, inputs = encoder_of(), sequences(6, 11, 6)
    plain_TD = encoder(inputs).detach()
    torch._dynamo.reset()
    for layer in encoder.layers:
        layer.compile(backend="eager", dynamic=True)
    torch.testing.assert_close(encoder(inputs), plain_TD, rtol=0, atol=1e-6)
    other = sequences(3, 20, 4)
    torch.testing.assert_close(encoder(other), encoder.padded(other), rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # inside torch.compile
def test_compiled_layers_are_compiled_once_for_batches_of_any_shape() -> None:
    torch._dynamo.reset()
    encoder, compiler = encoder_of().train(), CompileCounter()
    for layer in encoder.layers:
        layer.compile(backend=compiler, dynamic=True)
    compiled = []
    for lengths in ((6, 11, 6), (3, 20, 4, 9), (30, 2), (7, 8, 9, 10, 11, 12)):
        encoder(sequences(*lengths)).sum().backward()
        compiled.append(compiler.frame_count)
    assert compiled == compiled[:1] * 4


def test_from_pretrained_reads_the_encoder_of_a_masked_language_model(xlmr_folder: Path) -> None:
    from transformers import AutoModelForMaskedLM

    encoder, inputs = Encoder.from_pretrained(xlmr_folder).eval(), sequences(6)
    own = AutoModelForMaskedLM.from_pretrained(xlmr_folder).eval().base_model
    assert torch.equal(encoder(inputs), own(inputs.ids_T.unsqueeze(0)).last_hidden_state.squeeze(0))


def test_the_kernel_for_gpus_is_called_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch's varlen_attn, which runs on GPUs only. It reads (T, heads, width) and int32 bounds."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, bounds_q: Tensor, bounds_k: Tensor, max_q: int, max_k: int) -> Tensor:
        assert q.shape == k.shape == v.shape == (23, 2, 16)
        assert bounds_q.dtype == bounds_k.dtype == torch.int32
        assert max_q == max_k == 11
        outs = []
        for start, end in itertools.pairwise(bounds_q.tolist()):
            weights_HLL = torch.einsum("qhk,phk->hqp", q[start:end], k[start:end]).div(16**0.5).softmax(dim=-1)
            outs.append(torch.einsum("hqp,phk->qhk", weights_HLL, v[start:end]))
        return torch.cat(outs)

    encoder, inputs = encoder_of(), sequences(6, 11, 6)
    expected_TD = encoder(inputs)
    monkeypatch.setattr("training.models.attention._kernel_takes", lambda _: True)
    monkeypatch.setattr("training.models.attention.varlen_attn", kernel)
    torch.testing.assert_close(encoder(inputs), expected_TD, rtol=0, atol=1e-5)
    monkeypatch.undo()
    assert not _kernel_takes(torch.zeros(1, 2, 3, 16, dtype=torch.bfloat16))  # not on a CPU
