"""Writes a dataset folder from examples, without Beam. The folder is complete or absent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas import manifest
from schemas.card import dataset_card
from schemas.catalog import REJECTS, arrow_schema
from schemas.counts import Counts
from schemas.errors import ConfigError
from schemas.manifest import InputFile, Manifest, ShardEntry
from schemas.provenance import commit, polyspan_version
from schemas.rejects import Reject
from schemas.runtime.output_folder import foreign_files
from schemas.shards import ROWS_PER_BATCH, shard_name, write_shard
from schemas.spec import Example
from schemas.verification import find_problems
from training.runtime import atomic_write
from training.runtime.outputs import dataset_files

ROWS_PER_SHARD = 100_000


def check_free(folder: str | Path, overwrite: bool = False) -> None:
    """Raises `ConfigError` if `folder` exists and is no dataset, or if it is a dataset and `overwrite` is False."""
    folder = Path(folder)
    if not folder.exists() or (folder.is_dir() and not foreign_files(folder, set())):
        return
    if not (folder / manifest.FILE_NAME).is_file():
        raise ConfigError(f"{folder} exists and is no dataset: it has no {manifest.FILE_NAME}. Take another --output")
    if not overwrite:
        raise ConfigError(f"{folder} holds a dataset already. Replace it with --overwrite, or take another --output")


def write_dataset(
    folder: str | Path,
    schema: str,
    examples: Iterable[Example],
    counts: Mapping[str, Counts],
    *,
    rejects: Sequence[Reject] = (),
    config: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    inputs: Sequence[InputFile] = (),
    rows_per_shard: int = ROWS_PER_SHARD,
    overwrite: bool = False,
) -> Manifest:
    """Writes the examples in their order, and returns the manifest. The same arguments give the same bytes.

    `schema` is a name of `schemas.catalog.SCHEMAS`, such as "candidates/1". `counts` (language → counts) is read after
    the last example, so that an iterator may fill it. `config` holds plain JSON values; `versions` lists libraries that
    decide the rows, in addition to polyspan and pyarrow. One batch is in memory at a time.

    The folder is written under another name, then renamed or exchanged. Raises `ConfigError` as `check_free` does, and
    `ValueError` if the counts do not add up to the rows.
    """
    folder = Path(folder)
    check_free(folder, overwrite)
    with atomic_write.folder(folder, dataset_files) as beside:
        return fill_folder(
            beside,
            schema,
            examples,
            counts,
            rejects=rejects,
            config=config,
            versions=versions,
            inputs=inputs,
            rows_per_shard=rows_per_shard,
        )


def fill_folder(
    folder: Path,
    schema: str,
    examples: Iterable[Example],
    counts: Mapping[str, Counts],
    *,
    rejects: Sequence[Reject] = (),
    config: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    inputs: Sequence[InputFile] = (),
    rows_per_shard: int = ROWS_PER_SHARD,
) -> Manifest:
    """Writes the files of `write_dataset` to a folder without a dataset, the manifest last. `counts` and `rejects` are
    read after the last example. Raises `ValueError` if the counts do not add up to the rows."""
    index = Manifest(
        schema=schema,
        shards=_write_shards(folder, schema, examples, rows_per_shard),
        rejects=(_write(folder, f"rejects/{shard_name(0, 1)}", REJECTS, map(_reject_row, rejects)),),
        counts=dict(counts),
        config=dict(config or {}),
        versions={"polyspan": polyspan_version(), "pyarrow": pa.__version__, **(versions or {})},
        inputs=tuple(inputs),
        commit=commit(),
    )
    if problems := index.problems():
        raise ValueError(f"{folder}: records were lost or doubled, nothing is written: {'; '.join(problems)}")
    (folder / "README.md").write_text(dataset_card(index), encoding="utf-8", newline="")
    (folder / manifest.FILE_NAME).write_text(index.to_json(), encoding="utf-8", newline="")
    return index


def holds_dataset(
    folder: Path, config: Mapping[str, Any], inputs: Sequence[InputFile], versions: Mapping[str, str] | None = None
) -> bool:
    """Returns whether the folder holds the undamaged dataset that `write_dataset` makes of these arguments."""
    if not (folder / manifest.FILE_NAME).is_file():
        return False
    index = manifest.load(folder)
    now = {"polyspan": polyspan_version(), "pyarrow": pa.__version__, **(versions or {})}
    if (index.config, index.commit, index.versions) != (dict(config), commit(), now):
        return False
    return list(index.inputs) == list(inputs) and not any(find_problems(folder, quick=True))


def _write_shards(
    folder: Path, schema: str, examples: Iterable[Example], rows_per_shard: int
) -> tuple[ShardEntry, ...]:
    """Writes shards of `rows_per_shard` rows, the last one with the rest; at least one shard, which may be empty. Their
    names contain their number, so they are renamed at the end."""
    rows = (example.to_row() for example in examples)
    entries: list[ShardEntry] = []
    while (first := list(islice(rows, 1))) or not entries:
        of_shard = chain(first, islice(rows, rows_per_shard - 1))
        entries.append(_write(folder, f"data/{len(entries)}", schema, of_shard))
    named = []
    for number, entry in enumerate(entries):
        file = f"data/{shard_name(number, len(entries))}"
        (folder / entry.file).rename(folder / file)
        named.append(entry._replace(file=file))
    return tuple(named)


def _write(folder: Path, file: str, schema: str, rows: Iterator[dict[str, Any]]) -> ShardEntry:
    (folder / file).parent.mkdir(exist_ok=True)
    fields = arrow_schema(schema)
    batches = (
        pa.RecordBatch.from_pylist(some, schema=fields) for some in iter(lambda: list(islice(rows, ROWS_PER_BATCH)), [])
    )
    with (folder / file).open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, batches, fields))


def _reject_row(reject: Reject) -> dict[str, Any]:
    return {name: getattr(reject, name) for name in Reject.ARROW_SCHEMA.names}
