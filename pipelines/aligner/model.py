"""A trained word aligner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner import hmm, model_file
from pipelines.aligner.batches import Batch, Ints, batch_positions, make_batch
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.fertility import reweighted
from pipelines.aligner.hmm import Posteriors
from pipelines.aligner.lexicon import Floats, Lexicon, PairCounts
from pipelines.aligner.words import Vocabulary
from pipelines.steps.records import InputError, Link

Words = Sequence[str]


@dataclass(frozen=True)
class Parameters:
    """What training estimates. The first of two is for target words given source words, the second the reverse."""

    lexicon: Lexicon
    jump_weights: tuple[Floats, Floats]  # (2 * MAX_JUMP + 1) each
    fertilities: tuple[NDArray[np.float32], NDArray[np.float32]] | None  # (W + 1, F) each


def posteriors_both_ways(
    parameters: Parameters, batch: Batch, stem_of_word: Ints, own_IJB: Floats | float, config: AlignerConfig
) -> tuple[Posteriors, Posteriors]:
    """Posteriors of the HMM. Shapes of the first: states (I, J, B), empty (J, B); of the second: (J, I, B), (I, B)."""
    lexicon = parameters.lexicon
    target_given_source_IJB, source_given_target_IJB = lexicon.probabilities(batch, stem_of_word, own_IJB, config)
    emissions = target_given_source_IJB, source_given_target_IJB.swapaxes(0, 1)
    empty_emissions = lexicon.empty_probabilities(batch)
    both = []
    for way, directed in enumerate((batch, batch.reversed())):
        found = hmm.posteriors(
            emissions[way],
            empty_emissions[way],
            directed.source_lengths_B,
            directed.target_lengths_B,
            parameters.jump_weights[way],
            config.empty_probability,
        )
        if parameters.fertilities is not None:
            found = reweighted(found, directed.source_IB, parameters.fertilities[way])
        both.append(found)
    return both[0], both[1]


@dataclass(frozen=True)
class AlignmentModel:
    """Links the words of a sentence pair. The same model gives the same links in any batch, on any machine.

    >>> model = train(pairs, AlignerConfig())
    >>> model.align(["Anna", "lives", "in", "Hanoi"], ["Anna", "sống", "ở", "Hà", "Nội"])
    [Link(source=0, target=0, score=0.98), …]
    """

    parameters: Parameters
    config: AlignerConfig

    def align(self, source_words: Words, target_words: Words) -> list[Link]:
        """The links, by source and target word; none for an empty side, or for one of more than `max_words`."""
        return self.align_batch([(source_words, target_words)])[0]

    def align_batch(self, pairs: Sequence[tuple[Words, Words]]) -> list[list[Link]]:
        """`align` of each pair, faster: give it a thousand or more at once."""
        links: list[list[Link]] = [[] for _ in pairs]
        encoded, stem_of_word = self.parameters.lexicon.vocabulary.encode([words for pair in pairs for words in pair])
        encoded_pairs = list(zip(encoded[::2], encoded[1::2], strict=True))
        lengths = [(len(source), len(target)) for source, target in pairs]
        for positions in batch_positions(lengths, self.config.max_words):
            batch = make_batch(encoded_pairs, positions)
            forward, backward = posteriors_both_ways(self.parameters, batch, stem_of_word, 0.0, self.config)
            # Four decimals: what lies beyond may differ between processors.
            score_IJB = np.round((forward.states_STB + backward.states_STB.swapaxes(0, 1)) / 2.0, 4)
            score_BIJ = np.moveaxis(score_IJB, -1, 0)
            found = np.nonzero(score_BIJ > self.config.min_score)
            for b, i, j, score in zip(*(part.tolist() for part in (*found, score_BIJ[found])), strict=True):
                links[positions[b]].append(Link(i, j, score))
        return links

    def save(self, file: str | BinaryIO) -> None:
        """Writes to a path or a binary file object. The same model always gives the same bytes."""
        if isinstance(file, str):
            with open(file, "wb") as stream:
                self.save(stream)
        else:
            model_file.write(file, self._arrays(), self._settings())

    @classmethod
    def load(cls, file: str | BinaryIO) -> AlignmentModel:
        """Reads what `save` wrote, with the configuration of then. `InputError` if that is not what the file holds."""
        if isinstance(file, str):
            try:
                with open(file, "rb") as stream:
                    return cls.load(stream)
            except OSError as error:
                raise InputError(f"{file}: the aligner's model cannot be read: {error.strerror}.") from None
        arrays, settings = model_file.read(file, _ARRAY_TYPES)
        words = json.loads(arrays["words"].tobytes().decode("utf-8", "surrogatepass"))
        lexicon = Lexicon(
            Vocabulary(words),
            arrays["source_frequency"],
            arrays["target_frequency"],
            PairCounts(arrays["pairs"], arrays["counts"]),
        )
        jumps, fertilities = arrays["jumps"], arrays["fertilities"]
        parameters = Parameters(lexicon, (jumps[0], jumps[1]), (fertilities[0], fertilities[1]))
        return cls(parameters, AlignerConfig(**settings))

    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that change with anything that decides a link."""
        return model_file.checksum(self._arrays(), self._settings())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        lexicon = self.parameters.lexicon
        words = json.dumps(lexicon.vocabulary.words, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return {
            "words": np.frombuffer(words, np.uint8),
            "source_frequency": lexicon.source_frequency_W,
            "target_frequency": lexicon.target_frequency_W,
            "pairs": lexicon.counts.keys_K,
            "counts": lexicon.counts.counts_K,
            "jumps": np.stack(self.parameters.jump_weights),
            "fertilities": np.stack(self.parameters.fertilities or ()),
        }

    def _settings(self) -> dict[str, Any]:
        return asdict(replace(self.config, model=""))


_ARRAY_TYPES = {
    "words": "|u1",
    "source_frequency": "<i8",
    "target_frequency": "<i8",
    "pairs": "<i8",
    "counts": "<i8",
    "jumps": "<f8",
    "fertilities": "<f4",
}
