"""Shows anchor-MRC examples with their masks and answers marked, and their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.anchor_mrc import AnchorCounts, AnchorMrcExample, ArticleRef
from schemas.counts import by_count
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
from schemas.shards import langs_of
from schemas.spec import View

_KINDS = ("answerable", "unanswerable")
_MEASURES = (
    "context_chars",
    "words_before_drawn",
    "words_before_anchor",
)  # both kinds must be alike


def render_example(example: AnchorMrcExample, color: bool = False) -> str:
    """Returns five lines, such as:

    en  Hanoi  8f…
      query    ⟦?⟧ is the capital of Vietnam.
      context  Anna came to ⟦Hanoi⟧ in 1999.
      answers  1; words before the anchor: 3 (drawn: 120)
      from     Hanoi (page 56, revision 560) · Anna (page 7, revision 78)
    """
    query, context = example.query_text, example.context_text
    isolate = has_right_to_left(query) or has_right_to_left(context) or has_right_to_left(example.entity)
    masks = [Mark(start, end, "⟦?⟧", 1) for start, end in example.query_mask_spans]
    answers = [Mark(start, end, f"⟦{visible(context[start:end])}⟧", 1) for start, end in example.answers]
    kind = f"{len(answers)}; words before the anchor" if example.answerable else "unanswerable; words before the cut"

    def article(ref: ArticleRef) -> str:
        return f"{isolated(visible(ref.title), isolate)} (page {ref.page_id}, revision {ref.revision_id})"

    lines = [
        f"{example.lang}  {isolated(visible(example.entity), isolate)}  {example.id}",
        f"  query    {isolated(marked(query, masks, isolate, color), isolate)}",
        f"  context  {isolated(marked(context, answers, isolate, color), isolate)}",
        f"  answers  {kind}: {example.words_before_anchor} (drawn: {example.words_before_drawn})",
        f"  from     {article(example.definition_article)} · {article(example.mention_article)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs, answers, answerable = langs_of(batch), batch["answers"], batch["answerable"]
    context_chars = pc.utf8_length(batch["context_text"])
    measures = (context_chars, batch["words_before_drawn"], batch["words_before_anchor"])
    for kind, rows in zip(
        _KINDS, (pc.indices_nonzero(answerable), pc.indices_nonzero(pc.invert(answerable))), strict=True
    ):
        for name, values in zip(_MEASURES, measures, strict=True):
            tally(tallies, f"{name} {kind}", langs.take(rows), values.take(rows))
    tally(tallies, "query_chars", langs, pc.utf8_length(batch["query_text"]))
    tally(tallies, "masks_per_query", langs, pc.list_value_length(batch["query_mask_spans"]))
    answered = pc.indices_nonzero(answerable)
    tally(tallies, "answers_per_example", langs.take(answered), pc.list_value_length(answers).take(answered))
    rows = pc.list_parent_indices(answers)  # the row of each answer
    spans = pc.list_flatten(answers)
    start, end = spans.field("start_char"), spans.field("end_char")
    tally(tallies, "answer_chars", langs.take(rows), pc.subtract(end, start))
    tally(tallies, "answer_deciles", langs.take(rows), deciles(start, end, context_chars.take(rows)))


def language_statistics(lang: str, counts: AnchorCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    def occurrences(name: str) -> dict[str, int]:
        return {str(value): count for value, count in sorted(tallies[name].items())}

    return {
        **counts.to_json(),
        "examples": counts.examples,
        "answers_per_example": occurrences("answers_per_example"),
        "answer_chars": quantiles(tallies["answer_chars"]),
        "answer_position_deciles": [tallies["answer_deciles"][decile] for decile in range(10)],
        "masks_per_query": occurrences("masks_per_query"),
        "query_chars": quantiles(tallies["query_chars"]),
        **{name: {kind: quantiles(tallies[f"{name} {kind}"]) for kind in _KINDS} for name in _MEASURES},
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    """Lists languages, entities and examples first, as in mPMR's table 4."""
    languages, totals = numbers["languages"], numbers["totals"]
    columns = ("entities", *_KINDS)
    every = {"all": totals} if len(languages) > 1 else {}
    rows = [
        (lang, *(f"{values[column]:,}" for column in columns), f"{values['answerable'] + values['unanswerable']:,}")
        for lang, values in (languages | every).items()
    ]
    lines = [
        f"{name}: {numbers['schema']}, {numbers['rows']:,} examples, {numbers['shards']:,} shards, "
        f"{numbers['bytes']:,} bytes",
        "",
        *_table([("language", *columns, "examples"), *rows]),
    ]
    for lang, values in languages.items():
        saved = dict(by_count(values["links_saved_by"]))
        lines += [
            "",
            *ledger_lines(lang, values, AnchorCounts),
            f"  links saved by       {counts_line(saved, values['mentions'])}",
            f"  answers per example  {counts_line(values['answers_per_example'], values['answerable'])}",
            f"  answer characters    {quantiles_line(values['answer_chars'])}",
            f"  answer position      {histogram_line(values['answer_position_deciles'])}",
            f"  masks per query      {counts_line(values['masks_per_query'], values['examples'])}",
            f"  query characters     {quantiles_line(values['query_chars'])}",
        ]
        for name, label in zip(
            _MEASURES, ("context characters", "words before: drawn", "words before: cut"), strict=True
        ):
            lines += [f"  {label:19}  {kind:12}  {quantiles_line(values[name][kind])}" for kind in _KINDS]
    return lines


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


VIEW = View(render_example, tally_rows, language_statistics, render_statistics)
