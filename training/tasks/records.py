"""The labelled records that a command names: published files of a task, or dataset folders that `convert` wrote."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from schemas import manifest
from schemas.counts import RecordCounts
from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, PairExample, TaggingExample, labels_in
from schemas.runtime.checksums import sha256_of
from schemas.shards import read_examples
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneRecipe
from training.tasks.catalog import TASKS, Task
from training.tasks.files import FileLedger, FileRecords, LeftOut, refuse_unlabelled
from training.tasks.files import Record as Record

R = TypeVar("R", MrcExample, TaggingExample, PairExample, Record)


class Source(NamedTuple):
    """One path that was read."""

    path: Path
    sha256: str  # of the file; of a dataset folder its manifest's, which names the checksum of every shard
    records: int


class Records(NamedTuple):
    """What `read_records` found: the records of the first source, then those of the next."""

    task: Task
    records: list[Record]
    flags: Counter[str]  # what the readers noticed: reason → records
    sources: tuple[Source, ...]
    counts: Mapping[str, RecordCounts]  # language → what the sources hold = the records and their labels + what is lost
    left_out: Sequence[tuple[str, LeftOut]]  # name of the source, and what its reader does not keep

    @property
    def accounts(self) -> list[str]:
        """What became of all records and labels, in words."""
        return sum(self.counts.values(), RecordCounts()).accounts()

    @property
    def files(self) -> dict[str, str]:
        """Position and name of each source → its SHA-256."""
        return {f"{at} {source.path.name}": source.sha256 for at, source in enumerate(self.sources, start=1)}


def task_of(name: str) -> Task:
    """Raises `ConfigError` naming the task that may have been meant."""
    if name in TASKS:
        return TASKS[name]
    close = difflib.get_close_matches(name, TASKS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Tasks: {', '.join(TASKS)}"
    raise ConfigError(f"unknown task {name!r}. {hint}")


def check_recipe(recipe: FinetuneRecipe) -> None:
    """Raises `ConfigError` if a recipe of ours is given a task of another kind than its own: its numbers, such as the
    tokens of a sequence and the epochs, are not for that. A recipe of another name is its author's to judge."""
    given, known = task_of(recipe.task).kind, FINETUNE_RECIPES.get(recipe.name)
    if known is None or (own := TASKS[known.task].kind) == given:
        return
    fitting = ", ".join(name for name, each in FINETUNE_RECIPES.items() if TASKS[each.task].kind == given)
    raise ConfigError(
        f"recipe {recipe.name} is for {own}, but --task {recipe.task} is {given}. Recipes for {given}: {fitting}"
    )


def check_langs(langs: Sequence[str], files: Sequence[Path], what: str = "files") -> None:
    """Raises `ConfigError` unless there are no languages or one for each file."""
    if langs and len(langs) != len(files):
        raise ConfigError(f"expected a language for each of {len(files)} {what}, found {len(langs)}")


def read_records(paths: Sequence[Path], task: str, langs: Sequence[str] = (), labelled: bool = False) -> Records:
    """All records of `paths`, in their order, each path a published file of the task or a dataset folder of its kind.

    `langs`: one for each path, or none where names and folders say them. `labelled`: records without labels, such as
    those of XTREME's test files, are refused (`training.tasks.files` has the rule). Ids need not be unique, for what is
    predicted of a record is known by its place: how many stood before, in the same languages, is counted as
    `duplicate_id`.

    Raises `ConfigError` for what cannot work, `InputError` and `DatasetError` naming the file that is at fault.
    """
    of = task_of(task)
    check_sources(paths, task, langs)
    records: list[Record] = []
    flags: Counter[str] = Counter()
    sources = []
    counts: dict[str, RecordCounts] = {}
    left_out: list[tuple[str, LeftOut]] = []
    for at, path in enumerate(paths):
        lang = langs[at] if langs else None
        found, flagged, ledger = _folder(path) if path.is_dir() else TASKS[task].read(path, lang)
        if not found:
            raise InputError(f"{path}: holds no record")
        if labelled:
            refuse_unlabelled(path, len(flagged.get("unlabelled", ())), len(found))
        records += found
        flags += Counter({reason: len(ids) for reason, ids in flagged.items()})
        for name, each in ledger.counts(found).items():
            counts[name] = counts.get(name, RecordCounts()) + each
        left_out += [(path.name, each) for each in ledger.left_out]
        sources.append(Source(path, sha256_of(path / manifest.FILE_NAME if path.is_dir() else path), len(found)))
    flags["duplicate_id"] = len(records) - len({identity(record) for record in records})
    return Records(of, records, +flags, tuple(sources), counts, left_out)


def check_sources(paths: Sequence[Path], task: str, langs: Sequence[str] = ()) -> None:
    """Raises what `read_records` would for paths that are not there and folders of something else; reads no record."""
    of = task_of(task)
    if not paths:
        raise ConfigError(f"no files: name those of {task}, or dataset folders of {of.shared.schema}")
    check_langs(langs, paths)
    if twice := [path for path, count in Counter(paths).items() if count > 1]:
        raise ConfigError(f"{twice[0]}: given twice")
    check_paths(paths, "file or folder")
    for at, path in enumerate(paths):
        if path.is_dir():
            _check_folder(path, of, langs[at] if langs else None)


def check_paths(paths: Iterable[Path], what: str = "file") -> None:
    """Raises `ConfigError` for the first path that is not there, `InputError` for one that must not be read."""
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: no such {what}")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: cannot be read (Permission denied)")


def identity(record: Record) -> tuple[Hashable, ...]:
    """What no two rows of a dataset share. MLQA has every id in up to seven languages of questions on a context."""
    asked_in = record.query_lang if isinstance(record, MrcExample) else None
    return record.lang, asked_in, record.id


def _check_folder(path: Path, task: Task, lang: str | None) -> None:
    index = manifest.load(path)
    expected = task.shared.schema
    if _name(index.schema) != _name(expected):
        tasks = ", ".join(name for name, each in TASKS.items() if _name(each.shared.schema) == _name(index.schema))
        hint = f" Records of {index.schema} are for {tasks}" if tasks else ""
        raise ConfigError(f"{path}: has schema {index.schema}, but the task reads {expected}.{hint}")
    if lang is not None and set(index.counts) != {lang}:
        raise ConfigError(f"{path}: its records are of {', '.join(sorted(index.counts))}, but its language is {lang!r}")


def _folder(path: Path) -> FileRecords[Record]:
    records: list[Record] = list(read_examples(path, verify=True))
    ledger = FileLedger()
    for record in records:
        ledger.add(record.lang, labels_in(record))
    return records, {"unlabelled": [record.id for record in records if _unlabelled(record)]}, ledger


def _name(schema: str) -> str:
    """Without its version: every version that the manifest's reader knows is read as the newest."""
    return schema.partition("/")[0]


def _unlabelled(record: Record) -> bool:
    """In a dataset folder: there, questions without answers are unanswerable."""
    if isinstance(record, TaggingExample):
        return bool(record.tokens) and not record.tags
    return isinstance(record, PairExample) and record.label is None


def few(records: Sequence[R], examples: int, sample: int) -> list[R]:
    """The few-shot training set number `sample` of so many records: those that a hash of the sample and the record
    ranks first, in that order.

    It depends on the records alone, not on their order or files. Draws of one sample are nested: the 64 are the first
    64 of the 128. Ids decide only between records that are otherwise the same: published ones do not tell records
    apart (of 3,696 English questions in a TyDiQA-GoldP, 1,651 have the id 0).

    Raises `ConfigError` if there are not as many records.
    """
    if not 1 <= examples <= len(records):
        raise ConfigError(f"expected --examples in 1..{len(records)}, the records that there are; found {examples}")

    def rank(record: R) -> tuple[bytes, str]:
        row = {name: value for name, value in record.to_row().items() if name not in ("query_lang", "source_id")}
        key = json.dumps([sample, {**row, "id": ""}], sort_keys=True)
        return hashlib.sha256(key.encode()).digest(), record.id

    return sorted(records, key=rank)[:examples]


def labels_of(records: Sequence[Record], task: str) -> tuple[str, ...]:
    """The task's labels, in its order: of entities, targets or pairs; none for questions.

    Raises `InputError` if a record has another.
    """
    known = task_of(task).labels
    for record in records:
        if isinstance(record, TaggingExample):
            labels = [tag[2:] for tag in record.tags if tag != "O"]
        else:
            labels = [record.label] if isinstance(record, PairExample) and record.label is not None else []
        if strange := [label for label in labels if label not in known]:
            raise InputError(
                f"record {record.id} ({record.lang}): expected a label of {task}, which are {', '.join(known)}; "
                f"found {strange[0]!r}"
            )
    return known
