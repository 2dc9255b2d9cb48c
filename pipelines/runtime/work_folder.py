"""The folder in which a running job keeps what it has finished, on any file system that Beam knows.

Every step of the job is a function from one piece of input to one Arrow table and a small summary. Both are kept under
(stage, key). The summary is written last: a step is done if its summary exists, and a repeated command skips it.
Elements of the Beam graph only name these files, so that no runner holds the corpus in memory.

    work/1f0c…/job.json                 the configuration of the job (`job_output.py`)
    work/1f0c…/pages/en-0000000.arrow   the table of stage `pages`, key `en-0000000`
    work/1f0c…/pages/en-0000000.json    its summary
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
    """What a job has finished, by stage and key."""

    path: str

    def file(self, stage: str, name: str) -> str:
        """Returns the path of a stage's file."""
        return FileSystems.join(self.path, stage, name)

    def run_once(
        self, stage: str, key: str, make: Callable[[], tuple[pa.Table | list[pa.Table] | None, dict[str, Any]]]
    ) -> dict[str, Any]:
        """Returns the summary of a step; if it is not finished, runs `make` and keeps its table and summary.

        A list of tables of one schema is kept as one file, whose parts `part` reads one by one.
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
        """Reads the summary of a finished step."""
        with open_file(self.file(stage, f"{key}.json")) as stream:
            return json.loads(stream.read())

    def table(self, stage: str, key: str, columns: list[str] | None = None) -> pa.Table:
        """Reads the table of a finished step; of a local file, which is mapped into memory, only what is used."""
        with self._open(stage, key) as reader:
            table = reader.read_all()
        return table.select(columns) if columns else table

    def part(self, stage: str, key: str, index: int) -> pa.Table:
        """Reads one of the tables that a finished step kept as a list."""
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
        """Lists the keys of a stage's finished steps, in the order of the input."""
        paths = (file.path for file in FileSystems.match([self.file(stage, "*.json")])[0].metadata_list)
        return sorted(FileSystems.split(path)[1].removesuffix(".json") for path in paths)

    def has_finished_any(self) -> bool:
        """Returns whether any step is finished."""
        return bool(FileSystems.match([self.file("*", "*.json")], limits=[1])[0].metadata_list)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def open_file(path: str) -> BinaryIO:
    """Opens a file as it is stored: Beam would decompress it by its suffix."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


@contextmanager
def replace_file(path: str) -> Iterator[BinaryIO]:
    """Writes a file under a temporary name and renames it, so that `path` is always a whole file.

    The temporary name is unique, because a runner may give the same step to two workers. It begins with a dot, so that
    a file that was left behind is not taken for one of a dataset. Raises `OutputError` if the disk is full.
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
