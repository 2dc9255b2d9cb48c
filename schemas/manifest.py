"""The manifest lists a dataset's files. It is written last, so a folder without `manifest.json` is not a dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin, get_type_hints

from schemas.counts import Counts
from schemas.errors import DatasetError, NotFoundError

FORMAT_VERSION = 1
FILE_NAME = "manifest.json"

_RESTORE = "Restore the file from a copy, or make the dataset again in a new folder"


class ShardInfo(NamedTuple):
    """A shard's content: the number of rows, the size in bytes, and the SHA-256 in hexadecimal digits."""

    rows: int
    bytes: int
    sha256: str


class ShardEntry(NamedTuple):
    """One shard of a folder: `ShardEntry("data/part-00000-of-00016.arrow", *write_shard(…))`."""

    file: str  # relative to the folder, with "/"
    rows: int
    bytes: int
    sha256: str

    @property
    def info(self) -> ShardInfo:
        return ShardInfo(self.rows, self.bytes, self.sha256)


class InputFile(NamedTuple):
    """One file that the job read. Size and checksum are None where a remote file system does not give them."""

    corpus: str
    path: str
    bytes: int | None
    sha256: str | None


@dataclass(frozen=True)
class Manifest:
    """Everything that determines a dataset's bytes, and their sizes and checksums.

    The same inputs, configuration and versions give the same manifest, byte for byte, except for `created`, which is
    None by default.
    """

    schema: str  # name and version: "clism/1"
    shards: tuple[ShardEntry, ...]  # of data/, in reading order
    rejects: tuple[ShardEntry, ...]  # of rejects/: a sample; `counts` are exact
    counts: Mapping[str, Counts]  # language pair or language, as "en-vi" or "sw" → its counts
    config: dict[str, Any]  # the resolved configuration: plain JSON values
    versions: dict[str, str]  # of every library that affects the bytes
    inputs: tuple[InputFile, ...]
    commit: str | None = None
    created: str | None = None
    format_version: int = field(default=FORMAT_VERSION, kw_only=True)

    @classmethod
    def planned(cls, schema: str, config: dict[str, Any], versions: dict[str, str], commit: str | None) -> Manifest:
        """Returns the manifest of a dataset that is yet to be made."""
        return cls(schema, (), (), {}, config, versions, (), commit)

    @property
    def totals(self) -> Counts:
        return sum(self.counts.values(), _counts_type(self.schema)())

    def problems(self) -> list[str]:
        """Returns the contradictions in this manifest, in words."""
        found = [f"{name}: {problem}" for name, counts in sorted(self.counts.items()) for problem in counts.problems()]
        rows = sum(shard.rows for shard in self.shards)
        if rows != self.totals.examples:
            found.append(f"the shards hold {rows} rows, but the counts say {self.totals.examples} examples")
        for folder, shards in (("data", self.shards), ("rejects", self.rejects)):
            files = [shard.file for shard in shards]
            found += [f"{file!r} is not a file of {folder}/" for file in files if not _is_in(folder, file)]
            found += [f"{file} is listed twice" for file in sorted(set(files)) if files.count(file) > 1]
        return found

    def to_json(self) -> str:
        values = {
            "format_version": self.format_version,
            "schema": self.schema,
            "totals": self.totals.to_json(),
            "counts": {langs: counts.to_json() for langs, counts in sorted(self.counts.items())},
            "shards": [shard._asdict() for shard in self.shards],
            "rejects": [shard._asdict() for shard in self.rejects],
            "config": self.config,
            "versions": dict(sorted(self.versions.items())),
            "inputs": [file._asdict() for file in self.inputs],
            "commit": self.commit,
            "created": self.created,
        }
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Returns the manifest in a JSON text. Raises `DatasetError` for missing, mistyped or unknown fields."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise DatasetError(f"{FILE_NAME} is not JSON ({error}). {_RESTORE}") from None
        if not isinstance(values, dict):
            raise DatasetError(f"{FILE_NAME}: expected an object, found a {type(values).__name__}. {_RESTORE}")
        version = values.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise DatasetError(
                f"{FILE_NAME} has format version {version!r}, but this release of polyspan reads version "
                f"{FORMAT_VERSION}. Read it with the release that wrote it, or a later one"
            )
        totals = values.pop("totals", None)
        manifest: Manifest = _decoded(cls, values, "")
        if totals != manifest.totals.to_json():
            raise DatasetError(f"{FILE_NAME}: totals are missing, or not the sum of the counts. {_RESTORE}")
        return manifest


def load(folder: str | Path) -> Manifest:
    """Returns the manifest of a local dataset folder. Raises `DatasetError` if there is none, or it cannot be read."""
    path = Path(folder) / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if not Path(folder).is_dir():
            raise NotFoundError(f"{folder}: no such folder. Expected a dataset, which holds {FILE_NAME}") from None
        raise NotFoundError(
            f"{folder}: not a dataset: it has no {FILE_NAME}, which is written last. Either the job was stopped or is "
            "still running (repeat its command to continue), or the dataset is another folder"
        ) from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}). {_RESTORE}") from None
    try:
        return Manifest.from_json(text)
    except DatasetError as error:
        raise DatasetError(f"{folder}: {error}") from None


def _counts_type(schema: object) -> type[Counts]:
    from schemas.catalog import SCHEMAS  # imports pyarrow, which `--help` does without

    if not isinstance(schema, str) or schema not in SCHEMAS:
        known = ", ".join(sorted(SCHEMAS))
        raise DatasetError(f"{FILE_NAME}: schema {schema} is not one that this release of polyspan reads ({known})")
    return SCHEMAS[schema].counts


def _decoded(hint: Any, value: Any, where: str) -> Any:
    """Returns JSON's plain `value` as the type `hint`; `where` names it in error messages."""
    outer, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if outer in (UnionType, Union):  # of a type and None
        return None if value is None else _decoded(inner[0], value, where)
    if outer is tuple and isinstance(value, list):
        return tuple(_decoded(inner[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if outer is dict and isinstance(value, dict):
        return {name: _decoded(inner[1], item, f"{where}[{name!r}]") for name, item in value.items()}
    if outer is None and issubclass(hint, (Manifest, ShardEntry, InputFile, Counts)) and isinstance(value, dict):
        hints = {name: type_ for name, type_ in get_type_hints(hint).items() if get_origin(type_) is not ClassVar}
        added = getattr(hint, "ADDED", ())
        if missing := [name for name in hints if name not in value and name not in added]:
            raise DatasetError(f"{FILE_NAME}: {where or 'it'} lacks {', '.join(missing)}. {_RESTORE}")
        if unknown := [name for name in value if name not in hints]:
            raise DatasetError(f"{FILE_NAME}: {where or 'it'} has unknown {', '.join(unknown)}. {_RESTORE}")
        if hint is Manifest:
            hints["counts"] = dict[str, _counts_type(value["schema"])]  # type: ignore[misc]
        return hint(
            **{name: _decoded(hints[name], item, f"{where}.{name}".lstrip(".")) for name, item in value.items()}
        )
    if type(value) is hint:  # isinstance would take True for a count
        return value
    raise DatasetError(f"{FILE_NAME}: {where}: expected {getattr(hint, '__name__', hint)}, found {value!r}. {_RESTORE}")


def _is_in(folder: str, file: str) -> bool:
    parent, _, name = file.partition("/")
    return parent == folder and bool(name) and not {"/", "\\"} & set(name) and name not in (".", "..")
