"""Whether a dataset folder is what its manifest says, and every row what the contract says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.clism import ClismExample, problems
from schemas.manifest import DatasetError, Manifest, ShardEntry
from schemas.shards import SCHEMAS, check_nulls, check_shard, open_shard, stray_files


def find_problems(folder: str | Path, quick: bool = False) -> Iterator[str]:
    """Everything wrong with a dataset, one sentence each, as it is found; `quick` does not look at rows.

    Raises `DatasetError` if the folder is not a dataset, or not of a schema that this release knows.
    """
    folder = Path(folder)
    index = manifest.load(folder)
    if index.schema not in SCHEMAS:
        raise DatasetError(f"{folder}: schema {index.schema} is not one that this release of polyspan reads")
    yield from (f"{manifest.FILE_NAME}: {problem}" for problem in index.problems())
    yield from (f"{name}: stands in the folder, but not in the manifest" for name in stray_files(folder, index))
    whole: list[tuple[ShardEntry, str]] = []
    shards = [(shard, index.schema) for shard in index.shards] + [(shard, "rejects/1") for shard in index.rejects]
    for shard, schema_name in shards:
        try:
            check_shard(folder / shard.file, shard.info, schema_name)
            whole.append((shard, schema_name))
        except DatasetError as error:
            yield str(error)
    if quick:
        return
    yield from _example_problems(folder, index, [shard for shard, name in whole if name == index.schema])
    yield from _reject_problems(folder, index, [shard for shard, name in whole if name == "rejects/1"])


def _example_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    ids = []  # memory-mapped
    examples: Counter[str] = Counter()
    questions: Counter[str] = Counter()
    for shard in shards:
        start = 0
        for batch in open_shard(folder / shard.file, index.schema):
            try:
                batch.validate(full=True)
                check_nulls(batch, batch.schema)
            except ValueError as error:  # of which ArrowInvalid is one
                yield f"{shard.file} rows {start} to {start + batch.num_rows - 1}: {error}"
                start += batch.num_rows
                continue
            ids.append(batch["id"])
            for row, example in enumerate(map(ClismExample.from_row, batch.to_pylist()), start):
                pair = f"{example.source_lang}-{example.target_lang}"
                found = problems(example)
                if pair not in index.counts:
                    found.append(f"pair {pair} has no counts in the manifest")
                yield from (f"{shard.file} row {row} (id {example.id}): {problem}" for problem in found)
                examples[pair] += 1
                questions[pair] += len(example.questions)
            start += batch.num_rows
    yield from _repeated(ids)
    if len(shards) < len(index.shards):
        return  # what is missing has been said
    for pair, counts in sorted(index.counts.items()):
        for what, expected, rows in (
            ("examples", counts.examples, examples[pair]),
            ("questions", counts.questions, questions[pair]),
        ):
            if expected != rows:
                yield f"{pair}: the manifest counts {expected} {what}, but the shards hold {rows}"


def _repeated(ids: list[pa.Array]) -> Iterator[str]:
    if not ids:
        return
    values = pc.value_counts(pa.chunked_array(ids))
    for repeated in values.filter(pc.greater(values.field("counts"), 1)).to_pylist():
        yield f"id {repeated['values']} stands in {repeated['counts']} rows: look at them with show --id"


def _reject_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    kept: Counter[tuple[str, str, str]] = Counter()
    for shard in shards:
        for batch in open_shard(folder / shard.file, "rejects/1"):
            kept.update(zip(*(batch[name].to_pylist() for name in ("pair", "unit", "reason")), strict=True))
    counted = {
        (pair, unit, reason): count
        for pair, counts in index.counts.items()
        for unit, rejects in (("pair", counts.pair_rejects), ("mention", counts.mention_rejects))
        for reason, count in rejects.items()
    }
    for key, count in sorted(kept.items()):
        if count > counted.get(key, 0):
            pair, unit, reason = key
            yield f"{pair}: {count} {unit} rejects {reason} are kept, but the manifest counts {counted.get(key, 0)}"
