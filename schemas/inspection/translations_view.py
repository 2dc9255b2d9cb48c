"""Shows translations of labelled records, and their statistics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.counts import by_count, share
from schemas.inspection.records_view import render_pair, render_question, render_sentence
from schemas.inspection.tallies import Tallies, ledger_lines, quantiles, quantiles_line, tally
from schemas.inspection.terminal import has_right_to_left, isolated, visible
from schemas.mrc import MrcExample, TaggingExample
from schemas.shards import langs_of
from schemas.spec import View
from schemas.translations import Translation, TranslationCounts


def render_example(example: Translation, color: bool = False) -> str:
    """Returns the source's texts, the translation as a record, and where its labels come from, such as:

    en-de  labels projected, score 0.90
      source   Who won?
      source   The Broncos won.
    de  squad  56be…
      query    Wer gewann?
      context  Die ⟦Broncos⟧ gewannen.
      answers  Broncos
    """
    score = "" if example.score is None else f", score {example.score:.2f}"
    isolate = any(map(has_right_to_left, example.source_texts))
    lines = [
        f"{visible(example.source_lang)}-{visible(example.target_lang)}  labels {visible(example.labels)}{score}",
        *(f"  source   {isolated(visible(text), isolate)}" for text in example.source_texts),
    ]
    record = example.record()
    if isinstance(record, MrcExample):
        shown = render_question(record, color)
    elif isinstance(record, TaggingExample):
        shown = render_sentence(record, color)
    else:
        shown = render_pair(record, color)
    return "".join(f"{line}\n" for line in lines) + shown


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs = langs_of(batch)
    tally(tallies, "tasks", langs, batch["task"])
    tally(tallies, "labels", langs, batch["labels"])
    rows, texts = pc.list_parent_indices(batch["texts"]), pc.list_flatten(batch["texts"])
    tally(tallies, "chars", langs.take(rows), pc.utf8_length(texts))
    scored = batch.filter(pc.is_valid(batch["score"]))
    percent = pc.cast(pc.round(pc.multiply(pc.cast(scored["score"], pa.float64()), 100)), pa.int64())
    tally(tallies, "score_percent", langs_of(scored), percent)


def langs_statistics(pair: str, counts: TranslationCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    return {
        **counts.to_json(),
        "tasks": dict(by_count(tallies["tasks"])),
        "labels": dict(by_count(tallies["labels"])),
        "chars": quantiles(tallies["chars"]),
        "score_percent": quantiles(tallies["score_percent"]),
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {numbers['schema']}, {numbers['rows']:,} translations, {numbers['shards']:,} shards, "
        f"{numbers['bytes']:,} bytes"
    ]
    for pair, values in numbers["pairs"].items():
        labelled = share(values["known"] + values["projected"], values["examples"])
        lines += [
            "",
            *ledger_lines(pair, values, TranslationCounts),
            f"  tasks                    {_counts_line(values['tasks'])}",
            f"  labels                   {_counts_line(values['labels'])} ({labelled} labelled)",
            f"  characters per text      {quantiles_line(values['chars'])}",
            f"  score of labels, percent {quantiles_line(values['score_percent'])}",
        ]
    return lines


def _counts_line(counts: dict[str, int]) -> str:
    return " · ".join(f"{visible(name)} {count:,}" for name, count in counts.items()) or "–"


VIEW = View(render_example, tally_rows, langs_statistics, render_statistics)
