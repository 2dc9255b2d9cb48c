"""Every task as machine reading comprehension: what is asked of a text, and where it answers (mPMR, 3 and table 6).

A sentence is asked for each of its labels, a pair of sentences whether each label is true of it. Queries are English,
whatever the language of the text, and spelt as table 6 prints them, blanks before punctuation included.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from training.tasks.catalog import TASKS
from training.tasks.tags import entities

# Entities, then the targets of sentiments, as in table 6.
SPAN_QUERIES = {
    "ORG": '"ORG" . Organization entities are limited to named corporate, governmental, or other organizational '
    "entities.",
    "PER": '"PER" . Person entities are named persons or family .',
    "LOC": '"LOC" . Location entities are the name of politically or geographically defined locations such as cities , '
    "countries .",
    "MISC": '"MISC" . Examples of miscellaneous entities include events , nationalities , products and works of art .',
    "POS": '"POS" . For aspect terms of positive sentiment .',
    "NEG": '"NEG" . For aspect terms of negative sentiment .',
    "NEU": '"NEU" . For aspect terms of neutral sentiment .',
}

# Table 6 has PAWS-X's two alone; XNLI's third is in our words.
PAIR_QUERIES = {
    "contradiction": "Contradiction . The hypothesis is a sentence with a contradictory meaning to the premise .",
    "entailment": "Entailment . The hypothesis is a sentence with a similar meaning as the premise .",
    "neutral": "Neutral . The hypothesis is a sentence that the premise neither confirms nor contradicts .",
}
PARAPHRASES = {"0": "contradiction", "1": "entailment"}  # PAWS-X's labels, as table 6 reads them


def span_query(label: str) -> str:
    """What asks for the entities or targets of a label; one that table 6 lacks is asked for by its name."""
    return SPAN_QUERIES.get(label, f'"{label}" . Entities of the type {label.replace("-", " ").replace("_", " ")} .')


def pair_query(label: str) -> str:
    """What asks whether a label is true of a pair."""
    name = PARAPHRASES.get(label, label)
    return PAIR_QUERIES.get(name, f"{name.capitalize()} . The relation of the hypothesis to the premise is {name} .")


def tag_queries(record: TaggingExample, labels: Sequence[str]) -> list[MrcExample]:
    """One for each label, in their order; without answers where the sentence has no entity of it, or no tags."""
    return [_tag_query(record, label) for label in labels]


def pair_queries(record: PairExample, labels: Sequence[str]) -> list[MrcExample]:
    """One for each label, in their order. No part of the text answers them: that one is answered only says that its
    label is the pair's."""
    first, second = record.sentence1, record.sentence2
    # Table 6 calls PAWS-X's first sentence the hypothesis; XNLI has its hypotheses second.
    premise_first = record.task in TASKS and TASKS[record.task].premise_first
    hypothesis, premise = (second, first) if premise_first else (first, second)
    context = f"Hypothesis : {hypothesis} Premise : {premise}"
    return [_unanswered(record, pair_query(label), context, label) for label in labels]


def rationale_queries(record: PairExample, label: str) -> tuple[MrcExample, MrcExample]:
    """Which words make the label true? `label Sen-1` asked of Sen-2 (mPMR, 4, on explainable classification).

    Each sentence is once the context, the first sentence first; `label` says which, "sentence1" or "sentence2"."""
    name = PARAPHRASES.get(label, label).capitalize()
    return (
        _unanswered(record, f"{name} . {record.sentence2}", record.sentence1, "sentence1"),
        _unanswered(record, f"{name} . {record.sentence1}", record.sentence2, "sentence2"),
    )


def _tag_query(record: TaggingExample, label: str) -> MrcExample:
    words = record.tokens
    found = [each for each in entities(record.tags) if each.type == label]
    answers = tuple(CharSpan(words[each.start].start, words[each.end - 1].end) for each in found)
    return MrcExample(
        id=record.id,
        lang=record.lang,
        query=span_query(label),
        context=record.text,
        answers=answers,
        answer_texts=tuple(answer.of(record.text) for answer in answers),
        answerable=bool(answers),
        task=record.task,
        label=label,
    )


def _unanswered(record: PairExample, query: str, context: str, label: str) -> MrcExample:
    return MrcExample(
        id=record.id,
        lang=record.lang,
        query=query,
        context=context,
        answers=(),
        answer_texts=(),
        answerable=False,
        task=record.task,
        label=label,
    )
