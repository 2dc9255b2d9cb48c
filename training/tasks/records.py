"""Reads labelled records: from the published files of a task, or from dataset folders that `convert` wrote."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from schemas import manifest
from schemas.did_you_mean import closest
from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample, labels_in
from schemas.runtime.checksums import sha256_of
from schemas.shards import read_examples
from training.tasks.catalog import TASKS, Task
from training.tasks.files import FileLedger, FileRecords, LeftOut, refuse_unlabelled
from training.tasks.files import Record as Record

R = TypeVar("R", MrcExample, TaggingExample, PairExample, Record)


class Source(NamedTuple):
    """A file or dataset folder that was read."""

    path: Path
    sha256: str  # of the file; of a dataset folder its manifest's, which names the checksum of every shard
    records: int


class Records(NamedTuple):
    """What `read_records` returns. The records of the sources follow one another."""

    task: Task
    records: list[Record]
    flags: Counter[str]  # reason → number of records that the readers flagged
    sources: tuple[Source, ...]
    counts: Mapping[str, RecordCounts]  # language → counts of the records and labels, kept and left out
    left_out: Sequence[tuple[str, LeftOut]]  # name of the source, and what its reader left out

    @property
    def accounts(self) -> list[str]:
        """Sentences that account for all records and labels."""
        return sum(self.counts.values(), RecordCounts()).accounts()

    @property
    def files(self) -> dict[str, str]:
        """Position and name of each source → its SHA-256."""
        return {f"{number} {source.path.name}": source.sha256 for number, source in enumerate(self.sources, start=1)}


def task_of(name: str) -> Task:
    """Returns the task of this name. Raises `ConfigError` for an unknown name, and suggests a similar one."""
    if name in TASKS:
        return TASKS[name]
    close = closest(name, TASKS, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Tasks: {', '.join(TASKS)}"
    raise ConfigError(f"unknown task {name!r}. {hint}")


def check_langs(langs: Sequence[str], files: Sequence[Path], what: str = "files") -> None:
    """Raises `ConfigError` unless there are no languages or one for each file."""
    if langs and len(langs) != len(files):
        raise ConfigError(f"expected a language for each of {len(files)} {what}, found {len(langs)}")


def read_records(paths: Sequence[Path], task: str, langs: Sequence[str] = (), labelled: bool = False) -> Records:
    """Reads all records of `paths`, in their order. A path is a published file of the task or a dataset folder.

    `langs`: one for each path, or none if names and folders say them. `labelled`: refuse files without labels, such as
    XTREME's test files (see `training.tasks.files`). Ids may repeat, since predictions are matched by position;
    repeated ids are counted as `duplicate_id`.

    Raises `ConfigError` for what cannot work, `InputError` and `DatasetError` naming the file that is at fault.
    """
    chosen = task_of(task)
    check_sources(paths, task, langs)
    records: list[Record] = []
    flags: Counter[str] = Counter()
    sources = []
    counts: dict[str, RecordCounts] = {}
    left_out: list[tuple[str, LeftOut]] = []
    for index, path in enumerate(paths):
        lang = langs[index] if langs else None
        read, flagged, ledger = _read_folder(path) if path.is_dir() else chosen.read(path, lang)
        if not read:
            raise InputError(f"{path}: holds no record")
        if labelled:
            refuse_unlabelled(path, len(flagged.get("unlabelled", ())), len(read))
        records += read
        flags += Counter({reason: len(ids) for reason, ids in flagged.items()})
        for name, added in ledger.counts(read).items():
            counts[name] = counts.get(name, RecordCounts()) + added
        left_out += [(path.name, lost) for lost in ledger.left_out]
        sources.append(Source(path, sha256_of(path / manifest.FILE_NAME if path.is_dir() else path), len(read)))
    flags["duplicate_id"] = len(records) - len({identity(record) for record in records})
    return Records(chosen, records, +flags, tuple(sources), counts, left_out)


def check_sources(paths: Sequence[Path], task: str, langs: Sequence[str] = ()) -> None:
    """Raises what `read_records` would raise for missing paths and for folders of other records. Reads no record."""
    chosen = task_of(task)
    if not paths:
        raise ConfigError(f"no files: name those of {task}, or dataset folders of {chosen.shared.schema}")
    check_langs(langs, paths)
    if twice := [path for path, count in Counter(paths).items() if count > 1]:
        raise ConfigError(f"{twice[0]}: given twice")
    check_paths(paths, "file or folder")
    for index, path in enumerate(paths):
        if path.is_dir():
            _check_folder(path, chosen, langs[index] if langs else None)


def check_paths(paths: Iterable[Path], what: str = "file") -> None:
    """Raises `ConfigError` for the first missing path, `InputError` for one without permission to read."""
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: no such {what}")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: cannot be read (Permission denied)")


def identity(record: Record) -> tuple[Hashable, ...]:
    """Returns the key that is unique in a dataset. MLQA has each id in up to seven question languages of a context."""
    query_lang = record.query_lang if isinstance(record, MrcExample) else None
    return record.lang, query_lang, record.id


def _check_folder(path: Path, task: Task, lang: str | None) -> None:
    index = manifest.load(path)
    expected = task.shared.schema
    if _name(index.schema) != _name(expected):
        tasks = ", ".join(name for name, other in TASKS.items() if _name(other.shared.schema) == _name(index.schema))
        hint = f" Records of {index.schema} are for {tasks}" if tasks else ""
        raise ConfigError(f"{path}: has schema {index.schema}, but the task reads {expected}.{hint}")
    if lang is not None and set(index.counts) != {lang}:
        raise ConfigError(f"{path}: its records are of {', '.join(sorted(index.counts))}, but its language is {lang!r}")


def _read_folder(path: Path) -> FileRecords[Record]:
    records: list[Record] = list(read_examples(path, verify=True))
    ledger = FileLedger()
    for record in records:
        ledger.add(record.lang, labels_in(record))
    return records, {"unlabelled": [record.id for record in records if _unlabelled(record)]}, ledger


def _name(schema: str) -> str:
    """Returns the schema's name without its version: all known versions are read as the newest."""
    return schema.partition("/")[0]


def _unlabelled(record: Record) -> bool:
    """Returns whether a record of a dataset folder has no label. Its questions without answers are unanswerable."""
    if isinstance(record, TaggingExample):
        return bool(record.tokens) and not record.tags
    return isinstance(record, PairExample) and record.label is None


def few(records: Sequence[R], examples: int, sample: int) -> list[R]:
    """Returns few-shot training set `sample`: the `examples` records with the smallest hash of sample and record,
    in the order of their hashes.

    It depends only on the records, not on their order or files. Sets of one sample are nested: the 64 are the first 64
    of the 128. The hash leaves out ids, which only order records that are otherwise equal: published ids are not unique
    (of 3,696 English questions in a TyDiQA-GoldP, 1,651 have the id 0).

    Raises `ConfigError` if there are fewer records.
    """
    if not 1 <= examples <= len(records):
        raise ConfigError(f"expected --examples in 1..{len(records)}, the records that there are; found {examples}")

    def rank(record: R) -> tuple[bytes, str]:
        row = {name: value for name, value in record.to_row().items() if name not in ("query_lang", "source_id")}
        key = json.dumps([sample, {**row, "id": ""}], sort_keys=True)
        return hashlib.sha256(key.encode()).digest(), record.id

    return sorted(records, key=rank)[:examples]


def labels_of(records: Sequence[Record], task: str) -> tuple[str, ...]:
    """Returns the task's labels, in its order: of entities, targets or pairs; none for questions.

    Raises `InputError` if a record has another label.
    """
    expected = task_of(task).labels
    for record in records:
        if isinstance(record, TaggingExample):
            labels = [tag[2:] for tag in record.tags if tag != "O"]
        else:
            labels = [record.label] if isinstance(record, PairExample) and record.label is not None else []
        if other := [label for label in labels if label not in expected]:
            raise InputError(
                f"record {record.id} ({record.lang}): expected a label of {task}, which are {', '.join(expected)}; "
                f"found {other[0]!r}"
            )
    return expected
