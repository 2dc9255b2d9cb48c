"""Cross-lingual language-informative span masking: from an aligned pair to one example (CLISM, 3.1, appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipelines.aligner.links import Link
from pipelines.aligner.projection import alignment_score, is_consistent, project, words_of
from pipelines.steps.clism.stop_words import is_punctuation, stop_words
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair
from schemas.clism import QUE_TOKEN, ClismExample, ClismQuestion
from schemas.spans import CharSpan, TokenSpan


@dataclass(frozen=True)
class MaskingConfig:
    """Which projected mentions become questions. Each field names its reject reason in brackets.

    `strictness` and `min_score` refuse answers that are more often wrong than right (benchmarks/bench_projection.py).
    """

    strictness: Literal["consistent", "any"] = "consistent"
    """[inconsistent] "consistent" refuses a mention if a word inside its answer is linked to a source word outside the
    mention; "any" accepts every linked mention. The paper does not say."""
    max_span_words: int = 10
    """[mention_too_long, answer_too_long] The largest number of words that a mention and an answer may have. The paper
    has 10, but gives neither the unit nor the spans that it limits (CLISM, B)."""
    min_score: float = 0.5
    """[low_score] The smallest alignment score of a question, 0..1. The paper does not say; 0 accepts all."""
    drop_stop_words: bool = True
    """[only_stop_words] Refuse mentions and answers that consist of stop words or punctuation only (CLISM, B)."""


class TokenizedPair(NamedTuple):
    """Holds a sentence pair with the words of both sides and the mentions of the source side."""

    sentences: SentencePair
    source_tokens: Sequence[CharSpan]
    target_tokens: Sequence[CharSpan]
    mentions: Sequence[EntityMention]


class Candidate(NamedTuple):
    """A mention with the answer that it projects to."""

    mention: EntityMention
    answer: CharSpan
    score: float


class MentionReject(NamedTuple):
    reason: str
    mention: EntityMention


def mask_mentions(
    tokenized: TokenizedPair, links: Sequence[Link], config: MaskingConfig
) -> tuple[ClismExample | None, list[MentionReject]]:
    """Returns the example of one sentence pair, or None if no mention has an answer; and the refused mentions."""
    candidates: list[Candidate] = []
    rejects: list[MentionReject] = []
    for mention in tokenized.mentions:
        found = find_answer(tokenized, mention, links, config)
        if isinstance(found, Candidate):
            candidates.append(found)
        else:
            rejects.append(MentionReject(found, mention))
    kept = drop_overlapping(candidates)
    rejects += [MentionReject("overlapping_answers", other.mention) for other in candidates if other not in kept]
    return (mask_spans(tokenized.sentences, kept) if kept else None), rejects


def find_answer(
    tokenized: TokenizedPair, mention: EntityMention, links: Sequence[Link], config: MaskingConfig
) -> Candidate | str:
    """Returns the mention with its answer, or the reason for which it has none."""
    sentences = tokenized.sentences
    mention_words = words_of(mention.span, tokenized.source_tokens)
    if mention_words is None:
        return "not_on_word_boundary"
    if mention_words.end - mention_words.start > config.max_span_words:
        return "mention_too_long"
    if reason := _empty_words(
        sentences.source_text, tokenized.source_tokens, mention_words, sentences.languages.source, config
    ):
        return reason
    answer_words = project(mention_words, links)
    if answer_words is None:
        return "no_link"
    if answer_words.end - answer_words.start > config.max_span_words:
        return "answer_too_long"
    if config.strictness == "consistent" and not is_consistent(mention_words, answer_words, links):
        return "inconsistent"
    if reason := _empty_words(
        sentences.target_text, tokenized.target_tokens, answer_words, sentences.languages.target, config
    ):
        return reason
    score = alignment_score(mention_words, answer_words, links)
    if score < config.min_score:
        return "low_score"
    tokens = tokenized.target_tokens
    return Candidate(mention, CharSpan(tokens[answer_words.start].start, tokens[answer_words.end - 1].end), score)


def _empty_words(
    text: str, tokens: Sequence[CharSpan], span: TokenSpan, lang: str, config: MaskingConfig
) -> str | None:
    words = [tokens[index].of(text) for index in range(*span)]
    if all(map(is_punctuation, words)):
        return "only_punctuation"
    if config.drop_stop_words:
        listed = stop_words(lang)
        if span.start == 0:  # a sentence begins with a capital anyway; elsewhere "May", "US" and "WHO" are names
            words[0] = words[0].lower()
        if all(word in listed or is_punctuation(word) for word in words):
            return "only_stop_words"
    return None


def drop_overlapping(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keeps the best-scored of candidates whose answers overlap, the earlier of equals. Returns them in text order."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.mention.span)):
        if all(
            candidate.answer.end <= other.answer.start or other.answer.end <= candidate.answer.start for other in kept
        ):
            kept.append(candidate)
    return sorted(kept, key=lambda c: c.mention.span)


def mask_spans(sentences: SentencePair, candidates: Sequence[Candidate]) -> ClismExample:
    """Replaces each mention by one `[QUE]`. The mentions are in the order of the text and do not overlap."""
    pieces: list[str] = []
    questions: list[ClismQuestion] = []
    length = end = 0
    for mention, answer, score in candidates:
        before = sentences.source_text[end : mention.span.start]
        length += len(before)
        questions.append(
            ClismQuestion(
                que_start_char=length,
                source_start_char=mention.span.start,
                source_end_char=mention.span.end,
                answer_start_char=answer.start,
                answer_end_char=answer.end,
                entity_label=mention.label,
                alignment_score=score,
            )
        )
        pieces += [before, QUE_TOKEN]
        length += len(QUE_TOKEN)
        end = mention.span.end
    return ClismExample(
        id=sentences.id,
        source_lang=sentences.languages.source,
        target_lang=sentences.languages.target,
        source_text=sentences.source_text,
        masked_source_text="".join([*pieces, sentences.source_text[end:]]),
        target_text=sentences.target_text,
        questions=tuple(questions),
        corpus=sentences.corpus,
        line=sentences.line,
    )
