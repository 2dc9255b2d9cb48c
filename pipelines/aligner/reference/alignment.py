"""Links the words of sentence pairs with a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.links import Link
from pipelines.aligner.model import AlignmentModel
from pipelines.aligner.reference import hmm
from pipelines.aligner.reference.batches import Batch, Ints, batch_positions, make_batch
from pipelines.aligner.reference.fertility import reweighted
from pipelines.aligner.reference.hmm import Posteriors
from pipelines.aligner.reference.lexicon import Floats, Lexicon, PairCounts

Words = Sequence[str]


@dataclass(frozen=True)
class Estimates:
    """The estimates of training. The first of two is for target words given source words, the second the reverse."""

    lexicon: Lexicon
    jump_weights: tuple[Floats, Floats]  # (2 * MAX_JUMP + 1) each
    fertilities: tuple[NDArray[np.float32], NDArray[np.float32]] | None  # (W + 1, F) each


def posteriors_both_ways(
    parameters: Estimates, batch: Batch, stem_of_word: Ints, own_IJB: Floats | float, config: AlignerConfig
) -> tuple[Posteriors, Posteriors]:
    """Returns the HMM's posteriors in both directions: states (I, J, B) and empty (J, B), then (J, I, B) and (I, B)."""
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


def estimates_of(model: AlignmentModel) -> Estimates:
    learnt = model.parameters
    lexicon = Lexicon(
        learnt.vocabulary,
        learnt.source_frequency_W,
        learnt.target_frequency_W,
        PairCounts(learnt.keys_K, learnt.counts_K),
    )
    jumps, fertilities = learnt.jump_weights, learnt.fertilities
    return Estimates(lexicon, (jumps[0], jumps[1]), (fertilities[0], fertilities[1]))


def align_batch(model: AlignmentModel, pairs: Sequence[tuple[Words, Words]]) -> list[list[Link]]:
    """Returns what `AlignmentModel.align_batch` returns."""
    estimates = estimates_of(model)
    links: list[list[Link]] = [[] for _ in pairs]
    encoded, stem_of_word = estimates.lexicon.vocabulary.encode([words for pair in pairs for words in pair])
    encoded_pairs = list(zip(encoded[::2], encoded[1::2], strict=True))
    lengths = [(len(source), len(target)) for source, target in pairs]
    for positions in batch_positions(lengths, model.config.max_words):
        batch = make_batch(encoded_pairs, positions)
        forward, backward = posteriors_both_ways(estimates, batch, stem_of_word, 0.0, model.config)
        # Four decimals: later ones may differ between processors.
        score_IJB = np.round((forward.states_STB + backward.states_STB.swapaxes(0, 1)) / 2.0, 4)
        score_BIJ = np.moveaxis(score_IJB, -1, 0)
        found = np.nonzero(score_BIJ > model.config.min_score)
        for b, i, j, score in zip(*(part.tolist() for part in (*found, score_BIJ[found])), strict=True):
            links[positions[b]].append(Link(i, j, score))
    return links


def directed_links(model: AlignmentModel, pairs: Sequence[tuple[Words, Words]]) -> list[tuple[list[Link], list[Link]]]:
    """Returns what `AlignmentModel.directed_links` returns."""
    directed: list[tuple[list[Link], list[Link]]] = [([], []) for _ in pairs]
    estimates = estimates_of(model)
    encoded, stem_of_word = estimates.lexicon.vocabulary.encode([words for pair in pairs for words in pair])
    encoded_pairs = list(zip(encoded[::2], encoded[1::2], strict=True))
    lengths = [(len(source), len(target)) for source, target in pairs]
    for positions in batch_positions(lengths, model.config.max_words):
        batch = make_batch(encoded_pairs, positions)
        both = posteriors_both_ways(estimates, batch, stem_of_word, 0.0, model.config)
        # Four decimals: later ones may differ between processors.
        mean_IJB = np.round((both[0].states_STB + both[1].states_STB.swapaxes(0, 1)) / 2.0, 4)
        for way, found in enumerate(both):
            states_STB = np.round(found.states_STB, 4)
            partner_TB = states_STB.argmax(axis=0)
            is_linked_TB = states_STB.max(axis=0) > np.round(found.empty_TB, 4)
            for b, position in enumerate(positions):
                for word in np.nonzero(is_linked_TB[: lengths[position][1 - way], b])[0].tolist():
                    partner = int(partner_TB[word, b])
                    i, j = (word, partner) if way else (partner, word)
                    directed[position][way].append(Link(i, j, float(mean_IJB[i, j, b])))
    return directed
