"""Scheduled sampling decides at each step whether a record's source text is real or a translation (X-Mixup, 4.1)."""

from __future__ import annotations

import math

from training.runtime import stateless_random

_SAMPLING = 7  # number of this stream of random numbers


def probability_of_real_text(step: int, decay: float) -> float:
    """Returns p* = k / (k + exp(step / k)), inverse sigmoid decay with k = `decay` > 0 (Bengio et al. 2015; X-Mixup,
    equation 6). Steps count from 0.

    >>> [round(probability_of_real_text(step, 1000.0), 3) for step in (0, 5_000, 7_000, 10_000)]
    [0.999, 0.871, 0.477, 0.043]
    """
    exponent = step / decay - math.log(decay)
    if exponent > 0:  # exp(-x) cannot overflow
        return math.exp(-exponent) / (1 + math.exp(-exponent))
    return 1 / (1 + math.exp(exponent))


def takes_real_text(seed: int, step: int, record: int, decay: float) -> bool:
    """Returns whether this step takes the real source text of record number `record`: p <= p* (X-Mixup, equation 6).

    A pure function of its arguments, so that a run that resumes, with any number of ranks, draws the same. `decay` 0
    always takes the real text.
    """
    if not decay:
        return True
    (drawn,) = stateless_random.uniforms(stateless_random.key(seed, _SAMPLING, step, record), 1)
    return bool(drawn <= probability_of_real_text(step, decay))
