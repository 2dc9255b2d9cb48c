"""X-Mixup: mixes the representations of a translation into those of a text, in one layer (Yang et al., ICLR 2022).

Source and target go through the encoder apart. In one layer, the target's hidden states after self-attention attend to
the source's with the same weights, and the sum of both goes on:

    u_T, u_S           attention + residual of each text alone, before the norm; x = LN(u)
    c_T                MultiHead(x_T, x_S, x_S) + x_T                                      (equation 3)
    λ c_T + (1 − λ) u_T    → the layer's norm and feed-forward sublayer                    (equation 4)

λ = λ0 σ((H(A) + H(Aᵀ)) W + b) depends on the entropy of the alignment between x_T and x_S (equation 5). The source's
own states stay as they are. A pair whose two texts are the same, such as a record that is predicted without a
translation, is not mixed.

N pairs; T tokens of a batch, D hidden size, Q tokens of the targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from schemas.mrc import PairExample
from schemas.translations import Translation
from training.data.scheduled_sampling import takes_real_text
from training.methods.base import EncoderWithHeads, load_pretrained_heads
from training.methods.parallel import (
    Parallel,
    ParallelBatch,
    ParallelFeatures,
    aligned,
    by_record,
    side_outputs,
    without_lost_labels,
)
from training.models.attention import Bounds
from training.models.folder import Pretrained
from training.models.heads import MixingRatio
from training.objectives import Loss
from training.objectives.consistency import prediction_consistency, representation_consistency, sequence_means
from training.objectives.mixing import alignment_entropy
from training.objectives.self_teaching import self_teaching_loss
from training.tasks.files import Record


@dataclass(frozen=True)
class MixupBatch(ParallelBatch):
    """N pairs, with what mixing and consistency need."""

    mixed_N: Tensor  # float32: 1, or 0 where both sides are the same text
    is_text_T: Tensor  # bool: no special token


@dataclass(frozen=True)
class XMixupFormulation(Parallel):
    """Trains both sides with α-balanced losses (X-Mixup, equation 8) and the consistency losses (equation 7).

    `drawn_at`, seed and step, are those of a training batch, for scheduled sampling.
    """

    drawn_at: tuple[int, int] | None = field(default=None, kw_only=True)

    @property
    def weights(self) -> dict[str, float]:
        target = "teacher" if self.soft_labels is not None else "target"
        weights = {"source": self.method.alpha, target: 1.0 - self.method.alpha, **self.consistency_weights}
        return {name: weight for name, weight in weights.items() if weight}

    @property
    def consistency_weights(self) -> dict[str, float]:
        """Returns the weights of equation 7's consistency losses. Only pairs have both: a translation may have other
        answers and tags than the original, so that predictions need not be the same (4.2)."""
        return {"mse": self.method.mse_weight}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        mixing = load_pretrained_heads({"mixing": MixingRatio(self.method.max_ratio)}, start)
        return {**super().heads(start, seed), **mixing}

    # --- features and batches -----------------------------------------------------------------------------------------

    def training_features(self, records: Sequence[Record]) -> list[ParallelFeatures]:
        """Returns the features of `Parallel`, with those of translations back, for scheduled sampling (4.1)."""
        found = super().training_features(records)
        if not self.method.sampling_decay:
            return found
        grouped = groupby(found, key=lambda pair: (pair.record, pair.target_lang))
        groups = [(back_of(self, records[index], lang), list(pairs)) for (index, lang), pairs in grouped]
        backs = [back for back, _ in groups if back]
        windows = iter(by_record(without_lost_labels(self.plain.features([b.record() for b in backs])), len(backs)))
        return [pair for back, pairs in groups for pair in (with_back(pairs, back, next(windows)) if back else pairs)]

    def at_step(self, step: int, seed: int) -> XMixupFormulation:
        return replace(self, drawn_at=(seed, step))

    def batch(self, features: Sequence[ParallelFeatures]) -> MixupBatch:
        """Packs pairs. In a step of training, draws the source text of each (X-Mixup, equation 6)."""
        if self.drawn_at:
            features = [self._drawn(pair, *self.drawn_at) for pair in features]
        batch = super().batch(features)
        are_mixed = [not np.array_equal(pair.source.ids, pair.target.ids) for pair in features]
        return MixupBatch(
            **{each.name: getattr(batch, each.name) for each in fields(batch)},
            mixed_N=torch.tensor(are_mixed, dtype=torch.float32),
            is_text_T=~torch.isin(batch.inputs.ids_T, torch.tensor(sorted(self.encoder.special_ids))),
        )

    def _drawn(self, pair: ParallelFeatures, seed: int, step: int) -> ParallelFeatures:
        if pair.back is None or takes_real_text(seed, step, pair.record, self.method.sampling_decay):
            return pair
        return pair._replace(source=pair.back)

    # --- the encoder --------------------------------------------------------------------------------------------------

    def hidden(self, model: EncoderWithHeads, batch: Any) -> Tensor:
        """Returns the last layer's representations, (T, D), with the mixture in one layer (X-Mixup, 4.1)."""
        encoder, inputs = model.encoder, batch.inputs
        if not self.method.mixup or inputs.longest == 0:
            return encoder(inputs)
        layers = len(encoder.layers)
        mixed = self.method.layer_in(layers) - 1  # counted from 0
        hidden_TD = encoder.run(encoder.embed(inputs), 0, mixed, inputs.bounds_N1, inputs.longest)
        mix = partial(self._mix, model, mixed, batch)
        hidden_TD = encoder.run_mixed(hidden_TD, mixed, inputs.bounds_N1, inputs.longest, mix)
        return encoder.run(hidden_TD, mixed + 1, layers, inputs.bounds_N1, inputs.longest)

    def _mix(self, model: EncoderWithHeads, layer: int, batch: MixupBatch, sum_TD: Tensor, x_TD: Tensor) -> Tensor:
        """Returns λ c + (1 − λ) u for the targets, and u for the sources (X-Mixup, equations 3 and 4)."""
        longest, (source_N2, target_N2) = batch.inputs.longest, sides_of(batch)
        cross_QD = model.encoder.cross_attention(
            layer,
            x_TD[batch.target_T],
            Bounds(bounds_of(target_N2), longest),
            x_TD[batch.source_T],
            Bounds(bounds_of(source_N2), longest),
        )
        ratio_N = self.ratios(model, x_TD, batch)
        lengths_N = (target_N2[:, 1] - target_N2[:, 0]).long()
        ratio_Q = ratio_N.repeat_interleave(lengths_N, output_size=len(batch.target_T))  # a size needs no wait
        change_QD = ratio_Q.unsqueeze(1) * (cross_QD - sum_TD[batch.target_T])
        return sum_TD.index_add(0, batch.target_T, change_QD.to(sum_TD.dtype))

    def ratios(self, model: EncoderWithHeads, x_TD: Tensor, batch: MixupBatch) -> Tensor:
        """Returns λ of each pair, (N,), from the hidden states before the mixture; 0 for equal texts."""
        if self.method.ratio == "constant":
            return self.method.max_ratio * batch.mixed_N
        entropy_N = alignment_entropy(x_TD, *sides_of(batch), batch.inputs.longest)
        ratio_N: Tensor = model.heads["mixing"](entropy_N)
        return ratio_N * batch.mixed_N

    # --- losses -------------------------------------------------------------------------------------------------------

    def counts(self, batch: MixupBatch) -> dict[str, int | Tensor]:
        pairs = len(batch.example_ids)
        counts: dict[str, int | Tensor] = {
            "source": self.labelled(batch.source),
            "target": self.labelled(batch.target),
            "teacher": batch.soft[0].shape[0] if batch.soft else 0,
            "mse": pairs,
            "kl": pairs,
        }
        return {name: counts[name] for name in self.weights}

    def losses(self, model: EncoderWithHeads, batch: MixupBatch, shared: Any) -> dict[str, Loss]:
        hidden_TD = self.hidden(model, batch)
        source, target = self.side_scores(model, hidden_TD, batch)
        losses = self.task_losses(batch, source, target)
        if "teacher" in self.weights:
            losses["teacher"] = self_teaching_loss(target, batch.soft)
        if "mse" in self.weights:
            means_ND = sequence_means(hidden_TD, batch.inputs.bounds_N1, batch.is_text_T)
            losses["mse"] = representation_consistency(means_ND[::2], means_ND[1::2])
        if "kl" in self.weights:
            losses["kl"] = prediction_consistency(*source, *target)
        return {name: losses[name] for name in self.weights}


class XMixupQuestions(XMixupFormulation):
    kind = "qa"


class XMixupTags(XMixupFormulation):
    kind = "tagging"


class XMixupPairs(XMixupFormulation):
    kind = "pairs"

    @property
    def consistency_weights(self) -> dict[str, float]:
        return {**super().consistency_weights, "kl": self.method.kl_weight}

    def outputs(self, model: EncoderWithHeads, batch: ParallelBatch) -> list[Any]:
        """Returns the mean of P(label) of both sides (X-Mixup, 4.3; decision 30)."""
        return side_outputs(self, self.scores(model, batch), batch, "both")


def back_of(method: XMixupFormulation, record: Record, target_lang: str) -> Translation | None:
    """Returns the translation back of a record's translation into `target_lang`, or None. Of a pair it has the record's
    label, which translation does not change (4.2)."""
    there = method.translations.of(record)[target_lang]
    back = method.translations.of(there.record()).get(method.method.source_lang)
    if back is not None and isinstance(record, PairExample):
        return replace(back, labels="known" if record.label else "unknown", score=None, label=record.label)
    return back


def with_back(
    pairs: Sequence[ParallelFeatures], back: Translation, windows: Sequence[Any]
) -> Sequence[ParallelFeatures]:
    """Adds the windows of the translation back to a record's pairs in one language, spread evenly over them."""
    if back.labels == "unknown":
        windows = [window.without_labels() for window in windows]
    return [pair._replace(back=window) for window, pair in aligned(windows, pairs, len(pairs))] or pairs


def sides_of(batch: ParallelBatch) -> tuple[Tensor, Tensor]:
    """Returns [start, end) of each source and of each target in the tokens of `inputs`, (N, 2) each."""
    ranges = torch.stack([batch.inputs.bounds_N1[:-1], batch.inputs.bounds_N1[1:]], dim=1)
    return ranges[::2], ranges[1::2]


def bounds_of(ranges_N2: Tensor) -> Tensor:
    """Returns the bounds of these sequences once they are packed without the others, (N + 1,) int32."""
    lengths_N = ranges_N2[:, 1] - ranges_N2[:, 0]
    return torch.nn.functional.pad(lengths_N.cumsum(0), (1, 0)).int()
