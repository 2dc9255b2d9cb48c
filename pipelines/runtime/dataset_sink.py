"""Writes a dataset folder from finished chunks of examples: shards, rejects, dataset card, and the manifest last.

Shards hold the examples in the order of the input, chunk after chunk, so their bytes depend on the input alone. Each
file is written under a temporary name and renamed. A folder without its manifest is not a dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from pipelines.runtime.job_context import FILES_STAGE, JobContext
from pipelines.runtime.work_folder import replace_file
from schemas.card import dataset_card
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.shards import shard_name, write_shard


class ShardPlan(NamedTuple):
    """One shard, and the chunks of examples that it holds."""

    shard: int  # 0 to shards - 1
    shards: int
    keys: tuple[str, ...]  # of the chunks, in order


@dataclass
class WriteDataset(beam.PTransform):
    """Writes the dataset at `output` from the keys of finished chunks of examples, and returns the manifest's path.

    The examples are in the order of the keys. `manifest` lacks shards, counts and inputs, which are added.
    """

    output: str
    schema: pa.Schema
    manifest: Manifest
    rows_per_shard: int
    stage: str  # its tables hold the examples, its ledgers count them
    ledger_stages: tuple[str, ...]  # the sum of their ledgers accounts for every record
    job: JobContext

    def expand(self, keys: beam.PCollection[str]) -> beam.PCollection[str]:
        all_keys = (
            keys
            | beam.Map(lambda key: (None, key))
            | "AllChunks" >> beam.GroupByKey()
            | beam.Map(lambda group: sorted(group[1]))
        )
        shards = (
            all_keys
            | "Plan" >> beam.FlatMap(plan_shards, self.stage, self.job, self.rows_per_shard)
            | "Spread" >> beam.Reshuffle()
            | "Shard" >> beam.Map(write_examples, self.output, self.schema, self.stage, self.job)
        )
        return all_keys | "Manifest" >> beam.Map(
            write_manifest, beam.pvalue.AsList(shards), self.output, self.manifest, self.ledger_stages, self.job
        )


def plan_shards(keys: list[str], stage: str, job: JobContext, rows_per_shard: int) -> Iterator[ShardPlan]:
    """Assigns whole chunks to shards of about equal size, with about `rows_per_shard` rows at most.

    There is at least one shard, even if it has no rows.
    """
    rows = [sum(counts.examples for counts in job.ledger_of(stage, key).counts.values()) for key in keys]
    count = max(1, -(-sum(rows) // rows_per_shard))
    parts: list[list[str]] = [[] for _ in range(count)]
    rows_before = 0
    for key, key_rows in zip(keys, rows, strict=True):
        parts[min(count - 1, rows_before * count // max(1, sum(rows)))].append(key)
        rows_before += key_rows
    for index, part in enumerate(parts):
        yield ShardPlan(index, count, tuple(part))


def write_examples(plan: ShardPlan, output: str, schema: pa.Schema, stage: str, job: JobContext) -> ShardEntry:
    tables = [job.work.table(stage, key) for key in plan.keys]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return _write(output, f"data/{shard_name(plan.shard, plan.shards)}", table, schema)


def write_manifest(
    all_keys: list[str],
    shards: list[ShardEntry],
    output: str,
    manifest: Manifest,
    ledger_stages: tuple[str, ...],
    job: JobContext,
) -> str:
    """Writes all files except the shards, the manifest last, and returns its path.

    It does not use `all_keys`, a single element: Beam calls it once for them, when the side input `shards` is complete.
    """
    ledger = job.ledger()
    for stage in ledger_stages:
        for key in job.work.keys(stage):
            ledger.merge(job.ledger_of(stage, key))
    inputs = (job.work.summary(FILES_STAGE, key)["inputs"] for key in job.work.keys(FILES_STAGE))
    manifest = replace(
        manifest,
        shards=tuple(sorted(shards)),
        rejects=(write_rejects(output, ledger.sorted_sample()),),
        counts=ledger.counts,
        inputs=each_once(InputFile(**file) for files in inputs for file in files),
    )
    if problems := manifest.problems():
        raise RuntimeError(f"The job lost or doubled records, and writes no dataset: {'; '.join(problems)}")
    path = FileSystems.join(output, FILE_NAME)
    for name, text in ((FileSystems.join(output, "README.md"), dataset_card(manifest)), (path, manifest.to_json())):
        with replace_file(name) as stream:
            stream.write(text.encode())
    return path


def each_once(inputs: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Lists a file that was read for several languages once, under its first corpus name."""
    first_of: dict[tuple[str, str | None], InputFile] = {}
    for file in inputs:
        first_of.setdefault((file.path, file.sha256), file)
    return tuple(first_of.values())


def write_rejects(output: str, rejects: list[Reject]) -> ShardEntry:
    table = pa.Table.from_pylist([_row(reject) for reject in rejects], schema=Reject.ARROW_SCHEMA)
    return _write(output, f"rejects/{shard_name(0, 1)}", table, Reject.ARROW_SCHEMA)


def _write(output: str, name: str, table: pa.Table, schema: pa.Schema) -> ShardEntry:
    with replace_file(FileSystems.join(output, *name.split("/"))) as stream:
        info = write_shard(stream, table, schema)
    return ShardEntry(name, *info)


def _row(reject: Reject) -> dict[str, Any]:
    return {name: getattr(reject, name) for name in Reject.ARROW_SCHEMA.names}
