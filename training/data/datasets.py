"""Opens the rows of one or several dataset folders through memory maps, so that no text is copied or read early."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import manifest
from schemas.errors import DatasetError
from schemas.manifest import Manifest, ShardEntry
from schemas.shards import check_shard, langs_of, open_shard, stray_files


class ShardRows:
    """Random access to the rows of dataset folders of one schema. `rows[i]` is a plain dict.

      row      0 … 99     100 … 149    150 … 199       numbered across folders and shards
      batch    0          1            2               `_starts` is [0, 100, 150, 200]
      folder   one        one          two

    Holds 8 bytes for each row in addition to the memory maps. It is pickled as its folders, and a worker process maps
    the same files.
    """

    def __init__(self, folders: Sequence[Path], indices: Sequence[Manifest], texts: Sequence[str]) -> None:
        """Use `open_datasets` instead, which checks the folders first."""
        self.folders = tuple(folders)
        self.schema = indices[0].schema
        self.texts = tuple(texts)
        self.fingerprint = _fingerprint(indices)
        #: For each shard, "1/data/part-…": checksum, bytes, time of change in ns and file number when it was compared.
        self.stamps: dict[str, list[Any]] = {}
        self._indices = tuple(indices)
        self._batches: list[pa.RecordBatch] = []
        langs: list[pa.Array] = []
        sizes: list[np.ndarray] = [np.empty(0, np.int32)]
        dataset_rows = []
        for folder, index in zip(folders, indices, strict=True):
            for batch in _batches(folder, index):
                self._batches.append(batch)
                langs.append(pc.dictionary_encode(langs_of(batch)))
                sizes.append(_text_bytes(batch, self.texts))
            dataset_rows.append(sum(shard.rows for shard in index.shards))
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        encoded = pa.chunked_array(langs, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
        self.langs: tuple[str, ...] = tuple(encoded.chunk(0).dictionary.to_pylist()) if langs else ()
        #: For each row the index of its language in `langs` ("en-vi", or "sw" in a schema with one language).
        self.lang_of_row = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.int16)
        #: For each row the index of its folder in `folders`.
        self.dataset_of_row = np.repeat(np.arange(len(folders), dtype=np.int16), dataset_rows)
        #: For each row the UTF-8 bytes of the texts that the encoder reads, from Arrow's offsets.
        self.bytes_of_row = np.concatenate(sizes)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> dict[str, Any]:
        if not 0 <= row < len(self):
            raise IndexError(f"expected a row in 0..{len(self) - 1}, found {row}")
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        offset = row - int(self._starts[number])
        batch = self._batches[number]
        return {name: column[offset].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardRows, (self.folders, self._indices, self.texts)

    def file_of(self, row: int) -> str:
        """Returns the file and the position of a row, for messages: `folder/data/part-00000-of-00001.arrow, row 17`."""
        for folder, index in zip(self.folders, self._indices, strict=True):
            for shard in index.shards:
                if row < shard.rows:
                    return f"{folder / shard.file}, row {row}"
                row -= shard.rows
        raise IndexError(f"expected a row in 0..{len(self) - 1}")

    def tokens(self, bytes_per_token: Mapping[str, float], longest: int | None = None) -> np.ndarray:
        """Estimates each row's number of tokens, at most `longest`, as float32. Raises `KeyError` for an unknown
        language."""
        rates = np.array([1 / bytes_per_token[lang] for lang in self.langs], np.float32)
        tokens = self.bytes_of_row * rates[self.lang_of_row]
        return tokens if longest is None else np.minimum(tokens, np.float32(longest))


def open_datasets(
    folders: Sequence[str | Path],
    texts: Sequence[str],
    checksums: bool = True,
    threads: int | None = None,
    verified: Mapping[str, Sequence[Any]] | None = None,
) -> ShardRows:
    """Opens the rows of all folders, in the order given. `texts` names the columns that the encoder reads.

    Compares every shard's size, schema and number of rows with the manifest and, with `checksums`, its bytes with the
    checksum there, which one rank does for all. Shards that are as in `verified`, the `stamps` of earlier rows, are not
    read for that. Raises `DatasetError`, naming the file and what to do, before any row is read.
    """
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise DatasetError("no dataset was given. Expected one or more folders that `polyspan-data` wrote")
    repeated = sorted({str(path) for path in paths if paths.count(path) > 1})
    if repeated:
        raise DatasetError(f"{', '.join(repeated)}: given twice. To see a dataset more often, raise its weight")
    indices = [manifest.load(path) for path in paths]
    for path, index in zip(paths, indices, strict=True):
        _check_folder(path, index, paths[0], indices[0].schema)
    shards = [
        (f"{number}/{shard.file}", path / shard.file, shard)
        for number, (path, index) in enumerate(zip(paths, indices, strict=True), start=1)
        for shard in index.shards
    ]

    def check(key: str, path: Path, shard: ShardEntry) -> list[Any]:
        stamp = _stamp(path, shard)  # before its bytes are read: a later change shows
        is_known = verified is not None and stamp is not None and list(verified.get(key, ())) == stamp
        check_shard(path, shard.info, indices[0].schema, checksum=checksums and not is_known)
        assert stamp  # a missing shard was refused
        return stamp

    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        stamps = list(pool.map(check, *zip(*shards, strict=True)))  # in order: the error names the first bad shard
    rows = ShardRows(paths, indices, texts)
    if checksums:
        rows.stamps = dict(zip((key for key, _, _ in shards), stamps, strict=True))
    return rows


def _stamp(path: Path, shard: ShardEntry) -> list[Any] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return [shard.sha256, status.st_size, status.st_mtime_ns, status.st_ino]


def _check_folder(path: Path, index: Manifest, first: Path, schema: str) -> None:
    if index.schema != schema:
        raise DatasetError(
            f"{path}: has schema {index.schema}, but {first} has {schema}. One run trains on one schema: "
            "give the other folders to a run of their own"
        )
    if problems := index.problems():
        raise DatasetError(f"{path / manifest.FILE_NAME}: {problems[0]}. See: polyspan-inspect verify {path}")
    if strays := stray_files(path, index):
        raise DatasetError(f"{path}: {', '.join(strays)}: not in the manifest. Move what is not part of the dataset")
    if not sum(shard.rows for shard in index.shards):
        raise DatasetError(f"{path}: holds no example. See why: polyspan-inspect stats {path}")


def _batches(folder: Path, index: Manifest) -> Iterator[pa.RecordBatch]:
    for shard in index.shards:
        yield from open_shard(folder / shard.file, index.schema)


def _text_bytes(batch: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """Sums the sizes of each row's texts from Arrow's offsets, without reading the texts."""
    total = np.zeros(batch.num_rows, np.int32)
    for name in columns:
        total += pc.binary_length(batch[name]).to_numpy(zero_copy_only=False)
    return total


def _fingerprint(indices: Sequence[Manifest]) -> str:
    """Hashes the rows and their order, independently of the folders' paths, for comparison on resuming."""
    digest = hashlib.sha256()
    for index in indices:
        digest.update(f"{index.schema} {[shard.sha256 for shard in index.shards]}\n".encode())
    return digest.hexdigest()[:16]
