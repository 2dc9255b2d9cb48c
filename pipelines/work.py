"""The folder in which a running job keeps what it has finished, on any file system that Beam knows.

Every step of the job is a function from one piece of input to one Arrow table and a small summary. Both are kept here
under (stage, key), the summary last: where it stands, the step is done, and a job that was stopped goes on from there
when its command is repeated. Elements of the Beam graph are only references to these files, so that no runner ever
holds the corpus in memory, not even the one in process.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems


@dataclass(frozen=True)
class WorkFolder:
    path: str

    def file(self, stage: str, name: str) -> str:
        return FileSystems.join(self.path, stage, name)

    def once(self, stage: str, key: str, make: Callable[[], tuple[pa.Table | None, dict[str, Any]]]) -> dict[str, Any]:
        """The summary of a finished step; runs `make` and keeps its table and summary where it is not finished."""
        summary_path = self.file(stage, f"{key}.json")
        if FileSystems.exists(summary_path):
            return self.summary(stage, key)
        table, summary = make()
        if table is not None:
            path = self.file(stage, f"{key}.arrow")
            with replace_file(path) as stream, pa.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)
        with replace_file(summary_path) as stream:
            stream.write(json.dumps(summary, ensure_ascii=False).encode())
        return summary

    def summary(self, stage: str, key: str) -> dict[str, Any]:
        with open_file(self.file(stage, f"{key}.json")) as stream:
            return json.loads(stream.read())

    def table(self, stage: str, key: str, columns: list[str] | None = None) -> pa.Table:
        with open_file(self.file(stage, f"{key}.arrow")) as stream, pa.ipc.open_file(pa.PythonFile(stream)) as reader:
            table = reader.read_all()
        return table.select(columns) if columns else table

    def keys(self, stage: str) -> list[str]:
        """What is finished of a stage, in the order of the input."""
        paths = (file.path for file in FileSystems.match([self.file(stage, "*.json")])[0].metadata_list)
        return sorted(FileSystems.split(path)[1].removesuffix(".json") for path in paths)


def open_file(path: str) -> BinaryIO:
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


@contextmanager
def replace_file(path: str) -> Iterator[BinaryIO]:
    """Writes under a temporary name and renames: nobody ever sees half a file under `path`.

    The name is a new one each time, since a runner may have two workers try the same step, and begins with a dot, so
    that one left behind is no file of a dataset.
    """
    folder, name = FileSystems.split(path)
    temporary = FileSystems.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
    with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
        yield stream
    FileSystems.rename([temporary], [path])


def delete_tree(path: str) -> None:
    """Deletes a folder and all that is in it, if it is there."""
    if FileSystems.exists(path):
        FileSystems.delete([path])
        return
    # An object store knows no folders, only names that begin alike.
    names = FileSystems.match([FileSystems.join(path, "**")])[0].metadata_list if "://" in path else []
    if names:
        FileSystems.delete([file.path for file in names])
