"""Which files of a folder belong to a dataset or to a running job, by their names and marks; local and remote folders.

    out/manifest.json  README.md  data/part-*.arrow  rejects/part-*.arrow       of a dataset
    out/work/FINGERPRINT/job.json  out/work/FINGERPRINT/STAGE/KEY.*             of a running job
    .NAME.32-HEX-DIGITS.partial                                                 of a file that is being written

A file belongs to us only if a mark, the manifest or a job.json, shows that we wrote to its folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from pipelines.runtime.work_folder import open_file
from schemas.errors import ConfigError, DatasetError
from schemas.manifest import FILE_NAME, Manifest
from schemas.runtime import output_folder

WORK = "work"
MARK = "job.json"
NAMES_OF_A_DATASET = re.compile(
    rf"{WORK}/[0-9a-f]{{16}}/({MARK}|[a-z]+/[^/]+\.(json|arrow|model|titles))"
    r"|(data|rejects)/part-\d{5}-of-\d{5}\.arrow|README\.md|manifest\.json"
)
_TEMPORARY = re.compile(r"(.*/)?\.[^/]+\.[0-9a-f]{32}\.partial")


def files_of(folder: Path) -> set[str] | None:
    """Returns the files of the dataset or job in a local folder; None if the folder has no mark."""
    return own_files(set(output_folder.files_in(folder)), lambda name: (folder / name).read_bytes())


def own_files(names: set[str], read: Callable[[str], bytes]) -> set[str] | None:
    """Returns those of a folder's files that its manifest lists or that belong to a running job; None without a mark.

    `read` returns the content of one of `names`.
    """
    marks = [name for name in names if re.fullmatch(rf"{WORK}/[0-9a-f]{{16}}/{MARK}", name) and _is_job(read(name))]
    own: set[str] | None = {name for name in names if NAMES_OF_A_DATASET.fullmatch(name)} if marks else None
    if FILE_NAME in names:
        try:
            index = Manifest.from_json(read(FILE_NAME).decode())
        except (DatasetError, ValueError):
            return None
        listed = {shard.file for shard in (*index.shards, *index.rejects)} | {FILE_NAME, "README.md"}
        return listed | {name for name in own or () if name.startswith(f"{WORK}/")}
    return own


def _is_job(content: bytes) -> bool:
    try:
        values = json.loads(content)
    except ValueError:
        return False
    return isinstance(values, dict) and {"config", "versions", "inputs"} <= values.keys()


def is_of_dataset(name: str) -> bool:
    """Returns whether a complete dataset may have a file of this name."""
    return bool(NAMES_OF_A_DATASET.fullmatch(name)) and not name.startswith(f"{WORK}/")


def is_temporary(name: str) -> bool:
    """Returns whether `replace_file` may have left a file of this name behind."""
    return bool(_TEMPORARY.fullmatch(name))


def is_of_running_job(name: str) -> bool:
    """Returns whether a file of this name is of no use when the dataset is complete."""
    return bool(is_temporary(name) or (name.startswith(f"{WORK}/") and NAMES_OF_A_DATASET.fullmatch(name)))


# --- folders on any file system --------------------------------------------------------------------------------------


def names_in(folder: str) -> set[str]:
    """Lists the files in a folder and the folders below it, with their paths relative to it."""
    try:
        files = FileSystems.match([FileSystems.join(folder, "**")])[0].metadata_list
    except OSError as error:
        raise ConfigError(f"--output {folder}: cannot be looked up: {error}") from error
    prefix = folder.rstrip("/") + "/"
    return {file.path.removeprefix(prefix) for file in files}


def delete(folder: str, names: Iterable[str]) -> None:
    """Deletes files, marks of jobs last: what is left after a kill is then still known to be ours."""
    paths = [FileSystems.join(folder, *name.split("/")) for name in sorted(names, key=lambda name: name.endswith(MARK))]
    if paths:
        FileSystems.delete(paths)


def marks_in(folder: str) -> list[str]:
    """Returns the paths of the marks of the jobs that were begun in a folder."""
    return [file.path for file in FileSystems.match([FileSystems.join(folder, WORK, "*", MARK)])[0].metadata_list]


def manifest_in(folder: str) -> Manifest:
    return Manifest.from_json(read_file(folder, FILE_NAME).decode())


def read_file(folder: str, name: str) -> bytes:
    with open_file(FileSystems.join(folder, *name.split("/"))) as stream:
        return stream.read()


def read_json(path: str) -> dict[str, Any]:
    with open_file(path) as stream:
        value: dict[str, Any] = json.loads(stream.read())
    return value
