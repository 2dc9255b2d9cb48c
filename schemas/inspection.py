"""Looking at a dataset: examples with their answers marked, and what its rows are like in numbers."""

from __future__ import annotations

import difflib
import hashlib
import heapq
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.card import by_count, share
from schemas.clism import QUE_TOKEN, ClismExample
from schemas.languages import LANGUAGES
from schemas.manifest import DatasetError, Manifest
from schemas.rejects import Reject
from schemas.shards import read_rejects, read_shards

# --- show ------------------------------------------------------------------------------------------------------------

_COLOURS = (32, 33, 36, 35, 34, 31)  # ANSI: question 1 is green
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"  # of Unicode's bidirectional algorithm
# Text of a corpus must not steer the terminal: its control characters and overrides of direction are spelt out.
_VISIBLE = (
    {code: chr(0x2400 + code) for code in range(0x20)}
    | {0x7F: "\u2421"}
    | {code: f"<U+{code:04X}>" for code in (*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
)


def show_examples(
    folder: str | Path,
    count: int,
    pair: str | None,
    stream: TextIO,
    *,
    seed: int = 0,
    example_id: str | None = None,
    color: bool = False,
) -> None:
    """Prints examples from all over a dataset: those that a hash of (seed, id) ranks first, or the one with that id."""
    index = manifest.load(folder)
    _check_known("pair", pair, index.counts)
    chosen = _choose(list(read_shards(folder)), "id", count, seed, {"pair": pair, "id": example_id})
    if not chosen and example_id is not None:
        raise DatasetError(f"{folder}: no example has id {example_id}. Look among the rejects too: add --rejects")
    shown = (render_example(ClismExample.from_row(row), color) for row in chosen)
    _write_apart(stream, shown, "No examples. What was left out, and why: --rejects\n")


def show_rejects(
    folder: str | Path,
    count: int,
    pair: str | None,
    stream: TextIO,
    *,
    seed: int = 0,
    reason: str | None = None,
    record_id: str | None = None,
) -> None:
    """Prints rejects of the kept sample, chosen as examples are."""
    index = manifest.load(folder)
    _check_known("pair", pair, index.counts)
    _check_known("reason", reason, {**index.totals.pair_rejects, **index.totals.mention_rejects})
    wanted = {"pair": pair, "reason": reason, "record_id": record_id}
    chosen = _choose(list(read_rejects(folder)), "record_id", count, seed, wanted)
    if not chosen and record_id is not None:
        raise DatasetError(f"{folder}: no reject of the kept sample has id {record_id}")
    _write_apart(stream, (render_reject(Reject(**row)) for row in chosen), "No rejects of this kind are kept.\n")


def render_example(example: ClismExample, color: bool = False) -> str:
    """Four lines and more:

    en-vi  news.en:17  8f…
      source  [QUE 1] lives in [QUE 2].
      target  ⟦1 Anna⟧ sống ở ⟦2 Hà Nội⟧.
      1  PERSON  0.98  Anna → Anna
      2  GPE     0.91  Hanoi → Hà Nội
    """
    source, target = example.source_text, example.target_text
    isolate = _has_right_to_left(source) or _has_right_to_left(target)
    questions = list(enumerate(example.questions, start=1))
    ques = [(q.que_start_char, q.que_start_char + len(QUE_TOKEN), f"[QUE {number}]", number) for number, q in questions]
    answers = [
        (start, end, f"⟦{number} {_visible(target[start:end])}⟧", number)
        for number, q in questions
        for start, end in [(q.answer_start_char, q.answer_end_char)]
    ]
    width = max((len(q.entity_label) for _, q in questions), default=0)
    lines = [
        f"{_pair_of(example)}  {_visible(example.corpus)}:{example.line}  {example.id}",
        f"  source  {_isolated(_marked(example.masked_source_text, ques, isolate, color), isolate)}",
        f"  target  {_isolated(_marked(target, answers, isolate, color), isolate)}",
    ]
    for number, q in questions:
        mention = _isolated(_visible(source[q.source_start_char : q.source_end_char]), isolate)
        answer = _isolated(_visible(target[q.answer_start_char : q.answer_end_char]), isolate)
        label = _visible(q.entity_label).ljust(width)
        lines.append(f"  {number}  {_coloured(label, number, color)}  {q.alignment_score:.2f}  {mention} → {answer}")
    return "".join(f"{line}\n" for line in lines)


def render_reject(reject: Reject) -> str:
    excerpt = _isolated(_visible(reject.excerpt), _has_right_to_left(reject.excerpt))
    where = f"{_visible(reject.corpus)}:{reject.line}"
    return f"{reject.pair}  {where}  {reject.record_id}\n  {reject.unit}: {reject.reason}\n  {excerpt}\n"


def _write_apart(stream: TextIO, texts: Iterable[str], otherwise: str) -> None:
    """Writes the texts with an empty line between them; `otherwise` if there are none."""
    apart = ""
    for text in texts:
        stream.write(apart + text)
        apart = "\n"
    if not apart:
        stream.write(otherwise)


def _choose(
    batches: Sequence[pa.RecordBatch], id_column: str, count: int, seed: int, wanted: dict[str, str | None]
) -> list[dict[str, Any]]:
    """Rows whose columns have the wanted values, ranked by hash of (seed, id). Only these columns are read for it."""
    ranked = (
        (hashlib.blake2b(f"{seed}\0{row_id}".encode(), digest_size=8).digest(), at, row)
        for at, batch in enumerate(batches)
        for rows in [_rows_with(batch, wanted)]
        for row, row_id in zip(rows.to_pylist(), batch[id_column].take(rows).to_pylist(), strict=True)
    )
    places = [(at, row) for _, at, row in heapq.nsmallest(count, ranked)]
    return [batches[at].slice(row, 1).to_pylist()[0] for at, row in places]


def _rows_with(batch: pa.RecordBatch, wanted: dict[str, str | None]) -> pa.Array:
    mask = pa.repeat(True, batch.num_rows)
    for column, value in wanted.items():
        if value is not None:
            mask = pc.and_(mask, pc.equal(_pairs_of(batch) if column == "pair" else batch[column], value))
    return pc.indices_nonzero(mask)


def _pairs_of(batch: pa.RecordBatch) -> pa.Array:
    if "pair" in batch.schema.names:
        return batch["pair"]
    return pc.binary_join_element_wise(batch["source_lang"], batch["target_lang"], "-")


def _pair_of(example: ClismExample) -> str:
    return f"{example.source_lang}-{example.target_lang}"


def _check_known(what: str, value: str | None, known: Iterable[str]) -> None:
    if value is None or value in (known := sorted(known)):
        return
    close = difflib.get_close_matches(value, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise DatasetError(f"the dataset has no {what} {value!r}.{hint} It has: {', '.join(known) or 'none'}")


def _marked(text: str, marks: list[tuple[int, int, str, int]], isolate: bool, color: bool) -> str:
    """`text` with each `[start, end)` shown as its mark, in the colour of its question's number."""
    shown, at = "", 0
    for start, end, mark, number in sorted(marks):
        shown += _visible(text[at:start]) + _coloured(_isolated(mark, isolate), number, color)
        at = end
    return shown + _visible(text[at:])


def _visible(text: str) -> str:
    return text.translate(_VISIBLE)


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def _isolated(text: str, isolate: bool) -> str:
    """So that a terminal orders the text by itself, and its brackets and number stay where it stands."""
    return f"{_ISOLATE}{text}{_END_ISOLATE}" if isolate else text


def _coloured(text: str, number: int, color: bool) -> str:
    return f"\x1b[1;{_COLOURS[(number - 1) % len(_COLOURS)]}m{text}\x1b[0m" if color else text


# --- stats -----------------------------------------------------------------------------------------------------------

_QUANTILES = {"min": 0, "10%": 10, "50%": 50, "90%": 90, "max": 100}  # per cent
_SCORE_STEPS = 1_000  # scores are tallied to three decimals
_BARS = "▁▂▃▄▅▆▇█"


class _Tallies(NamedTuple):
    """How many rows or questions of a pair have a value: (pair, value) → count. Small, however many rows there are."""

    corpora: Counter[tuple[str, Any]]
    questions_per_example: Counter[tuple[str, Any]]
    entity_labels: Counter[tuple[str, Any]]
    answer_chars: Counter[tuple[str, Any]]
    answer_words: Counter[tuple[str, Any]]
    answer_deciles: Counter[tuple[str, Any]]
    alignment_scores: Counter[tuple[str, Any]]


def statistics(folder: str | Path, pair: str | None = None) -> dict[str, Any]:
    """Everything that `polyspan-inspect stats` says, as plain JSON values. Reads the rows once, batch by batch."""
    index = manifest.load(folder)
    _check_known("pair", pair, index.counts)
    tallies = _Tallies(*(Counter() for _ in _Tallies._fields))
    for batch in read_shards(folder):
        _tally_batch(tallies, batch)
    pairs = sorted(index.counts) if pair is None else [pair]
    return {
        "schema": index.schema,
        "shards": len(index.shards),
        "rows": sum(shard.rows for shard in index.shards),
        "bytes": sum(shard.bytes for shard in index.shards),
        "totals": index.totals.to_json(),
        "pairs": {name: _pair_statistics(index, tallies, name) for name in pairs},
    }


def _tally_batch(tallies: _Tallies, batch: pa.RecordBatch) -> None:
    pairs, questions, texts = _pairs_of(batch), batch["questions"], batch["target_text"]
    rows = pc.list_parent_indices(questions)  # of each question
    question = {name: pc.list_flatten(questions).field(name) for name in questions.type.value_type.names}
    start, end = question["answer_start_char"], question["answer_end_char"]
    text_chars = pc.max_element_wise(pc.utf8_length(texts).take(rows), 1)
    # The middle of the answer, in tenths of the text: floor(10 · (start + end) / 2 / length).
    decile = pc.divide(pc.multiply(pc.add(start, end), 5), text_chars)
    strings = texts.to_pylist()
    words = [
        len(strings[row][first:last].split())
        for row, first, last in zip(rows.to_pylist(), start.to_pylist(), end.to_pylist(), strict=True)
    ]
    scores = pc.round(pc.multiply(question["alignment_score"], float(_SCORE_STEPS)))
    pairs_of_questions = pairs.take(rows)
    _tally(tallies.corpora, pairs, batch["corpus"])
    _tally(tallies.questions_per_example, pairs, pc.list_value_length(questions))
    _tally(tallies.entity_labels, pairs_of_questions, question["entity_label"])
    _tally(tallies.answer_chars, pairs_of_questions, pc.subtract(end, start))
    _tally(tallies.answer_words, pairs_of_questions, pa.array(words, pa.int32()))
    _tally(tallies.answer_deciles, pairs_of_questions, pc.min_element_wise(decile, 9))
    _tally(tallies.alignment_scores, pairs_of_questions, scores.cast(pa.int32(), safe=False))


def _tally(counter: Counter[tuple[str, Any]], pairs: pa.Array, values: pa.Array) -> None:
    table = pa.table({"pair": pairs, "value": values})
    groups = table.group_by(["pair", "value"], use_threads=False).aggregate([([], "count_all")])
    for name, value, count in zip(*(groups[column].to_pylist() for column in groups.column_names), strict=True):
        counter[name, value] += count


def _pair_statistics(index: Manifest, tallies: _Tallies, pair: str) -> dict[str, Any]:
    of: dict[str, Counter[Any]] = defaultdict(Counter)
    for name, tally in tallies._asdict().items():
        of[name].update({value: count for (tallied, value), count in tally.items() if tallied == pair})
    counts = index.counts[pair]
    target = LANGUAGES.get(pair.partition("-")[2])
    scores = _quantiles(of["alignment_scores"])
    return {
        **counts.to_json(),
        "kept": round(counts.examples / counts.pairs_read, 4) if counts.pairs_read else None,
        "corpora": dict(by_count(of["corpora"])),
        "entity_labels": dict(by_count(of["entity_labels"])),
        "questions_per_example": {str(value): count for value, count in sorted(of["questions_per_example"].items())},
        "answer_chars": _quantiles(of["answer_chars"]),
        # Between white space: where words are not spaced, that says nothing of an answer's length.
        "answer_words": _quantiles(of["answer_words"]) if target is None or target.spaced else None,
        "answer_position_deciles": [of["answer_deciles"][decile] for decile in range(10)],
        "alignment_score": scores and {name: round(value / _SCORE_STEPS, 6) for name, value in scores.items()},
    }


def _quantiles(tally: Counter[int]) -> dict[str, float] | None:
    """Exact ones: the smallest value that at least so many per cent of all values do not exceed; and the mean."""
    total = tally.total()
    if not total:
        return None
    found: dict[str, float] = {}
    seen = 0
    for value, count in sorted(tally.items()):
        seen += count
        found |= {name: value for name, part in _QUANTILES.items() if name not in found and seen * 100 >= part * total}
    return found | {"mean": round(sum(value * count for value, count in tally.items()) / total, 3)}


def render_statistics(name: str, numbers: dict[str, Any]) -> str:
    """What `statistics` returned, for reading."""
    totals = numbers["totals"]
    lines = [
        f"{name}: {numbers['schema']}, {numbers['rows']:,} examples, {totals['questions']:,} questions, "
        f"{numbers['shards']:,} shards, {numbers['bytes']:,} bytes"
    ]
    for pair, of in numbers["pairs"].items():
        kept = share(of["examples"], of["pairs_read"])
        lines += [
            "",
            f"{pair}  {of['pairs_read']:,} pairs read → {of['examples']:,} examples ({kept} kept)",
            *_rows(of["pair_rejects"], of["pairs_read"]),
            f"  {of['mentions_found']:,} mentions found → {of['questions']:,} questions "
            f"({share(of['questions'], of['mentions_found'])} kept)",
            *_rows(of["mention_rejects"], of["mentions_found"]),
            f"  questions per example  {_list(of['questions_per_example'], of['examples'])}",
            f"  entity labels          {_list(of['entity_labels'], of['questions'])}",
            f"  answer characters      {_summary(of['answer_chars'])}",
            f"  answer words           {_summary(of['answer_words']) if of['answer_words'] else 'not spaced'}",
            f"  answer position        {_histogram(of['answer_position_deciles'])}",
            f"  alignment score        {_summary(of['alignment_score'])}",
            f"  corpora                {_list(of['corpora'], of['examples'])}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _rows(rejects: dict[str, int], found: int) -> list[str]:
    width = max(map(len, rejects), default=0)
    return [f"    {reason:{width}}  {count:>12,}  {share(count, found):>6}" for reason, count in by_count(rejects)]


def _list(counts: dict[str, int], whole: int) -> str:
    return " · ".join(f"{_visible(name)}: {count:,} ({share(count, whole)})" for name, count in counts.items()) or "–"


def _summary(quantiles: dict[str, float] | None) -> str:
    return " · ".join(f"{name} {value:g}" for name, value in quantiles.items()) if quantiles else "–"


def _histogram(counts: list[int]) -> str:
    """One bar per tenth of the text, in reading order, and its share."""
    most = max(counts) or 1
    bars = "".join(_BARS[count * (len(_BARS) - 1) // most] if count else " " for count in counts)
    return f"start│{bars}│end  {' '.join(share(count, sum(counts)) for count in counts)}"
