"""Shows labelled records (questions, tagged sentences and sentence pairs), and their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import by_count, in_words
from schemas.inspection.tallies import (
    Tallies,
    counts_line,
    deciles,
    histogram_line,
    ledger_lines,
    quantiles,
    quantiles_line,
    tally,
)
from schemas.inspection.terminal import Mark, has_right_to_left, isolated, marked, visible
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample
from schemas.shards import langs_of
from schemas.spec import View

# --- one record ------------------------------------------------------------------------------------------------------


def render_question(example: MrcExample, color: bool = False) -> str:
    """Returns four lines, such as these. Of answers that start together, the longest is marked.

    en  xquad  56be…
      query    Who won?
      context  The ⟦Broncos⟧ won.
      answers  Broncos
    """
    context = example.context
    isolate = any(map(has_right_to_left, (example.query, context, *example.answer_texts)))
    answers: list[Mark] = []
    for start, end in sorted(set(example.answers), key=lambda span: (span.start, -span.end)):
        if not answers or start >= answers[-1].end:
            answers.append(Mark(start, end, f"⟦{visible(context[start:end])}⟧", 1))
    texts = " | ".join(isolated(visible(text), isolate) for text in dict.fromkeys(example.answer_texts))
    label = "" if example.label is None else f"  {visible(example.label)}"
    asked = "" if example.query_lang is None else f", asked in {visible(example.query_lang)}"
    source = "" if example.source_id is None else f"  (published as {visible(example.source_id)})"
    return _lines(
        f"{example.lang}{asked}  {visible(example.task)}{label}  {visible(example.id)}{source}",
        f"  query    {isolated(visible(example.query), isolate)}",
        f"  context  {isolated(marked(context, answers, isolate, color), isolate)}",
        f"  answers  {texts if example.answerable else 'none: unanswerable'}",
    )


def render_sentence(example: TaggingExample, color: bool = False) -> str:
    """Returns three lines, such as:

    de  universal_ner  n01001-0001
      text   In ⟦LOC Hanoi⟧.
      words  3, entities 1
    """
    text = example.text
    isolate = has_right_to_left(text)
    found: list[tuple[int, int, str]] = []
    for (start, end), tag in zip(example.tokens, example.tags, strict=False):
        if tag.startswith("B-"):
            found.append((start, end, tag[2:]))
        elif found and tag == f"I-{found[-1][2]}":  # IOB2: the previous entity goes on
            found[-1] = (found[-1][0], end, tag[2:])
    labels = sorted({label for _, _, label in found})
    marks = [
        Mark(start, end, f"⟦{visible(f'{label} {text[start:end]}')}⟧", labels.index(label) + 1)
        for start, end, label in found
    ]
    return _lines(
        f"{example.lang}  {visible(example.task)}  {visible(example.id)}",
        f"  text   {isolated(marked(text, marks, isolate, color), isolate)}",
        f"  words  {len(example.tokens)}, {f'entities {len(found)}' if example.tags else 'no tags'}",
    )


def render_pair(example: PairExample, color: bool = False) -> str:
    """Returns four lines, such as:

    en  paws_x  3
      sentence1  Anna lives in Hanoi.
      sentence2  Hanoi is where Anna lives.
      label      1
    """
    isolate = has_right_to_left(example.sentence1) or has_right_to_left(example.sentence2)
    return _lines(
        f"{example.lang}  {visible(example.task)}  {visible(example.id)}",
        f"  sentence1  {isolated(visible(example.sentence1), isolate)}",
        f"  sentence2  {isolated(visible(example.sentence2), isolate)}",
        f"  label      {'none' if example.label is None else visible(example.label)}",
    )


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


# --- all of them -----------------------------------------------------------------------------------------------------


def tally_questions(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs, answers, context_chars = langs_of(batch), batch["answers"], pc.utf8_length(batch["context"])
    tally(tallies, "tasks", langs, batch["task"])
    if "query_lang" in batch.schema.names:
        others = pc.indices_nonzero(pc.is_valid(batch["query_lang"]))
        tally(tallies, "asked_in", langs.take(others), batch["query_lang"].take(others))
    asked = pc.indices_nonzero(pc.is_valid(batch["label"]))
    tally(tallies, "labels", langs.take(asked), batch["label"].take(asked))
    tally(tallies, "answers_per_question", langs, pc.list_value_length(batch["answer_texts"]))
    tally(tallies, "query_chars", langs, pc.utf8_length(batch["query"]))
    tally(tallies, "context_chars", langs, context_chars)
    rows, spans = pc.list_parent_indices(answers), pc.list_flatten(answers)  # of answers with a known span
    start, end = spans.field("start_char"), spans.field("end_char")
    tally(tallies, "answer_chars", langs.take(rows), pc.subtract(end, start))
    tally(tallies, "answer_position", langs.take(rows), deciles(start, end, context_chars.take(rows)))


def tally_sentences(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs, tags = langs_of(batch), batch["tags"]
    tally(tallies, "tasks", langs, batch["task"])
    tally(tallies, "words", langs, pc.list_value_length(batch["tokens"]))
    rows, values = pc.list_parent_indices(tags), pc.list_flatten(tags)
    first = pc.indices_nonzero(pc.starts_with(values, "B-"))
    tally(tallies, "entities", langs.take(rows.take(first)), pc.utf8_slice_codeunits(values.take(first), 2))


def tally_pairs(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs = langs_of(batch)
    tally(tallies, "tasks", langs, batch["task"])
    tally(tallies, "labels", langs, pc.fill_null(batch["label"], "none"))
    for name in ("sentence1", "sentence2"):
        tally(tallies, f"{name}_chars", langs, pc.utf8_length(batch[name]))


def _shares(counts: Counter[Any]) -> dict[str, int]:
    return dict(by_count({str(value): count for value, count in sorted(counts.items())}))


def _tenths(counts: Counter[Any]) -> list[int]:
    return [counts[tenth] for tenth in range(10)]


def _shares_line(counts: dict[str, int]) -> str:
    return counts_line(counts, sum(counts.values()))


# What is tallied → how it is reported, as JSON values and as a line.
_REPORTED: dict[str, tuple[Callable[[Counter[Any]], Any], Callable[[Any], str]]] = {
    "tasks": (_shares, _shares_line),
    "asked_in": (_shares, _shares_line),
    "labels": (_shares, _shares_line),
    "entities": (_shares, _shares_line),
    "answers_per_question": (_shares, _shares_line),
    "answer_chars": (quantiles, quantiles_line),
    "answer_position": (_tenths, histogram_line),
    "query_chars": (quantiles, quantiles_line),
    "context_chars": (quantiles, quantiles_line),
    "words": (quantiles, quantiles_line),
    "sentence1_chars": (quantiles, quantiles_line),
    "sentence2_chars": (quantiles, quantiles_line),
}


def language_statistics(lang: str, counts: RecordCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    return {
        **counts.to_json(),
        **{name: values(tallies[name]) for name, (values, _) in _REPORTED.items() if tallies.get(name)},
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {numbers['schema']}, {numbers['rows']:,} records, {numbers['shards']:,} shards, "
        f"{numbers['bytes']:,} bytes"
    ]
    width = max(map(len, _REPORTED))
    for lang, values in numbers["languages"].items():
        lines += ["", *ledger_lines(lang, values, RecordCounts)]
        lines += [
            f"  {in_words(column):{width}}  {line(values[column])}"
            for column, (_, line) in _REPORTED.items()
            if column in values
        ]
    return lines


QUESTIONS = View(render_question, tally_questions, language_statistics, render_statistics)
SENTENCES = View(render_sentence, tally_sentences, language_statistics, render_statistics)
PAIRS = View(render_pair, tally_pairs, language_statistics, render_statistics)
