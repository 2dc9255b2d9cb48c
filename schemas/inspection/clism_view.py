"""Shows CLISM examples with their answers marked, and their statistics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.clism import QUE_TOKEN, ClismExample, PairCounts
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
from schemas.inspection.terminal import Mark, coloured, has_right_to_left, isolated, marked, visible
from schemas.languages import LANGUAGES
from schemas.shards import langs_of
from schemas.spec import View

_SCORE_STEPS = 1_000  # scores are tallied to three decimals


def render_example(example: ClismExample, color: bool = False) -> str:
    """Returns four lines or more, such as:

    en-vi  news.en:17  8f…
      source  [QUE 1] lives in [QUE 2].
      target  ⟦1 Anna⟧ sống ở ⟦2 Hà Nội⟧.
      1  PERSON  0.98  Anna → Anna
      2  GPE     0.91  Hanoi → Hà Nội
    """
    source, target = example.source_text, example.target_text
    isolate = has_right_to_left(source) or has_right_to_left(target)
    questions = list(enumerate(example.questions, start=1))
    ques = [
        Mark(q.que_start_char, q.que_start_char + len(QUE_TOKEN), f"[QUE {number}]", number) for number, q in questions
    ]
    answers = [
        Mark(start, end, f"⟦{number} {visible(target[start:end])}⟧", number)
        for number, q in questions
        for start, end in [(q.answer_start_char, q.answer_end_char)]
    ]
    width = max((len(q.entity_label) for _, q in questions), default=0)
    lines = [
        f"{example.source_lang}-{example.target_lang}  {visible(example.corpus)}:{example.line}  {example.id}",
        f"  source  {isolated(marked(example.masked_source_text, ques, isolate, color), isolate)}",
        f"  target  {isolated(marked(target, answers, isolate, color), isolate)}",
    ]
    for number, q in questions:
        mention = isolated(visible(source[q.source_start_char : q.source_end_char]), isolate)
        answer = isolated(visible(target[q.answer_start_char : q.answer_end_char]), isolate)
        label = visible(q.entity_label).ljust(width)
        lines.append(f"  {number}  {coloured(label, number, color)}  {q.alignment_score:.2f}  {mention} → {answer}")
    return "".join(f"{line}\n" for line in lines)


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    pairs, questions, texts = langs_of(batch), batch["questions"], batch["target_text"]
    rows = pc.list_parent_indices(questions)  # the row of each question
    question = {name: pc.list_flatten(questions).field(name) for name in questions.type.value_type.names}
    start, end = question["answer_start_char"], question["answer_end_char"]
    strings = texts.to_pylist()
    words = [
        len(strings[row][first:last].split())
        for row, first, last in zip(rows.to_pylist(), start.to_pylist(), end.to_pylist(), strict=True)
    ]
    scores = pc.round(pc.multiply(question["alignment_score"], float(_SCORE_STEPS)))
    tally(tallies, "corpora", pairs, batch["corpus"])
    tally(tallies, "questions_per_example", pairs, pc.list_value_length(questions))
    for name, values in {
        "entity_labels": question["entity_label"],
        "answer_chars": pc.subtract(end, start),
        "answer_words": pa.array(words, pa.int32()),
        "answer_deciles": deciles(start, end, pc.utf8_length(texts).take(rows)),
        "alignment_scores": scores.cast(pa.int32(), safe=False),
    }.items():
        tally(tallies, name, pairs.take(rows), values)


def pair_statistics(pair: str, counts: PairCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    target = LANGUAGES.get(pair.partition("-")[2])
    scores = quantiles(tallies["alignment_scores"])
    return {
        **counts.to_json(),
        "kept": round(counts.examples / counts.pairs_read, 4) if counts.pairs_read else None,
        "corpora": dict(by_count(tallies["corpora"])),
        "entity_labels": dict(by_count(tallies["entity_labels"])),
        "questions_per_example": {
            str(value): count for value, count in sorted(tallies["questions_per_example"].items())
        },
        "answer_chars": quantiles(tallies["answer_chars"]),
        # Words are counted between white space, which is meaningless in languages that do not write any.
        "answer_words": quantiles(tallies["answer_words"]) if target is None or target.spaced else None,
        "answer_position_deciles": [tallies["answer_deciles"][decile] for decile in range(10)],
        "alignment_score": scores and {name: round(value / _SCORE_STEPS, 6) for name, value in scores.items()},
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {numbers['schema']}, {numbers['rows']:,} examples, {numbers['totals']['questions']:,} questions, "
        f"{numbers['shards']:,} shards, {numbers['bytes']:,} bytes"
    ]
    for pair, values in numbers["pairs"].items():
        words = quantiles_line(values["answer_words"]) if values["answer_words"] else "not spaced"
        lines += [
            "",
            *ledger_lines(pair, values, PairCounts),
            f"  questions per example  {counts_line(values['questions_per_example'], values['examples'])}",
            f"  entity labels          {counts_line(values['entity_labels'], values['questions'])}",
            f"  answer characters      {quantiles_line(values['answer_chars'])}",
            f"  answer words           {words}",
            f"  answer position        {histogram_line(values['answer_position_deciles'])}",
            f"  alignment score        {quantiles_line(values['alignment_score'])}",
            f"  corpora                {counts_line(values['corpora'], values['examples'])}",
        ]
    return lines


VIEW = View(render_example, tally_rows, pair_statistics, render_statistics)
