"""The aligner's settings, and which values they may have."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from schemas.errors import ConfigError


@dataclass(frozen=True)
class AlignerConfig:
    """How a word aligner is trained, and which links it keeps."""

    model: str = ""
    """For `polyspan-data clism`: the path of a model that `align train` saved, or the name of another aligner that is
    listed in pipelines/aligner/aligners.py. Empty: the job trains the built-in aligner on the corpus itself."""
    training_pairs: int = 100_000
    """The largest number of sentence pairs that train a model. A larger corpus is sampled by hash."""
    min_score: float = 0.4
    """A link is kept if its score, the mean of both directions' posterior probabilities, exceeds this value."""
    max_words: int = 256
    """A pair with more words on a side neither trains the model nor gets links: the cost grows with the cube of the
    number of words."""
    initial_passes: int = 2
    """Number of EM passes of IBM Model 2 over word stems, with a prior for the diagonal. They initialise the HMM."""
    hmm_passes: int = 4
    """Number of EM passes of the HMM, which follow the initial passes."""
    diagonal_tension: float = 4.0
    """How strongly the initial passes prefer the diagonal (λ of Dyer et al. 2013)."""
    empty_probability: float = 0.1
    """Prior probability that a word is aligned to no word of the other sentence (p0 of Och and Ney 2003)."""
    backoff: float = 10.0
    """How many counts a back-off estimate is worth. Words back off to stems, stems to spelling and frequency."""
    identical: float = 0.1
    """Probability that the estimate from spelling and frequency gives to the identical word or stem: names, numbers and
    cognates."""
    jump_smoothing: float = 0.5
    """Pseudo-count that is added to the count of every jump width."""
    fertility_smoothing: float = 10.0
    """How many counts the fertility distribution over all words is worth in the distribution of one word."""
    prior_weight: float = 1.0
    """Factor on the counts of an older model that training starts from; 1 counts its corpus as if read again."""

    def __post_init__(self) -> None:
        for name in _EXPECTED:
            if problem := problem_of(name, getattr(self, name)):
                raise ConfigError(f"--aligner.{name.replace('_', '-')} {problem}.")

    @staticmethod
    def from_json(value: object) -> AlignerConfig:
        """Reverses `asdict`. Raises `ValueError`, which names the first field that is missing, unknown or wrong."""
        if not isinstance(value, dict):
            raise ValueError(f"config is {_shown(value)}: expected an object")
        names = [field.name for field in fields(AlignerConfig)]
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
    """Says in words what a field's value is and what was expected; None if the value is right."""
    if name == "model":
        return None if isinstance(value, str) else f"{_shown(value)}: expected a path"
    expected = _EXPECTED[name]
    return None if expected.holds(value) else f"{_shown(value)}: expected {expected.words}"


def _shown(value: object) -> str:
    """Shows a value in at most 60 characters; one from a damaged file may be long, and have too many digits to print.

    >>> _shown(float("nan")), _shown("x" * 100)
    ('nan', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    text = "a huge number" if isinstance(value, int) and value.bit_length() > 256 else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
