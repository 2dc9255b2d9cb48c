"""FILTER: fuses a text with its translation in the encoder's middle layers (Fang et al., AAAI 2021).

Of L layers, the first m read each text alone, the next k read both texts together, and the rest read each alone again.
Positions begin anew in each text. The packed batch stays the same; only the bounds of what sees what change:

    layers          bounds
    0 … m           <s> a b </s> | <s> x y </s> | <s> c </s> | <s> z </s>      texts
    m … m + k       <s> a b </s>   <s> x y </s> | <s> c </s>   <s> z </s>      pairs
    m + k … L       <s> a b </s> | <s> x y </s> | <s> c </s> | <s> z </s>      texts

m = L, k = 0 is translate-train, and m = 0, k = L is the concatenation of both texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from training.methods.base import EncoderWithHeads
from training.methods.parallel import Parallel, ParallelBatch, side_outputs
from training.objectives import Loss
from training.objectives.self_teaching import self_teaching_loss


@dataclass(frozen=True)
class FilterFormulation(Parallel):
    """Trains both sides with their labels (FILTER, equation 4), and a student also with its teacher's probabilities of
    the target (equation 6)."""

    @property
    def weights(self) -> dict[str, float]:
        taught = self.method.self_teaching if self.soft_labels is not None else 0.0
        weights = {"source": 1.0, "target": 1.0 - taught, "teacher": taught}
        return {name: weight for name, weight in weights.items() if weight}

    def counts(self, batch: ParallelBatch) -> dict[str, int | Tensor]:
        counts: dict[str, int | Tensor] = {
            "source": self.labelled(batch.source),
            "target": self.labelled(batch.target),
            "teacher": batch.soft[0].shape[0] if batch.soft else 0,
        }
        return {name: counts[name] for name in self.weights}

    def hidden(self, model: EncoderWithHeads, batch: ParallelBatch) -> Tensor:
        encoder, inputs = model.encoder, batch.inputs
        if inputs.longest == 0:
            return encoder(inputs)
        local, fusion = self.method.layers(len(encoder.layers))
        hidden_TD = encoder.run(encoder.embed(inputs), 0, local, inputs.bounds_N1, inputs.longest)
        hidden_TD = encoder.run(hidden_TD, local, local + fusion, batch.pair_bounds_N1, batch.longest_pair)
        return encoder.run(hidden_TD, local + fusion, len(encoder.layers), inputs.bounds_N1, inputs.longest)

    def losses(self, model: EncoderWithHeads, batch: ParallelBatch, shared: Any) -> dict[str, Loss]:
        source, target = self.scores(model, batch)
        losses = self.task_losses(batch, source, target)
        if "teacher" in self.weights:
            losses["teacher"] = self_teaching_loss(target, batch.soft, self.method.temperature)
        return {name: losses[name] for name in self.weights}


class FilterQuestions(FilterFormulation):
    kind = "qa"


class FilterTags(FilterFormulation):
    kind = "tagging"


class FilterPairs(FilterFormulation):
    kind = "pairs"

    def outputs(self, model: EncoderWithHeads, batch: ParallelBatch) -> list[Any]:
        """Returns P(label) of each pair, from the side that `pairs_from` names (FILTER, Inference)."""
        return side_outputs(self, self.scores(model, batch), batch, self.method.pairs_from)
