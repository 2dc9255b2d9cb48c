"""Shards: Arrow IPC files whose bytes depend only on their rows. They are read through memory maps."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.catalog import REJECTS, SCHEMAS, arrow_schema
from schemas.errors import DatasetError
from schemas.manifest import Manifest, ShardEntry, ShardInfo
from schemas.runtime.checksums import sha256_of
from schemas.spec import schema_name as name_of

ROWS_PER_BATCH = 4_096

_AGAIN = "Restore it from a copy, or make the dataset again in a new folder"


def shard_name(index: int, count: int) -> str:
    """Returns a name such as `part-00003-of-00016.arrow`. Names sort in the order of their indices."""
    if not 0 <= index < count:
        raise ValueError(f"expected a shard index in 0..{count - 1}, found {index}")
    return f"part-{index:05}-of-{count:05}.arrow"


def write_shard(
    stream: BinaryIO, rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch], schema: pa.Schema
) -> ShardInfo:
    """Writes one Arrow IPC file to a stream, which need not seek and stays open, and hashes it.

    The same rows give the same bytes, however they are batched. The file has batches of `ROWS_PER_BATCH` rows, no
    compression (so that readers can map it) and the metadata of `schema`. If `rows` is an iterator, one batch is held
    in memory. Raises `ValueError` if the rows have another schema, or a null in a field that allows none.
    """
    if isinstance(rows, pa.Table):
        rows = rows.to_batches()
    elif isinstance(rows, pa.RecordBatch):
        rows = [rows]
    sink = _HashingSink(stream)
    written = 0
    # The defaults of another pyarrow may give other bytes.
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5, compression=None)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema, options=options) as writer:
        for batch in _batches_of(ROWS_PER_BATCH, rows, schema):
            writer.write_batch(batch)
            written += batch.num_rows
    return ShardInfo(written, sink.size, sink.sha256.hexdigest())


def read_shards(
    folder: str | Path, columns: Sequence[str] | None = None, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    """Returns the examples of a local dataset folder, memory-mapped.

    Raises `DatasetError` before the first batch if a shard is missing, truncated, of another schema or not in the
    manifest; with `verify` also if its checksum is wrong.
    """
    index = manifest.load(folder)
    return _read(Path(folder), index, index.shards, index.schema, columns, verify)


def read_rejects(
    folder: str | Path, columns: Sequence[str] | None = None, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    """Returns the sample of rejects of a local dataset folder, as `read_shards` returns examples."""
    index = manifest.load(folder)
    return _read(Path(folder), index, index.rejects, REJECTS, columns, verify)


def read_examples(folder: str | Path, verify: bool = False) -> Iterator[Any]:
    """Yields the examples of a local dataset folder as instances of its schema's example class."""
    from_row = SCHEMAS[manifest.load(folder).schema].example.from_row
    for batch in read_shards(folder, verify=verify):
        yield from map(from_row, batch.to_pylist())


def langs_of(batch: pa.RecordBatch) -> pa.Array:
    """Returns the language or language pair of each row of examples or rejects, as in the manifest's counts."""
    for column in ("lang", "pair"):
        if column in batch.schema.names:
            return batch[column]
    return pc.binary_join_element_wise(batch["source_lang"], batch["target_lang"], "-")


def stray_files(folder: str | Path, index: Manifest) -> list[str]:
    """Returns the files in `data/` and `rejects/` that the manifest does not list; other readers take them for
    shards."""
    folder = Path(folder)
    listed = {shard.file for shard in (*index.shards, *index.rejects)}
    present = [path for part in ("data", "rejects") for path in (folder / part).rglob("*") if path.is_file()]
    names = (path.relative_to(folder).as_posix() for path in present if not path.name.startswith("."))
    return sorted(name for name in names if name not in listed)


def check_shard(path: str | Path, expected: ShardInfo, schema_name: str, checksum: bool = True) -> None:
    """Raises `DatasetError` unless the file is the shard that the manifest describes, byte for byte.

    Without `checksum`, truncated files are found and other altered ones are not.
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
    """Returns the batches of one shard, memory-mapped. Raises `DatasetError` if it is no Arrow file of that schema."""
    if schema_name not in (*SCHEMAS, REJECTS):
        known = ", ".join(sorted((*SCHEMAS, REJECTS)))
        raise DatasetError(f"{path}: schema {schema_name} is not one that this release of polyspan reads ({known})")
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
    except (pa.ArrowInvalid, OSError) as error:
        raise DatasetError(f"{path}: not an Arrow IPC file ({error}). {_AGAIN}") from None
    if (found := name_of(reader.schema)) != schema_name:
        raise DatasetError(f"{path}: expected schema {schema_name}, found {found}. {_AGAIN}")
    if not reader.schema.equals(arrow_schema(schema_name)):
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
    """Yields the same rows in batches of exactly `rows`, except for the last."""
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
            # Copied, because the writer pads the buffers of a slice with the rows that follow it.
            yield batch.take(pa.array(range(batch.num_rows), pa.int32()))


def check_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raises `ValueError` if a field that `schema` declares without nulls holds one. Arrow itself does not check."""
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
    """Passes bytes on to a stream, counts and hashes them. Arrow asks it, not the stream, for the position."""

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
