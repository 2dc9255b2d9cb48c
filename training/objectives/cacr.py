"""Contrastive-consistency regularisation: the same sentence, three ways, is near itself and far from others
(CLISM, 3.2).

N sequences of this rank's micro-batch, B of all ranks, T tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from training.objectives import Loss, at_least_fp32, share
from training.runtime.distributed import all_gather_with_grad


def mean_pool(hidden_TD: Tensor, ranges_N2: Tensor) -> Tensor:
    """The mean of each range's tokens, `[start, end)` in T: r = A(H) of CLISM's equation 6. (N, D), at least fp32.

    An empty range gives zeros.
    """
    # One product with an (N, T) matrix: no padded copy of `hidden_TD`, and sums in the same order each time.
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
    `temperature` is τ. The paper divides by τ = 20, which leaves the softmax nearly flat; the usual reading is 0.05.
    Figures: of each pair, for how many a the own b is nearer than any other.
    """
    with torch.autocast(source_ND.device.type, enabled=False):
        own_3ND = F.normalize(at_least_fp32(torch.stack([source_ND, masked_ND, target_ND])), dim=2)
        gathered = all_gather_with_grad(own_3ND.transpose(0, 1))
        # of each kind, this rank's and all ranks'
        source, masked, target = zip(own_3ND.unbind(), gathered.rows.unbind(dim=1), strict=True)
        label_N1 = torch.arange(len(source_ND), device=source_ND.device).unsqueeze(1) + gathered.first

        def contrast(a_ND: Tensor, b_BD: Tensor) -> tuple[Tensor, Tensor]:
            cosines_NB = a_ND @ b_BD.T
            own_N1 = cosines_NB.gather(1, label_N1)
            # A tie is no success: where all representations are one, nothing has been told apart.
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
            figures[name] = share(nearest_N)
    return Loss(total, torch.full_like(label_N1.sum(), len(label_N1)), figures)


def cached_gradients(
    representations: Sequence[tuple[Tensor, ...]], objective: Callable[..., Loss]
) -> tuple[Loss, list[tuple[Tensor, ...]]]:
    """A contrastive loss over a step's micro-batches as one batch, and its gradients with respect to their
    representations: accumulation that is exact (GradCache, Gao et al. 2021).

    A sentence's negatives are in other micro-batches, whose activations do not fit beside its own. So the encoder runs
    twice: first without gradients, for the representations of all micro-batches; then, micro-batch by micro-batch,
    with the same dropout seeds, and `replayed` takes the cached gradients on into the encoder:

        with torch.no_grad():
            first = [represent(batch) for batch in batches]
        contrastive, gradients = cached_gradients(first, partial(cacr_loss, temperature=0.05))
        for batch, gradient in zip(batches, gradients):
            losses = {…, "cacr": contrastive._replace(total=replayed(represent(batch), gradient))}
            normalised(losses, counts).backward()

    The loss returned is detached: its value is for the log. Every rank calls this, with any number of examples.
    """
    joined = [torch.cat(parts).detach().requires_grad_() for parts in zip(*representations, strict=True)]
    loss = objective(*joined)
    sizes = [len(each[0]) for each in representations]
    gradients = [torch.split(of_all, sizes) for of_all in torch.autograd.grad(loss.total, joined)]
    return loss._replace(total=loss.total.detach()), list(zip(*gradients, strict=True))


def replayed(representations: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """A number, meaningless itself, whose gradient is that of the loss that `gradients` were cached of."""
    products = [(each * gradient).sum() for each, gradient in zip(representations, gradients, strict=True)]
    return torch.stack(products).sum()


def shared_out(loss: Loss, gradients: Sequence[tuple[Tensor, ...]]) -> list[tuple[Loss, tuple[Tensor, ...]]]:
    """What each micro-batch has to know of `cached_gradients`: its own gradients, and a loss whose value is the first
    micro-batch's to tell, so that their sum is the whole."""
    nothing = Loss(0 * loss.total, 0 * loss.count, {name: 0 * figure for name, figure in loss.figures.items()})
    return list(zip([loss, *[nothing] * (len(gradients) - 1)], gradients, strict=True))


def replayed_loss(representations: Sequence[Tensor], loss: Loss, gradients: Sequence[Tensor]) -> Loss:
    """A micro-batch's part of the loss, of its `shared_out`: with the value there and the gradient of `replayed`."""
    path = replayed(representations, gradients)
    return loss._replace(total=loss.total + path - path.detach())
