"""Looking at a dataset: examples with their answers marked, and what its rows are like in numbers."""

from __future__ import annotations

import difflib
import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.inspection import anchor_mrc_view, candidates_view, clism_view, records_view
from schemas.inspection.tallies import Tallies, no_tallies
from schemas.inspection.terminal import has_right_to_left, isolated, visible
from schemas.manifest import NotFoundError
from schemas.rejects import Reject
from schemas.shards import EXAMPLES, langs_of, read_rejects, read_shards


class View(NamedTuple):
    """How a schema's examples are shown, one by one and in numbers."""

    langs: str  # what the manifest counts by
    langs_plural: str
    render_example: Callable[[Any, bool], str]
    tally_rows: Callable[[Tallies, pa.RecordBatch], None]
    langs_statistics: Callable[[str, Any, Any], dict[str, Any]]
    render_statistics: Callable[[str, dict[str, Any]], list[str]]


VIEWS = {
    "anchor_mrc/1": View(
        "language",
        "languages",
        anchor_mrc_view.render_example,
        anchor_mrc_view.tally_rows,
        anchor_mrc_view.language_statistics,
        anchor_mrc_view.render_statistics,
    ),
    "candidates/1": View(
        "language",
        "languages",
        candidates_view.render_example,
        candidates_view.tally_rows,
        candidates_view.language_statistics,
        candidates_view.render_statistics,
    ),
    "clism/1": View(
        "pair",
        "pairs",
        clism_view.render_example,
        clism_view.tally_rows,
        clism_view.pair_statistics,
        clism_view.render_statistics,
    ),
    **{
        schema: View(
            "language",
            "languages",
            render,
            tally,
            records_view.language_statistics,
            records_view.render_statistics,
        )
        for schema, render, tally in (
            ("mrc/1", records_view.render_question, records_view.tally_questions),
            ("mrc/2", records_view.render_question, records_view.tally_questions),
            ("pair/1", records_view.render_pair, records_view.tally_pairs),
            ("tagging/1", records_view.render_sentence, records_view.tally_sentences),
        )
    },
}


# --- show ------------------------------------------------------------------------------------------------------------


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
    """Prints examples from all over a dataset: those that a hash of (seed, id) ranks first, or the one with that id."""
    index = manifest.load(folder)
    view = VIEWS[index.schema]
    _check_known(view.langs, langs, index.counts)
    batches = list(read_shards(folder))
    if answerable is not None and batches and "answerable" not in batches[0].schema.names:
        raise NotFoundError(f"{folder}: what is answerable is not told in {index.schema}. Leave the argument out")
    chosen = _choose(batches, "id", count, seed, langs, {"id": example_id, "answerable": answerable})
    if not chosen and example_id is not None:
        raise NotFoundError(f"{folder}: no example has id {example_id}. Look among the rejects too: add --rejects")
    shown = (view.render_example(EXAMPLES[index.schema].from_row(row), color) for row in chosen)
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
    """Prints rejects of the kept sample, chosen as examples are."""
    index = manifest.load(folder)
    _check_known(VIEWS[index.schema].langs, langs, index.counts)
    _check_known("reason", reason, {name for reasons in index.totals.rejects().values() for name in reasons})
    wanted = {"reason": reason, "record_id": record_id}
    chosen = _choose(list(read_rejects(folder)), "record_id", count, seed, langs, wanted)
    if not chosen and record_id is not None:
        raise NotFoundError(f"{folder}: no reject of the kept sample has id {record_id}")
    _write_apart(stream, (render_reject(Reject(**row)) for row in chosen), "No rejects of this kind are kept.\n")


def render_reject(reject: Reject) -> str:
    excerpt = isolated(visible(reject.excerpt), has_right_to_left(reject.excerpt))
    where = f"{visible(reject.corpus)}:{reject.line}"
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
    batches: Sequence[pa.RecordBatch],
    id_column: str,
    count: int,
    seed: int,
    langs: str | None,
    wanted: dict[str, Any],
) -> list[dict[str, Any]]:
    """Rows whose columns have the wanted values, ranked by hash of (seed, id). Only these columns are read for it."""
    ranked = (
        (hashlib.blake2b(f"{seed}\0{row_id}".encode(), digest_size=8).digest(), at, row)
        for at, batch in enumerate(batches)
        for rows in [_rows_with(batch, langs, wanted)]
        for row, row_id in zip(rows.to_pylist(), batch[id_column].take(rows).to_pylist(), strict=True)
    )
    places = [(at, row) for _, at, row in heapq.nsmallest(count, ranked)]
    return [batches[at].slice(row, 1).to_pylist()[0] for at, row in places]


def _rows_with(batch: pa.RecordBatch, langs: str | None, wanted: dict[str, Any]) -> pa.Array:
    mask = pa.repeat(True, batch.num_rows)
    if langs is not None:
        mask = pc.equal(langs_of(batch), langs)
    for column, value in wanted.items():
        if value is not None:
            mask = pc.and_(mask, pc.equal(batch[column], value))
    return pc.indices_nonzero(mask)


def _check_known(what: str, value: str | None, known: Iterable[str]) -> None:
    if value is None or value in (known := sorted(known)):
        return
    close = difflib.get_close_matches(value, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise NotFoundError(f"the dataset has no {what} {value!r}.{hint} It has: {', '.join(known) or 'none'}")


# --- stats -----------------------------------------------------------------------------------------------------------


def statistics(folder: str | Path, langs: str | None = None) -> dict[str, Any]:
    """Everything that `polyspan-inspect stats` says, as plain JSON values. Reads the rows once, batch by batch."""
    index = manifest.load(folder)
    view = VIEWS[index.schema]
    _check_known(view.langs, langs, index.counts)
    tallies = no_tallies()
    for batch in read_shards(folder):
        view.tally_rows(tallies, batch)
    return {
        "schema": index.schema,
        "shards": len(index.shards),
        "rows": sum(shard.rows for shard in index.shards),
        "bytes": sum(shard.bytes for shard in index.shards),
        "totals": index.totals.to_json(),
        view.langs_plural: {
            name: view.langs_statistics(name, index.counts[name], tallies[name])
            for name in (sorted(index.counts) if langs is None else [langs])
        },
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> str:
    """What `statistics` returned, for reading."""
    return "".join(f"{line}\n" for line in VIEWS[numbers["schema"]].render_statistics(name, numbers))
