"""Shows examples with their answers marked, and rejects with their reasons."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.catalog import SCHEMAS
from schemas.counts import Counts
from schemas.errors import NotFoundError
from schemas.inspection.known_names import check_known
from schemas.inspection.terminal import has_right_to_left, isolated, visible
from schemas.rejects import Reject
from schemas.shards import langs_of, read_rejects, read_shards


def show_examples(
    folder: str | Path,
    count: int,
    langs: str | None,
    stream: TextIO,
    *,
    seed: int = 0,
    example_id: str | None = None,
    answerable: bool | None = None,
    color: bool = False,
) -> None:
    """Prints the `count` examples that a hash of (seed, id) ranks first, or the one with that id."""
    index = manifest.load(folder)
    spec = SCHEMAS[index.schema]
    check_known(spec.langs, langs, index.counts)
    batches = list(read_shards(folder))
    if answerable is not None and batches and "answerable" not in batches[0].schema.names:
        raise NotFoundError(f"{folder}: {index.schema} does not say what is answerable. Leave the argument out")
    chosen = _choose(batches, "id", count, seed, langs, {"id": example_id, "answerable": answerable})
    if not chosen and example_id is not None:
        raise NotFoundError(f"{folder}: no example has id {example_id}. Look among the rejects too: add --rejects")
    view = spec.load_view()
    shown = (view.render_example(spec.example.from_row(row), color) for row in chosen)
    _write_apart(stream, shown, "No examples. What was left out, and why: --rejects\n")


def show_rejects(
    folder: str | Path,
    count: int,
    langs: str | None,
    stream: TextIO,
    *,
    seed: int = 0,
    reason: str | None = None,
    record_id: str | None = None,
) -> None:
    """Prints rejects of the kept sample, chosen as examples are, with the sentence that explains each reason."""
    index = manifest.load(folder)
    spec = SCHEMAS[index.schema]
    check_known(spec.langs, langs, index.counts)
    check_known("reason", reason, {name for reasons in index.totals.rejects().values() for name in reasons})
    wanted = {"reason": reason, "record_id": record_id}
    chosen = _choose(list(read_rejects(folder)), "record_id", count, seed, langs, wanted)
    if not chosen and record_id is not None:
        raise NotFoundError(f"{folder}: no reject of the kept sample has id {record_id}")
    shown = (render_reject(Reject(**row), spec.counts) for row in chosen)
    _write_apart(stream, shown, "No rejects of this kind are kept.\n")


def render_reject(reject: Reject, counts: type[Counts]) -> str:
    excerpt = isolated(visible(reject.excerpt), has_right_to_left(reject.excerpt))
    where = f"{visible(reject.corpus)}:{reject.line}"
    sentence = counts.explain(reject.unit, reject.reason)
    reason = f"{reject.unit}: {reject.reason}" + (f". {sentence}" if sentence else "")
    return f"{reject.pair}  {where}  {reject.record_id}\n  {reason}\n  {excerpt}\n"


def _write_apart(stream: TextIO, texts: Iterable[str], otherwise: str) -> None:
    """Writes the texts with an empty line between them; `otherwise` if there are none."""
    apart = ""
    for text in texts:
        stream.write(apart + text)
        apart = "\n"
    if not apart:
        stream.write(otherwise)


def _choose(
    batches: Sequence[pa.RecordBatch],
    id_column: str,
    count: int,
    seed: int,
    langs: str | None,
    wanted: dict[str, Any],
) -> list[dict[str, Any]]:
    """Returns rows whose columns have the wanted values, ranked by a hash of (seed, id). To choose them, only these
    columns are read."""
    ranked = (
        (hashlib.blake2b(f"{seed}\0{row_id}".encode(), digest_size=8).digest(), number, row)
        for number, batch in enumerate(batches)
        for rows in [_rows_with(batch, langs, wanted)]
        for row, row_id in zip(rows.to_pylist(), batch[id_column].take(rows).to_pylist(), strict=True)
    )
    return [batches[number].slice(row, 1).to_pylist()[0] for _, number, row in heapq.nsmallest(count, ranked)]


def _rows_with(batch: pa.RecordBatch, langs: str | None, wanted: dict[str, Any]) -> pa.Array:
    mask = pa.repeat(True, batch.num_rows)
    if langs is not None:
        mask = pc.equal(langs_of(batch), langs)
    for column, value in wanted.items():
        if value is not None:
            mask = pc.and_(mask, pc.equal(batch[column], value))
    return pc.indices_nonzero(mask)
