"""What decides an alignment."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.steps.records import ConfigError


@dataclass(frozen=True)
class AlignerConfig:
    """How a word aligner is trained, and which links it keeps."""

    model: str = ""
    """Path of a saved model; empty: the job trains one on the corpus itself."""
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
        for name in ("min_score", "empty_probability", "identical"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"--aligner.{name.replace('_', '-')} {getattr(self, name)}: expected 0 to below 1.")
        for name in ("training_pairs", "max_words", "initial_passes", "hmm_passes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--aligner.{name.replace('_', '-')} {getattr(self, name)}: expected at least 1.")
        for name in ("backoff", "jump_smoothing", "fertility_smoothing"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(f"--aligner.{name.replace('_', '-')} {getattr(self, name)}: expected more than 0.")
        if not 0.0 < self.prior_weight <= 1000.0:
            raise ConfigError(f"--aligner.prior-weight {self.prior_weight}: expected more than 0, at most 1000.")
