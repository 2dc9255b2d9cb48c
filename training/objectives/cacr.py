"""Contrastive-consistency regularisation (CACR) brings three forms of a sentence (source, masked source, target) near
each other, and away from other sentences (CLISM, 3.2).

N sequences of this rank's micro-batch, B of all ranks, T tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, hit_rate
from training.runtime.distributed import all_gather_with_grad


def mean_pool(hidden_TD: Tensor, ranges_N2: Tensor) -> Tensor:
    """Returns the mean of each range's tokens, `[start, end)` in T, as (N, D) in at least fp32: r = A(H) (CLISM,
    equation 6). An empty range gives zeros.

        ranges_N2 [[1, 3], [4, 5]]  →  inside_NT  0 1 1 0 0
                                                  0 0 0 0 1
    """
    # One product with an (N, T) matrix needs no padded copy of `hidden_TD`, and sums in the same order each time.
    with torch.autocast(hidden_TD.device.type, enabled=False):
        hidden_TD = at_least_fp32(hidden_TD)
        places_T = torch.arange(len(hidden_TD), device=hidden_TD.device)
        start_N1, end_N1 = ranges_N2[:, :1], ranges_N2[:, 1:]
        inside_NT = ((start_N1 <= places_T) & (places_T < end_N1)).to(hidden_TD.dtype)
        return (inside_NT @ hidden_TD) / (end_N1 - start_N1).clamp(min=1)


def cacr_loss(
    source_ND: Tensor, masked_ND: Tensor, target_ND: Tensor, temperature: float, symmetric: bool = False
) -> Loss:
    """L(target, masked source) + L(source, masked source) + L(target, source) (CLISM, equation 8), summed over this
    rank's examples. Its count is N.

    L(a, b) = −log exp(cos(a, b) / τ) / Σ_j exp(cos(a, b_j) / τ) (equation 7) runs over the b of all B examples of all
    ranks; gradients reach every rank's encoder. `symmetric` takes the mean of L(a, b) and L(b, a) instead.
    `temperature` is τ. The paper divides by τ = 20, which makes the softmax nearly flat; the usual reading is 0.05.
    Figures: for each pair of forms, the share of a whose own b is nearer than any other.
    """
    with torch.autocast(source_ND.device.type, enabled=False):
        own_3ND = F.normalize(at_least_fp32(torch.stack([source_ND, masked_ND, target_ND])), dim=2)
        gathered = all_gather_with_grad(own_3ND.transpose(0, 1))
        # each form of this rank, and of all ranks
        source, masked, target = zip(own_3ND.unbind(), gathered.rows.unbind(dim=1), strict=True)
        label_N1 = torch.arange(len(source_ND), device=source_ND.device).unsqueeze(1) + gathered.first

        def contrast(a_ND: Tensor, b_BD: Tensor) -> tuple[Tensor, Tensor]:
            cosines_NB = a_ND @ b_BD.T
            own_N1 = cosines_NB.gather(1, label_N1)
            # A tie is no hit: if all representations are equal, the model has distinguished nothing.
            nearest_N = (cosines_NB >= own_N1).sum(dim=1) == 1
            return -F.log_softmax(cosines_NB / temperature, dim=1).gather(1, label_N1).sum(), nearest_N

        total, figures = own_3ND.new_zeros(()), {}
        for name, a, b in (
            ("target_masked", target, masked),
            ("source_masked", source, masked),
            ("target_source", target, source),
        ):
            loss, nearest_N = contrast(a[0], b[1])
            if symmetric:
                loss = (loss + contrast(b[0], a[1])[0]) / 2
            total = total + loss
            figures[name] = hit_rate(nearest_N)
    return Loss(total, torch.full_like(label_N1.sum(), len(label_N1)), figures)


def cached_gradients(
    representations: Sequence[tuple[Tensor, ...]], objective: Callable[..., Loss]
) -> tuple[Loss, list[tuple[Tensor, ...]]]:
    """Computes a contrastive loss over all of a step's micro-batches, and its gradients with respect to their
    representations, so that accumulation is exact (GradCache, Gao et al. 2021).

    A sentence's negatives are in other micro-batches, whose activations do not fit into memory with its own. So the
    encoder runs twice: first without gradients, for the representations of all micro-batches; then for one micro-batch
    after the other, with the same dropout seeds, and `replayed` propagates the cached gradients into the encoder:

        with torch.no_grad():
            first = [represent(batch) for batch in batches]
        contrastive, gradients = cached_gradients(first, partial(cacr_loss, temperature=0.05))
        for batch, gradient in zip(batches, gradients):
            losses = {…, "cacr": contrastive._replace(total=replayed(represent(batch), gradient))}
            normalised(losses, counts).backward()

    The returned loss is detached and only for the log. Every rank calls this, with any number of examples.
    """
    joined = [torch.cat(parts).detach().requires_grad_() for parts in zip(*representations, strict=True)]
    loss = objective(*joined)
    sizes = [len(parts[0]) for parts in representations]
    gradients = [torch.split(gradient, sizes) for gradient in torch.autograd.grad(loss.total, joined)]
    return loss._replace(total=loss.total.detach()), list(zip(*gradients, strict=True))


def replayed(representations: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Surrogate loss Σ⟨representation, cached gradient⟩; it has the contrastive loss's gradient (GradCache)."""
    products = [(rows * gradient).sum() for rows, gradient in zip(representations, gradients, strict=True)]
    return torch.stack(products).sum()


def shared_out(loss: Loss, gradients: Sequence[tuple[Tensor, ...]]) -> list[tuple[Loss, tuple[Tensor, ...]]]:
    """Returns for each micro-batch a loss and its own gradients, from the result of `cached_gradients`. The first one
    has the loss's value, the others 0, so that they add up to it."""
    nothing = Loss(0 * loss.total, 0 * loss.count, {name: 0 * figure for name, figure in loss.figures.items()})
    return list(zip([loss, *[nothing] * (len(gradients) - 1)], gradients, strict=True))


def replayed_loss(representations: Sequence[Tensor], loss: Loss, gradients: Sequence[Tensor]) -> Loss:
    """Returns a micro-batch's part of the loss, from its `shared_out`: that value, with the gradient of `replayed`."""
    surrogate = replayed(representations, gradients)
    return loss._replace(total=loss.total + surrogate - surrogate.detach())
