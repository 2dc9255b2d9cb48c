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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipelines.steps.common.paths import is_remote
from schemas.errors import OutputError, os_error_in_words


@dataclass(frozen=True)
class WorkFolder:
    path: str

    def file(self, stage: str, name: str) -> str:
        return FileSystems.join(self.path, stage, name)

    def run_once(
        self, stage: str, key: str, make: Callable[[], tuple[pa.Table | list[pa.Table] | None, dict[str, Any]]]
    ) -> dict[str, Any]:
        """The summary of a finished step; runs `make` and keeps its table and summary where it is not finished.

        A list of tables, of one schema, is kept as the parts of one file, to be read one by one.
        """
        summary_path = self.file(stage, f"{key}.json")
        if FileSystems.exists(summary_path):
            return self.summary(stage, key)
        table, summary = make()
        if table is not None:
            parts = table if isinstance(table, list) else [table]
            path = self.file(stage, f"{key}.arrow")
            with replace_file(path) as stream, pa.ipc.new_file(stream, parts[0].schema) as writer:
                for part in parts:
                    writer.write_batch(_one_batch(part))
        with replace_file(summary_path) as stream:
            stream.write(json.dumps(summary, ensure_ascii=False).encode())
        return summary

    def summary(self, stage: str, key: str) -> dict[str, Any]:
        with open_file(self.file(stage, f"{key}.json")) as stream:
            return json.loads(stream.read())

    def table(self, stage: str, key: str, columns: list[str] | None = None) -> pa.Table:
        """What a finished step kept. Of a local file, only what is looked at is ever read."""
        with self._open(stage, key) as reader:
            table = reader.read_all()
        return table.select(columns) if columns else table

    def part(self, stage: str, key: str, index: int) -> pa.Table:
        """One of the tables that a finished step kept as a list."""
        with self._open(stage, key) as reader:
            return pa.Table.from_batches([reader.get_batch(index)])

    @contextmanager
    def _open(self, stage: str, key: str) -> Iterator[pa.ipc.RecordBatchFileReader]:
        path = self.file(stage, f"{key}.arrow")
        if is_remote(path):
            with open_file(path) as stream, pa.ipc.open_file(pa.PythonFile(stream)) as reader:
                yield reader
        else:
            with pa.memory_map(path) as stream, pa.ipc.open_file(stream) as reader:
                yield reader

    def keys(self, stage: str) -> list[str]:
        """What is finished of a stage, in the order of the input."""
        paths = (file.path for file in FileSystems.match([self.file(stage, "*.json")])[0].metadata_list)
        return sorted(FileSystems.split(path)[1].removesuffix(".json") for path in paths)

    def has_finished_any(self) -> bool:
        """Whether any step is done."""
        return bool(FileSystems.match([self.file("*", "*.json")], limits=[1])[0].metadata_list)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


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
    try:
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            yield stream
        FileSystems.rename([temporary], [path])
    except Exception as error:
        with suppress(Exception):
            FileSystems.delete([temporary])
        if isinstance(error, OSError) and (words := os_error_in_words(OSError(error.errno, "", path))):
            raise OutputError(f"{words}: it goes on from what is finished") from None
        raise
