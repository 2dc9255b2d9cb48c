"""Shows a baseline's candidates, and how often a true answer is among the best."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.candidates import RECALL_AT, CandidateCounts, CandidateSet
from schemas.counts import share
from schemas.inspection.tallies import Tallies, ledger_lines, quantiles, quantiles_line, tally
from schemas.inspection.terminal import coloured, visible
from schemas.shards import langs_of
from schemas.spec import View


def render_example(example: CandidateSet, color: bool = False) -> str:
    """Returns a line per candidate with its span and probability; the first true answer is marked.

    en  56be…
      1  [0, 11)  0.500
      2  [4, 11)  0.250  true answer
    """
    lines = [f"{example.lang}  {visible(example.id)}"]
    for rank, (start, end, score) in enumerate(example.candidates, start=1):
        true = f"  {coloured('true answer', 1, color)}" if rank == example.gold_rank else ""
        lines.append(f"  {rank}  [{start}, {end})  {score:.3f}{true}")
    if example.gold_rank is None:
        lines.append("  no true answer among them")
    return "".join(f"{line}\n" for line in lines)


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    langs, candidates = langs_of(batch), batch["candidates"]
    tally(tallies, "candidates", langs, pc.list_value_length(candidates))
    rows, spans = pc.list_parent_indices(candidates), pc.list_flatten(candidates)
    lengths = pc.subtract(spans.field("end_char"), spans.field("start_char"))
    tally(tallies, "candidate_chars", langs.take(rows), lengths)


def language_statistics(lang: str, counts: CandidateCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    return {
        **counts.to_json(),
        "candidates_per_question": quantiles(tallies["candidates"]),
        "candidate_chars": quantiles(tallies["candidate_chars"]),
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {numbers['schema']}, candidates for {numbers['rows']:,} questions, {numbers['shards']:,} shards, "
        f"{numbers['bytes']:,} bytes"
    ]
    for lang, values in numbers["languages"].items():
        recalls = (f"@{k} {share(values[f'hits_at_{k}'], values['examples'])}" for k in RECALL_AT)
        lines += [
            "",
            *ledger_lines(lang, values, CandidateCounts),
            f"  recall                   {' · '.join(recalls)}",
            f"  candidates per question  {quantiles_line(values['candidates_per_question'])}",
            f"  candidate characters     {quantiles_line(values['candidate_chars'])}",
        ]
    return lines


VIEW = View(render_example, tally_rows, language_statistics, render_statistics)
