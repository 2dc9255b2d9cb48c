"""One layer in parts, as X-Mixup needs it. The oracle is the paper's text (section 4.1, equations 2 to 4 and 9 to 11),
dense and in float64, over padded sentences with padding masked out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from tests.training.models.test_encoder import BUILD, encoder_of, gradients, sequences
from training.data.batches import Packed
from training.models.attention import Bounds
from training.models.encoder import Encoder, Mix

TARGETS, SOURCES = (6, 11, 6, 3), (8, 5, 5, 20)


def packed_pairs() -> tuple[Packed, Bounds, Bounds]:
    """All targets, then all their sources, in one pack; and the bounds of each side by itself."""
    targets, sources = sequences(*TARGETS), sequences(*SOURCES)
    return (
        sequences(*TARGETS, *SOURCES),
        Bounds(targets.bounds_N1, targets.longest),
        Bounds(sources.bounds_N1, sources.longest),
    )


def mix_of(encoder: Encoder, layer: int, ratio: float) -> Mix:
    _, targets, sources = packed_pairs()

    def mix(sum_TD: Tensor, hidden_TD: Tensor) -> Tensor:
        side_TD, source_TD = hidden_TD.split([sum(TARGETS), sum(SOURCES)])
        cross_TD = encoder.cross_attention(layer, side_TD, targets, source_TD, sources)
        mixed_TD = ratio * cross_TD + (1 - ratio) * sum_TD[: sum(TARGETS)]
        return torch.cat([mixed_TD, sum_TD[sum(TARGETS) :]])

    return mix


def mixed_output(encoder: Encoder, ratio: float, layer: int = 1) -> Tensor:
    inputs, _, _ = packed_pairs()
    hidden_TD = encoder.run(encoder.embed(inputs), 0, layer, inputs.bounds_N1, inputs.longest)
    hidden_TD = encoder.run_mixed(hidden_TD, layer, inputs.bounds_N1, inputs.longest, mix_of(encoder, layer, ratio))
    return encoder.run(hidden_TD, layer + 1, len(encoder.layers), inputs.bounds_N1, inputs.longest)


@pytest.mark.parametrize("family", BUILD)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_ratio_of_zero_gives_the_plain_encoder(family: str, layer: int) -> None:
    encoder = encoder_of(family)
    inputs, _, _ = packed_pairs()
    plain_TD, mixed_TD = encoder(inputs), mixed_output(encoder, 0.0, layer)
    assert torch.equal(plain_TD, mixed_TD)
    plain, mixed = gradients(encoder, plain_TD), gradients(encoder, mixed_TD)
    for name, gradient in plain.items():
        torch.testing.assert_close(mixed[name], gradient, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("family", ["xlm-roberta", "roberta", "bert", "xlm-roberta-xl", "deberta-v3"])
def test_a_mixed_layer_is_what_the_paper_describes(family: str) -> None:
    encoder = encoder_of(family).double()
    inputs, _, _ = packed_pairs()
    found_TD = encoder.run(encoder.embed(inputs), 0, 1, inputs.bounds_N1, inputs.longest)
    layer = PreNormPaper(encoder) if family == "xlm-roberta-xl" else Paper(encoder)
    mixed_TD = encoder.run_mixed(found_TD, 1, inputs.bounds_N1, inputs.longest, mix_of(encoder, 1, 0.3))

    torch.testing.assert_close(mixed_TD, layer.output(found_TD, ratio=0.3), rtol=0, atol=1e-12)


class Paper:
    """The layer of section 4.1 over padded targets and sources, from the weights of the second layer alone."""

    def __init__(self, encoder: Encoder) -> None:
        self.model, self.layer = encoder.model, encoder.layers[1]

    def output(self, hidden_TD: Tensor, ratio: float) -> Tensor:
        target_TD, source_TD = hidden_TD.split([sum(TARGETS), sum(SOURCES)])
        (h_T, mask_T), (h_S, mask_S) = padded(target_TD, TARGETS), padded(source_TD, SOURCES)
        u_T, u_S = h_T + self.multi_head(h_T, h_T, mask_T), h_S + self.multi_head(h_S, h_S, mask_S)  # (2)
        x_T, x_S = self.norm(u_T), self.norm(u_S)
        c_T = x_T + self.multi_head(x_T, x_S, mask_S)  # (3)
        x_T = self.norm(ratio * c_T + (1 - ratio) * u_T)  # (4)
        return torch.cat([self.feed_forward(x_T)[mask_T], self.feed_forward(x_S)[mask_S]])

    def norm(self, u: Tensor) -> Tensor:
        return normed(self.layer.attention.output.LayerNorm, u)

    def feed_forward(self, x: Tensor) -> Tensor:
        return normed(self.layer.output.LayerNorm, x + self.inner(x))

    def inner(self, x: Tensor) -> Tensor:
        return affine(self.layer.output.dense, gelu(affine(self.layer.intermediate.dense, x)))

    def multi_head(self, query_NLD: Tensor, key_NMD: Tensor, mask_NM: Tensor) -> Tensor:
        """MultiHead(Q, K, V) with V = K (equations 9 to 11), head by head."""
        own, width, heads = self.layer.attention.self, 16, []
        names = ("query_proj", "key_proj", "value_proj") if hasattr(own, "query_proj") else ("query", "key", "value")
        to_query, to_key, to_value = (getattr(own, name) for name in names)
        queries, keys, values = affine(to_query, query_NLD), affine(to_key, key_NMD), affine(to_value, key_NMD)
        for start in range(0, 32, width):
            q, k, v = (each[..., start : start + width] for each in (queries, keys, values))
            if hasattr(own, "query_proj"):
                scores_NLM = self.disentangled(q, k, start, to_query, to_key)
            else:
                scores_NLM = q @ k.transpose(1, 2) / math.sqrt(width)
            scores_NLM = scores_NLM.masked_fill(~mask_NM.unsqueeze(1), -math.inf)
            heads.append(scores_NLM.exp() / scores_NLM.exp().sum(dim=2, keepdim=True) @ v)
        return affine(self.layer.attention.output.dense, torch.cat(heads, dim=2))

    def disentangled(self, q_NLK: Tensor, k_NMK: Tensor, start: int, to_query: Any, to_key: Any) -> Tensor:
        """DeBERTa's scores (He et al. 2021, equation 4), with positions in 16 buckets and the weights of content."""
        own = self.model.encoder
        positions_RD = normed(own.LayerNorm, own.rel_embeddings.weight)
        r_query, r_key = (affine(layer, positions_RD)[:, start : start + 16] for layer in (to_query, to_key))
        scores_NLM = q_NLK @ k_NMK.transpose(1, 2)
        for i, j in itertools.product(range(q_NLK.shape[1]), range(k_NMK.shape[1])):
            row = 16 + bucket(i - j)
            scores_NLM[:, i, j] += q_NLK[:, i] @ r_key[row] + k_NMK[:, j] @ r_query[row]
        return scores_NLM / math.sqrt(3 * 16)


class PreNormPaper(Paper):
    """The same mixture in XLM-R XL, whose sublayers normalize what they read and nothing else."""

    def norm(self, u: Tensor) -> Tensor:
        return u

    def feed_forward(self, x: Tensor) -> Tensor:
        return x + self.inner(normed(self.layer.LayerNorm, x))

    def multi_head(self, query_NLD: Tensor, key_NMD: Tensor, mask_NM: Tensor) -> Tensor:
        norm = self.layer.attention.self_attn_layer_norm
        return super().multi_head(normed(norm, query_NLD), normed(norm, key_NMD), mask_NM)


def bucket(difference: int, middle: int = 8, most: int = 66) -> int:
    """Up to 8 tokens away the difference itself, further away its logarithm."""
    if abs(difference) <= middle:
        return difference
    share = math.log(abs(difference) / middle) / math.log((most - 1) / middle)
    return int(math.copysign(math.ceil(share * (middle - 1)) + middle, difference))


def padded(hidden_TD: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    hidden_NLD = hidden_TD.new_full((len(lengths), max(lengths), 32), 7.0)
    mask_NL = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    hidden_NLD[mask_NL] = hidden_TD
    return hidden_NLD, mask_NL


def affine(layer: Any, x: Tensor) -> Tensor:
    return x @ layer.weight.T + layer.bias


def normed(norm: Any, x: Tensor) -> Tensor:
    return layer_norm(x, (32,), norm.weight, norm.bias, norm.eps)


@pytest.mark.parametrize("family", BUILD)
def test_mixing_reaches_each_target_from_its_own_source_only(family: str) -> None:
    encoder = encoder_of(family)
    inputs, _, _ = packed_pairs()
    hidden_TD = encoder.embed(inputs).detach().requires_grad_()
    mixed_TD = encoder.run_mixed(hidden_TD, 0, inputs.bounds_N1, inputs.longest, mix_of(encoder, 0, 0.5))
    mixed_TD[6:17].square().sum().backward()  # the second target
    assert hidden_TD.grad is not None
    reached = [bool(hidden_TD.grad[start:end].any()) for start, end in itertools.pairwise(inputs.bounds_N1.tolist())]
    assert reached == [False, True, False, False, False, True, False, False]


@pytest.mark.parametrize("family", BUILD)
def test_attention_on_oneself_by_two_bounds_is_self_attention(family: str) -> None:
    """Cross-attention of the same tokens reads what self-attention reads: in a post-norm layer they are equal."""
    encoder, inputs = encoder_of(family), sequences(*TARGETS)
    hidden_TD, bounds = encoder.embed(inputs), Bounds(inputs.bounds_N1, inputs.longest)
    cross_TD = encoder.cross_attention(0, hidden_TD, bounds, hidden_TD, bounds)

    def as_it_is(sum_TD: Tensor, _: Tensor) -> Tensor:
        torch.testing.assert_close(sum_TD, cross_TD, rtol=0, atol=1e-6)
        return sum_TD

    encoder.run_mixed(hidden_TD, 0, inputs.bounds_N1, inputs.longest, as_it_is)


@pytest.mark.parametrize("family", BUILD)
def test_a_mixed_layer_may_keep_its_input_only(family: str) -> None:
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        encoder = Encoder(BUILD[family](), checkpointed).train()
        torch.manual_seed(1)  # the same dropout
        mixed_TD = mixed_output(encoder, 0.3)
        found.append((mixed_TD.detach(), gradients(encoder, mixed_TD)))
    (plain_TD, plain), (again_TD, again) = found
    assert torch.equal(plain_TD, again_TD)
    assert all(torch.equal(plain[name], again[name]) for name in plain)


def test_cross_attention_drops_out_as_the_layer_does() -> None:
    encoder = encoder_of().train()
    torch.manual_seed(1)
    first_TD = mixed_output(encoder, 0.3)
    torch.manual_seed(1)
    assert torch.equal(mixed_output(encoder, 0.3), first_TD)
    _, targets, sources = packed_pairs()
    query_TD, key_TD = torch.randn(sum(TARGETS), 32), torch.randn(sum(SOURCES), 32)
    crossed = [encoder.cross_attention(0, query_TD, targets, key_TD, sources) - query_TD for _ in range(2)]
    assert 0.05 < (crossed[0] == 0).double().mean() < 0.15
    assert not torch.equal(*crossed)


def test_the_kernel_for_gpus_gets_the_bounds_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch's varlen_attn, which runs on GPUs only."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, bounds_q: Tensor, bounds_k: Tensor, max_q: int, max_k: int) -> Tensor:
        assert bounds_q.dtype == bounds_k.dtype == torch.int32
        assert (max_q, max_k) == (11, 20)
        outs = []
        for (start, end), (first, last) in zip(
            itertools.pairwise(bounds_q.tolist()), itertools.pairwise(bounds_k.tolist()), strict=True
        ):
            weights_HLM = torch.einsum("qhk,phk->hqp", q[start:end], k[first:last]).div(16**0.5).softmax(dim=-1)
            outs.append(torch.einsum("hqp,phk->qhk", weights_HLM, v[first:last]))
        return torch.cat(outs)

    encoder = encoder_of()
    _, targets, sources = packed_pairs()
    query_TD, key_TD = torch.randn(sum(TARGETS), 32), torch.randn(sum(SOURCES), 32)
    expected_TD = encoder.cross_attention(0, query_TD, targets, key_TD, sources)
    monkeypatch.setattr("training.models.attention._kernel_takes", lambda _: True)
    monkeypatch.setattr("training.models.attention.varlen_attn", kernel)
    crossed_TD = encoder.cross_attention(0, query_TD, targets, key_TD, sources)
    torch.testing.assert_close(crossed_TD, expected_TD, rtol=0, atol=1e-5)
