"""Checks that a dataset folder agrees with its manifest, and every row with its schema's contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.catalog import REJECTS, SCHEMAS
from schemas.errors import DatasetError
from schemas.manifest import Manifest, ShardEntry
from schemas.shards import check_nulls, check_shard, langs_of, open_shard, stray_files


def find_problems(folder: str | Path, quick: bool = False) -> Iterator[str]:
    """Yields every problem of a dataset in one sentence; `quick` does not look at rows.

    Raises `DatasetError` if the folder is not a dataset, or not of a schema that this release knows.
    """
    folder = Path(folder)
    index = manifest.load(folder)
    yield from (f"{manifest.FILE_NAME}: {problem}" for problem in index.problems())
    yield from (f"{name}: is in the folder, but not in the manifest" for name in stray_files(folder, index))
    whole: list[tuple[ShardEntry, str]] = []
    shards = [(shard, index.schema) for shard in index.shards] + [(shard, REJECTS) for shard in index.rejects]
    for shard, schema_name in shards:
        try:
            check_shard(folder / shard.file, shard.info, schema_name)
            whole.append((shard, schema_name))
        except DatasetError as error:
            yield str(error)
    if quick:
        return
    yield from _example_problems(folder, index, [shard for shard, name in whole if name == index.schema])
    yield from _reject_problems(folder, index, [shard for shard, name in whole if name == REJECTS])


def _example_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    spec = SCHEMAS[index.schema]
    from_row: Callable[[dict[str, Any]], Any] = spec.example.from_row
    looked_at = [spec.arrow.empty_table()]  # memory-mapped
    for shard in shards:
        start = 0
        for batch in open_shard(folder / shard.file, index.schema):
            try:
                batch.validate(full=True)
                check_nulls(batch, batch.schema)
            except ValueError as error:  # ArrowInvalid is a ValueError
                yield f"{shard.file} rows {start} to {start + batch.num_rows - 1}: {error}"
                start += batch.num_rows
                continue
            looked_at.append(pa.Table.from_batches([batch]))
            examples = map(from_row, batch.to_pylist())
            for row, (example, langs) in enumerate(zip(examples, langs_of(batch).to_pylist(), strict=True), start):
                found = spec.problems(example)
                if langs not in index.counts:
                    found.append(f"{langs} has no counts in the manifest")
                yield from (f"{shard.file} row {row} (id {example.id}): {problem}" for problem in found)
            start += batch.num_rows
    rows = pa.concat_tables(looked_at)
    if spec.identity:
        yield from _repeated(rows.select(spec.identity))
    if len(shards) < len(index.shards):
        return  # the problems of the other shards have been reported
    table = spec.counted(rows)
    counted = {row["langs"]: row for row in table.to_pylist()}
    names = [name for name in table.column_names if name != "langs"]
    for langs, counts in sorted(index.counts.items()):
        for name in (name for name in names if name in counts.to_json()):  # older datasets do not count labels
            expected, held = getattr(counts, name), counted.get(langs, {}).get(name, 0)
            if expected != held:
                yield f"{langs}: the manifest counts {expected} {name}, but the shards hold {held}"


def _repeated(ids: pa.Table) -> Iterator[str]:
    values = ids.group_by(ids.column_names, use_threads=False).aggregate([([], "count_all")])
    for repeated in values.filter(pc.greater(values["count_all"], 1)).to_pylist():
        count = repeated.pop("count_all")
        name = ", ".join(f"{column} {value}" for column, value in repeated.items() if value is not None)
        yield f"{name} occurs in {count} rows: look at them with show --id"


def _reject_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    kept: Counter[tuple[str, str, str]] = Counter()
    for shard in shards:
        for batch in open_shard(folder / shard.file, REJECTS):
            kept.update(zip(*(batch[name].to_pylist() for name in ("pair", "unit", "reason")), strict=True))
    counted = {
        (langs, unit, reason): count
        for langs, counts in index.counts.items()
        for unit, rejects in counts.rejects().items()
        for reason, count in rejects.items()
    }
    for key, count in sorted(kept.items()):
        if count > counted.get(key, 0):
            langs, unit, reason = key
            yield f"{langs}: {count} {unit} rejects {reason} are kept, but the manifest counts {counted.get(key, 0)}"
