"""What decides an alignment."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from schemas.errors import ConfigError


@dataclass(frozen=True)
class AlignerConfig:
    """How a word aligner is trained, and which links it keeps."""

    model: str = ""
    """The path of a model that `align train` saved, or the name of another aligner that is listed in
    pipelines/aligner/aligners.py. Empty: the job trains the built-in aligner on the corpus itself."""
    training_pairs: int = 100_000
    """At most so many sentence pairs train a model; of a larger corpus, a sample drawn by hash."""
    min_score: float = 0.4
    """A link is kept if its score, the mean of both directions' posterior probabilities, exceeds this."""
    max_words: int = 256
    """A pair with more words on a side neither trains the model nor gets links: its cost grows with their cube."""
    initial_passes: int = 2
    """Passes of IBM Model 2 over word stems, with a prior for the diagonal; they start the HMM."""
    hmm_passes: int = 4
    """Passes of the HMM in both directions."""
    diagonal_tension: float = 4.0
    """How much the initial passes prefer the diagonal (λ of Dyer et al. 2013)."""
    empty_probability: float = 0.1
    """Prior probability that a word translates none of the other sentence (p0 of Och and Ney 2003)."""
    backoff: float = 10.0
    """Weight, in counts, of the estimate from stems in a word's translation probabilities, and of the estimate from
    spelling and frequency in a stem's."""
    identical: float = 0.1
    """Share of that estimate that goes to the identical word or stem: names, numbers and cognates."""
    jump_smoothing: float = 0.5
    """Added to the count of every jump width."""
    fertility_smoothing: float = 10.0
    """Weight, in counts, of all words' fertilities in the fertilities of one word."""
    prior_weight: float = 1.0
    """Weight of the counts of an older model, where training starts from one: 1 as if its corpus were read again."""

    def __post_init__(self) -> None:
        for name in _EXPECTED:
            if problem := problem_of(name, getattr(self, name)):
                raise ConfigError(f"--aligner.{name.replace('_', '-')} {problem}.")

    @staticmethod
    def from_json(value: object) -> AlignerConfig:
        """What `asdict` made of one. `ValueError` naming the first field that is missing, unknown or cannot be."""
        if not isinstance(value, dict):
            raise ValueError(f"config is {_shown(value)}: expected an object")
        names = [each.name for each in fields(AlignerConfig)]
        if missing := [name for name in names if name not in value]:
            raise ValueError(f"config has no {missing[0]}")
        if unknown := [name for name in value if name not in names]:
            raise ValueError(f"config has an unknown field, {_shown(unknown[0])}")
        for name in names:
            if problem := problem_of(name, value[name]):
                raise ValueError(f"config.{name} is {problem}")
        return AlignerConfig(**value)


class _Expected(NamedTuple):
    type_: type[int] | type[float]
    least: float
    most: float  # NaN and infinity lie beyond
    words: str

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, self.type_)):
            return False
        return self.least <= value <= self.most


def _whole(most: int) -> _Expected:
    return _Expected(int, 1, most, f"a whole number from 1 to {most:,}")


_SHARE = _Expected(float, 0.0, math.nextafter(1.0, 0.0), "a number from 0 to below 1")
_WEIGHT = _Expected(float, math.ulp(0.0), 1e9, "a number above 0, at most 1,000,000,000")

_EXPECTED = {
    "training_pairs": _whole(2**31 - 1),
    "min_score": _SHARE,
    "max_words": _whole(10_000),  # a pair of two such sentences takes some gigabytes
    "initial_passes": _whole(1000),
    "hmm_passes": _whole(1000),
    "diagonal_tension": _Expected(float, 0.0, 1000.0, "a number from 0 to 1,000"),
    "empty_probability": _SHARE,
    "backoff": _WEIGHT,
    "identical": _SHARE,
    "jump_smoothing": _Expected(float, 1e-9, 1e9, "a number from 0.000000001 to 1,000,000,000"),
    "fertility_smoothing": _WEIGHT,
    "prior_weight": _Expected(float, math.ulp(0.0), 1000.0, "a number above 0, at most 1,000"),
}


def problem_of(name: str, value: object) -> str | None:
    """What a field's value is and should have been, in words; None where nothing is wrong with it."""
    if name == "model":
        return None if isinstance(value, str) else f"{_shown(value)}: expected a path"
    expected = _EXPECTED[name]
    return None if expected.holds(value) else f"{_shown(value)}: expected {expected.words}"


def _shown(value: object) -> str:
    """In at most 60 characters: it may come from a damaged file, and a whole number may have too many digits to write.

    >>> _shown(float("nan")), _shown("x" * 100)
    ('nan', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    text = "a huge number" if isinstance(value, int) and value.bit_length() > 256 else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
