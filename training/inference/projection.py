"""Carries the answers and tags of a text over to its translation, through the links of the word aligner.

    source   Anna  lives  in  Hanoi           answer: word 3, "Hanoi"
              |      |    |    |  \\
    target   Anna  sống   ở   Hà  Nội         answer: words 3 and 4, from the first to the last linked word

The rules are those of CLISM's projection (`pipelines.aligner.projection`). The aligner learns from the sentences of a
run and their translations alone, or starts from an older model that adapts to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipelines.aligner import AlignerConfig, AlignmentModel, train
from pipelines.aligner.links import Link
from pipelines.aligner.projection import alignment_score, is_consistent, project, words_of
from schemas.errors import ConfigError
from schemas.languages import LanguagePair
from schemas.mrc import MrcExample, TaggingExample
from schemas.spans import CharSpan, TokenSpan
from training.metrics.tags import entities

Words = tuple[str, ...]
SentenceWords = tuple[Words, Words]  # of a sentence and its translation


class SentenceAligner(NamedTuple):
    """Links the words of the sentences that it was trained on."""

    model: AlignmentModel
    threads: int

    def links(self, sentences: Sequence[SentenceWords]) -> list[list[Link]]:
        """Returns the links of each pair of sentences. Equal pairs are aligned once."""
        distinct = list(dict.fromkeys(sentences))
        found = dict(zip(distinct, self.model.align_batch(distinct, threads=self.threads), strict=True))
        return [found[sentence] for sentence in sentences]


def train_aligner(sentences: Iterable[SentenceWords], prior: AlignmentModel | None = None) -> SentenceAligner:
    """Trains an aligner on sentence pairs, whose order and the number of processors do not change a link. With a prior,
    its counts are added to theirs: it adapts to them."""
    threads = os.cpu_count() or 1
    return SentenceAligner(
        train(sentences, prior.config if prior else AlignerConfig(), prior=prior, threads=threads), threads
    )


def load_prior(path: str, pair: LanguagePair) -> AlignmentModel:
    """Loads the aligner of a language pair; `{pair}` in the path is replaced by it. Raises `InputError` for a damaged
    model and `ConfigError` for one of another pair."""
    model = AlignmentModel.load(path.replace("{pair}", str(pair)))
    if model.text and model.text.pair != pair:
        raise ConfigError(f"--aligner {path}: was trained on {model.text.pair}, but {pair} is translated")
    return model


@dataclass(frozen=True)
class WordsOfText:
    """The words of a text and of its translation, sentence by sentence."""

    source: Sequence[Sequence[CharSpan]]
    target: Sequence[Sequence[CharSpan]]

    def sentences(self, source_text: str, target_text: str) -> list[SentenceWords]:
        """Returns the words of each pair of sentences, as the aligner reads them."""

        def words(text: str, spans: Sequence[CharSpan]) -> Words:
            return tuple(span.of(text) or "_" for span in spans)  # WikiAnn has empty words

        pairs = zip(self.source, self.target, strict=True)
        return [(words(source_text, source), words(target_text, target)) for source, target in pairs]

    def links(self, of_sentences: Sequence[Sequence[Link]]) -> list[Link]:
        """Joins the links of all sentences; words are counted from the beginning of the text."""
        found, first_source, first_target = [], 0, 0
        for links, source, target in zip(of_sentences, self.source, self.target, strict=True):
            found += [Link(first_source + i, first_target + j, score) for i, j, score in links]
            first_source, first_target = first_source + len(source), first_target + len(target)
        return found

    @property
    def source_words(self) -> list[CharSpan]:
        return [word for words in self.source for word in words]

    @property
    def target_words(self) -> list[CharSpan]:
        return [word for words in self.target for word in words]


class Labels(NamedTuple):
    """What is known of a translation's labels; the fields are those of `schemas.translations.Translation`."""

    labels: Literal["known", "projected", "unknown"]
    score: float | None = None
    answers: tuple[CharSpan, ...] = ()
    tags: tuple[str, ...] = ()
    label: str | None = None


UNKNOWN = Labels("unknown")


def projected_answers(record: MrcExample, words: WordsOfText, links: Sequence[Link]) -> Labels:
    """Projects the answers of a question. Of several published answers, those that cannot be projected are left out;
    if none can, the labels are unknown. The score is the lowest of those that are kept."""
    source_words, target_words = words.source_words, words.target_words
    scores: dict[CharSpan, float] = {}
    for answer in record.answers:
        source = words_of(answer, source_words)
        found = _projected(source, links) if source else None
        if found:
            target, score = found
            scores.setdefault(CharSpan(target_words[target.start].start, target_words[target.end - 1].end), score)
    if not scores:
        return UNKNOWN
    return Labels("projected", min(scores.values()), answers=tuple(scores))


def projected_tags(record: TaggingExample, words: WordsOfText, links: Sequence[Link]) -> Labels:
    """Projects the entities of a sentence. The labels are unknown unless each has a span of its own."""
    tags = ["O"] * len(words.target_words)
    scores = [1.0]
    for start, end, type_ in entities(record.tags):
        found = _projected(TokenSpan(start, end), links)
        if found is None or any(tags[index] != "O" for index in range(*found[0])):
            return UNKNOWN
        target, score = found
        tags[target.start : target.end] = [f"B-{type_}", *[f"I-{type_}"] * (target.end - target.start - 1)]
        scores.append(score)
    return Labels("projected", min(scores), tags=tuple(tags))


def _projected(source: TokenSpan, links: Sequence[Link]) -> tuple[TokenSpan, float] | None:
    """Returns the words that a span projects to and the score; None without a link, or if a word between the first and
    the last one is linked to a word outside the span."""
    target = project(source, links)
    if target is None or not is_consistent(source, target, links):
        return None
    return target, min(1.0, alignment_score(source, target, links))
