"""The aligners that the CLISM job can use: one `AlignerKind` each, in `ALIGNERS`.

Another aligner is a module with a class that links words, and one entry here; `--aligner.model NAME` then selects it.
The commands of `polyspan-data align` use the built-in aligner only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.links import Link
from pipelines.aligner.model import AlignmentModel
from pipelines.aligner.numbered import NumberedPairs
from pipelines.aligner.text import TrainingText
from pipelines.aligner.training import train

Words = Sequence[str]
Progress = Callable[[str], None]


class Aligner(Protocol):
    """Links the words of sentence pairs of one language pair."""

    def align_batch(self, pairs: Sequence[tuple[Words, Words]], *, threads: int = 1) -> list[list[Link]]:
        """Returns the links of each pair of sentences, given as words. `threads` must not change them."""

    def save(self, file: BinaryIO) -> None:
        """Writes what `AlignerKind.load` reads. The same aligner always writes the same bytes."""


class TrainingPairs(Protocol):
    """A growing sample of sentence pairs, given as words."""

    def __len__(self) -> int: ...

    def append(self, source_words: Words, target_words: Words) -> None: ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Drops all pairs except these rows, which are ascending."""


Pairs = TypeVar("Pairs", bound=TrainingPairs)


@dataclass(frozen=True)
class AlignerKind(Generic[Pairs]):
    """How a job trains, loads and identifies one kind of aligner."""

    pairs: Callable[[], Pairs]
    """Makes an empty sample; the job fills it with at most `AlignerConfig.training_pairs` pairs."""
    train: Callable[[Pairs, AlignerConfig, TrainingText, Progress, int], Aligner]
    """Trains on a sample. The last two arguments receive lines of progress, and limit the number of threads."""
    load: Callable[[str, AlignerConfig], Aligner]
    """Loads what `Aligner.save` wrote from a local path, and applies the configuration's `min_score`."""
    versions: Mapping[str, str]
    """What decides the links besides the configuration, for the manifest."""


def _train_builtin(
    pairs: NumberedPairs, config: AlignerConfig, text: TrainingText, progress: Progress, threads: int
) -> Aligner:
    return replace(train(pairs, config, progress, threads=threads), text=text)


def _load_builtin(path: str, config: AlignerConfig) -> Aligner:
    """Shares the file's memory, and keeps the links that `config` asks for instead of the model's own threshold."""
    model = AlignmentModel.load(path, copy=False)
    return replace(model, config=replace(model.config, min_score=config.min_score))


ALIGNERS: dict[str, AlignerKind[Any]] = {
    "": AlignerKind(NumberedPairs, _train_builtin, _load_builtin, versions={}),
}


def aligner_kind(config: AlignerConfig) -> AlignerKind[Any]:
    """Returns the aligner that `config.model` names; any other value is the path of a built-in aligner's model."""
    return ALIGNERS.get(config.model, ALIGNERS[""])
