"""Turns every task into machine reading comprehension: queries and their answers (mPMR, section 3 and table 6).

A sentence gets a query for each label; a pair of sentences gets a query for each label that asks whether it is true.
Queries are English for texts of all languages. Their spelling is that of table 6, with blanks before punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from training.metrics.tags import entities
from training.tasks.catalog import TASKS

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

# By the label's name, `Task.label_names`. Table 6 has PAWS-X's two alone; XNLI's third is in our words.
PAIR_QUERIES = {
    "contradiction": "Contradiction . The hypothesis is a sentence with a contradictory meaning to the premise .",
    "entailment": "Entailment . The hypothesis is a sentence with a similar meaning as the premise .",
    "neutral": "Neutral . The hypothesis is a sentence that the premise neither confirms nor contradicts .",
}


def span_query(label: str) -> str:
    """Returns the query for the entities or targets of a label. A label that table 6 lacks is asked for by its name."""
    return SPAN_QUERIES.get(label, f'"{label}" . Entities of the type {label.replace("-", " ").replace("_", " ")} .')


def label_name(task: str, label: str) -> str:
    """Returns a pair's label as queries name it: PAWS-X's "0" is "contradiction"."""
    return TASKS[task].label_names.get(label, label) if task in TASKS else label


def pair_query(name: str) -> str:
    """Returns the query that asks whether the label of this name is true of a pair."""
    return PAIR_QUERIES.get(name, f"{name.capitalize()} . The relation of the hypothesis to the premise is {name} .")


def tag_queries(record: TaggingExample, labels: Sequence[str]) -> list[MrcExample]:
    """Returns a query for each label, in their order. Its answers are the sentence's entities with this label."""
    return [_tag_query(record, label) for label in labels]


def pair_queries(record: PairExample, labels: Sequence[str]) -> list[MrcExample]:
    """Returns a query for each label, in their order. No span of the text answers them: a model only decides which
    query is answerable, and its label is the pair's."""
    first, second = record.sentence1, record.sentence2
    # Table 6 calls PAWS-X's first sentence the hypothesis; XNLI has its hypotheses second.
    premise_first = record.task in TASKS and TASKS[record.task].premise_first
    hypothesis, premise = (second, first) if premise_first else (first, second)
    context = f"Hypothesis : {hypothesis} Premise : {premise}"
    return [_unanswered(record, pair_query(label_name(record.task, label)), context, label) for label in labels]


def rationale_queries(record: PairExample, label: str) -> tuple[MrcExample, MrcExample]:
    """Returns the two queries for the words that make the label true: `label Sen-1`, asked of Sen-2 (mPMR, section 4,
    on explainable classification), and the reverse.

    The first one's context is the first sentence; `label` names the sentence, "sentence1" or "sentence2".
    """
    name = label_name(record.task, label).capitalize()
    return (
        _unanswered(record, f"{name} . {record.sentence2}", record.sentence1, "sentence1"),
        _unanswered(record, f"{name} . {record.sentence1}", record.sentence2, "sentence2"),
    )


def sentence_queries(record: PairExample, labels: Sequence[str]) -> list[MrcExample]:
    """Returns the two queries of `rationale_queries` for each label, in their order; `label` is the label."""
    return [replace(query, label=label) for label in labels for query in rationale_queries(record, label)]


def _tag_query(record: TaggingExample, label: str) -> MrcExample:
    words = record.tokens
    mentions = [entity for entity in entities(record.tags) if entity.type == label]
    answers = tuple(CharSpan(words[mention.start].start, words[mention.end - 1].end) for mention in mentions)
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
