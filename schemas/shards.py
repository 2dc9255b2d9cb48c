"""Shards: Arrow IPC files whose bytes depend on their rows alone, read back through memory maps."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from schemas import anchor_mrc, candidates, clism, manifest, mrc
from schemas.anchor_mrc import AnchorMrcExample
from schemas.candidates import CandidateSet
from schemas.clism import ClismExample
from schemas.manifest import DatasetError, Manifest, ShardEntry, ShardInfo
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.rejects import Reject
from schemas.runtime.checksums import sha256_of

ROWS_PER_BATCH = 4_096
SCHEMA_KEY = b"polyspan.schema"
SCHEMAS = {
    "anchor_mrc/1": anchor_mrc.ARROW_SCHEMA,
    "candidates/1": candidates.ARROW_SCHEMA,
    "clism/1": clism.ARROW_SCHEMA,
    "mrc/1": mrc.ARROW_SCHEMA_1,
    "mrc/2": mrc.ARROW_SCHEMA,
    "pair/1": mrc.PAIR_SCHEMA,
    "rejects/1": Reject.ARROW_SCHEMA,
    "tagging/1": mrc.TAGGING_SCHEMA,
}
Example = AnchorMrcExample | CandidateSet | ClismExample | MrcExample | PairExample | TaggingExample
EXAMPLES: dict[str, type[Example]] = {
    "anchor_mrc/1": AnchorMrcExample,
    "candidates/1": CandidateSet,
    "clism/1": ClismExample,
    "mrc/1": MrcExample,
    "mrc/2": MrcExample,
    "pair/1": PairExample,
    "tagging/1": TaggingExample,
}

_AGAIN = "Restore it from a copy, or make the dataset again in a new folder"


def shard_name(index: int, count: int) -> str:
    """`part-00003-of-00016.arrow`: names sort in the order of their indices."""
    if not 0 <= index < count:
        raise ValueError(f"expected a shard index in 0..{count - 1}, found {index}")
    return f"part-{index:05}-of-{count:05}.arrow"


def write_shard(
    stream: BinaryIO, rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch], schema: pa.Schema
) -> ShardInfo:
    """Writes one Arrow IPC file to a stream that need not seek (it stays open), and hashes it on the way.

    The same rows give the same bytes, however they were batched: batches of `ROWS_PER_BATCH`, no compression (so that
    readers can map the file), and the metadata of `schema`. Holds one batch in memory if `rows` is an iterator.
    Raises `ValueError` if the rows are of another schema, or hold a null where it allows none.
    """
    if isinstance(rows, pa.Table):
        rows = rows.to_batches()
    elif isinstance(rows, pa.RecordBatch):
        rows = [rows]
    sink = _HashingSink(stream)
    written = 0
    # Written out rather than left to pyarrow's defaults, which decide the bytes.
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5, compression=None)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema, options=options) as writer:
        for batch in _batches_of(ROWS_PER_BATCH, rows, schema):
            writer.write_batch(batch)
            written += batch.num_rows
    return ShardInfo(written, sink.size, sink.sha256.hexdigest())


def read_shards(
    folder: str | Path, columns: Sequence[str] | None = None, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    """The examples of a local dataset folder, memory-mapped: only what is looked at is read from the disk.

    Missing, stray and truncated shards, and those of another schema, raise `DatasetError` before the first batch;
    `verify` also compares every byte with the manifest's checksums.
    """
    index = manifest.load(folder)
    return _read(Path(folder), index, index.shards, index.schema, columns, verify)


def read_rejects(
    folder: str | Path, columns: Sequence[str] | None = None, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    """The sample of rejects that the folder keeps, as `read_shards` reads examples."""
    index = manifest.load(folder)
    return _read(Path(folder), index, index.rejects, "rejects/1", columns, verify)


def read_examples(folder: str | Path, verify: bool = False) -> Iterator[Any]:
    """The examples of a local dataset folder, each of its schema's class, which `EXAMPLES` names."""
    from_row = EXAMPLES[manifest.load(folder).schema].from_row
    for batch in read_shards(folder, verify=verify):
        yield from map(from_row, batch.to_pylist())


def langs_of(batch: pa.RecordBatch) -> pa.Array:
    """The language or language pair of each row of examples or rejects, as the manifest's counts name it."""
    for column in ("lang", "pair"):
        if column in batch.schema.names:
            return batch[column]
    return pc.binary_join_element_wise(batch["source_lang"], batch["target_lang"], "-")


def stray_files(folder: str | Path, index: Manifest) -> list[str]:
    """Files in `data/` and `rejects/` that the manifest does not list: other readers would take them for shards."""
    folder = Path(folder)
    listed = {shard.file for shard in (*index.shards, *index.rejects)}
    present = [path for part in ("data", "rejects") for path in (folder / part).rglob("*") if path.is_file()]
    names = (path.relative_to(folder).as_posix() for path in present if not path.name.startswith("."))
    return sorted(name for name in names if name not in listed)


def check_shard(path: str | Path, expected: ShardInfo, schema_name: str, checksum: bool = True) -> None:
    """Raises `DatasetError` unless the file is the shard that the manifest describes, byte for byte.

    Without `checksum` its content is not read: truncated files are still found, altered ones are not.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DatasetError(f"{path}: the shard is missing. {_AGAIN}") from None
    if size != expected.bytes:
        torn = "it is truncated" if size < expected.bytes else "it was altered"
        raise DatasetError(f"{path}: expected {expected.bytes} bytes, found {size}: {torn}. {_AGAIN}")
    if checksum and (found := sha256_of(path)) != expected.sha256:
        raise DatasetError(f"{path}: expected SHA-256 {expected.sha256}, found {found}: it was altered. {_AGAIN}")
    rows = sum(batch.num_rows for batch in open_shard(path, schema_name))
    if rows != expected.rows:
        raise DatasetError(f"{path}: expected {expected.rows} rows, found {rows}: it was altered. {_AGAIN}")


def open_shard(path: str | Path, schema_name: str) -> Iterator[pa.RecordBatch]:
    """The batches of one shard, memory-mapped. Raises `DatasetError` if it is no Arrow file of that schema."""
    if schema_name not in SCHEMAS:
        known = ", ".join(sorted(SCHEMAS))
        raise DatasetError(f"{path}: schema {schema_name} is not one that this release of polyspan reads ({known})")
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
    except (pa.ArrowInvalid, OSError) as error:
        raise DatasetError(f"{path}: not an Arrow IPC file ({error}). {_AGAIN}") from None
    found = (reader.schema.metadata or {}).get(SCHEMA_KEY, b"none").decode(errors="replace")
    if found != schema_name:
        raise DatasetError(f"{path}: expected schema {schema_name}, found {found}. {_AGAIN}")
    if not reader.schema.equals(SCHEMAS[schema_name]):
        raise DatasetError(f"{path}: says that it has schema {schema_name}, but its fields differ. {_AGAIN}")
    return (reader.get_batch(index) for index in range(reader.num_record_batches))


def _read(
    folder: Path,
    index: Manifest,
    shards: Sequence[ShardEntry],
    schema_name: str,
    columns: Sequence[str] | None,
    verify: bool,
) -> Iterator[pa.RecordBatch]:
    if strays := stray_files(folder, index):
        raise DatasetError(f"{folder}: {', '.join(strays)}: not in the manifest. Move what is not part of the dataset")
    for shard in shards:
        check_shard(folder / shard.file, shard.info, schema_name, checksum=verify)
    batches = (batch for shard in shards for batch in open_shard(folder / shard.file, schema_name))
    return batches if columns is None else (batch.select(list(columns)) for batch in batches)


def _batches_of(rows: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows`, but for the last."""
    waiting: list[pa.RecordBatch] = []
    room = rows
    for batch in batches:
        if not batch.schema.equals(schema, check_metadata=False):
            raise ValueError(f"expected rows of schema\n{schema}\nfound\n{batch.schema}")
        check_nulls(batch, schema)
        while batch.num_rows:
            waiting.append(batch.slice(0, room))
            batch = batch.slice(room)
            room -= waiting[-1].num_rows
            if not room:
                yield from _joined(waiting, schema)
                waiting, room = [], rows
    yield from _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches, batches[0].schema if batches else schema)
    for batch in table.replace_schema_metadata(schema.metadata).combine_chunks().to_batches():
        if batch.num_rows:
            # Copied, because the writer pads the buffers of a slice with whatever rows follow it.
            yield batch.take(pa.array(range(batch.num_rows), pa.int32()))


def check_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raises `ValueError` if a field that `schema` declares without nulls holds one: Arrow itself does not mind."""
    for field, column in zip(schema, batch.columns, strict=True):
        _check_nulls(field, column)


def _check_nulls(field: pa.Field, column: pa.Array) -> None:
    if column.null_count and not field.nullable:
        raise ValueError(f"field {field.name} holds {column.null_count} nulls, but its schema allows none")
    if pa.types.is_list(field.type):
        _check_nulls(field.type.value_field, column.flatten())
    elif pa.types.is_struct(field.type):
        for child, values in zip(field.type, column.flatten(), strict=True):
            _check_nulls(child, values)


class _HashingSink(io.RawIOBase):
    """Passes bytes on, counting and hashing them. Arrow asks it, not the stream, where it stands."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._stream.write(data)
        self.sha256.update(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size
