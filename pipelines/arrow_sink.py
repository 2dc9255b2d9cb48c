"""Chunks of examples → a dataset folder: shards, rejects, dataset card, and last of all the manifest.

Shards hold the examples in the order of the input, chunk after chunk, so their bytes depend on nothing else. Each is
written under a temporary name and renamed; a folder without its manifest is not a dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from pipelines.steps.chunks import Chunk
from pipelines.transforms import FILES, MASKED, Job
from pipelines.work import replace_file
from schemas.card import dataset_card
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.shards import shard_name, write_shard


class ShardPlan(NamedTuple):
    shard: int
    shards: int
    keys: tuple[str, ...]  # chunks, in order


@dataclass
class WriteDataset(beam.PTransform):
    """Chunks of examples → the dataset at `output`, described by `manifest` once it knows its shards and counts."""

    output: str
    schema: pa.Schema
    manifest: Manifest
    rows_per_shard: int
    job: Job

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[str]:
        everything = (
            chunks
            | beam.Map(lambda chunk: (None, chunk))
            | "AllChunks" >> beam.GroupByKey()
            | beam.Map(lambda group: sorted(group[1]))
        )
        shards = (
            everything
            | "Plan" >> beam.FlatMap(plan_shards, self.job, self.rows_per_shard)
            | "Spread" >> beam.Reshuffle()
            | "Shard" >> beam.Map(write_examples, self.output, self.schema, self.job)
        )
        return everything | "Manifest" >> beam.Map(
            write_manifest, beam.pvalue.AsList(shards), self.output, self.manifest, self.job
        )


def plan_shards(chunks: list[Chunk], job: Job, rows_per_shard: int) -> Iterator[ShardPlan]:
    """Whole chunks to shards of about equal size, at most about `rows_per_shard` rows each; one even of no rows."""
    rows = [sum(counts.examples for counts in job.ledger_of(MASKED, chunk).counts.values()) for chunk in chunks]
    count = max(1, -(-sum(rows) // rows_per_shard))
    keys: list[list[str]] = [[] for _ in range(count)]
    before = 0
    for chunk, chunk_rows in zip(chunks, rows, strict=True):
        keys[min(count - 1, before * count // max(1, sum(rows)))].append(chunk.key)
        before += chunk_rows
    for index, shard_keys in enumerate(keys):
        yield ShardPlan(index, count, tuple(shard_keys))


def write_examples(plan: ShardPlan, output: str, schema: pa.Schema, job: Job) -> ShardEntry:
    tables = [job.work.table(MASKED, key) for key in plan.keys]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return _write(output, f"data/{shard_name(plan.shard, plan.shards)}", table, schema)


def write_manifest(chunks: list[Chunk], shards: list[ShardEntry], output: str, manifest: Manifest, job: Job) -> str:
    """Everything but the shards; the manifest last. Returns its path."""
    ledger = job.ledger()
    for chunk in chunks:
        ledger.merge(job.ledger_of(MASKED, chunk))
    inputs = (job.work.summary(FILES, key)["inputs"] for key in job.work.keys(FILES))
    manifest = replace(
        manifest,
        shards=tuple(sorted(shards)),
        rejects=(write_rejects(output, ledger.sorted_sample()),),
        counts=ledger.counts,
        inputs=tuple(InputFile(**file) for files in inputs for file in files),
    )
    if problems := manifest.problems():
        raise RuntimeError(f"The job lost or doubled records, and writes no dataset: {'; '.join(problems)}")
    path = FileSystems.join(output, FILE_NAME)
    for name, text in ((FileSystems.join(output, "README.md"), dataset_card(manifest)), (path, manifest.to_json())):
        with replace_file(name) as stream:
            stream.write(text.encode())
    return path


def write_rejects(output: str, rejects: list[Reject]) -> ShardEntry:
    table = pa.Table.from_pylist([_row(reject) for reject in rejects], schema=Reject.ARROW_SCHEMA)
    return _write(output, f"rejects/{shard_name(0, 1)}", table, Reject.ARROW_SCHEMA)


def _write(output: str, name: str, table: pa.Table, schema: pa.Schema) -> ShardEntry:
    with replace_file(FileSystems.join(output, *name.split("/"))) as stream:
        info = write_shard(stream, table, schema)
    return ShardEntry(name, *info)


def _row(reject: Reject) -> dict[str, Any]:
    return {name: getattr(reject, name) for name in Reject.ARROW_SCHEMA.names}
