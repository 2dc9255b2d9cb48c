"""Starting a job: its output folder, Beam's options, progress while it runs, and errors that people can read."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import logging
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from pipelines.logs import progress, worker_processes_write_to_a_file
from pipelines.steps.records import ConfigError, InputError
from pipelines.work import WorkFolder, delete_tree, open_file, replace_file
from schemas.manifest import FILE_NAME, Manifest
from schemas.provenance import commit as commit
from schemas.provenance import polyspan_version as polyspan_version

WORK = "work"
IN_PROCESS_RUNNER = "FnApiRunner"  # Beam's own choice may fetch a runner from the web

logger = logging.getLogger(__name__)


def open_output(output: str, overwrite: bool, identity: Mapping[str, Any]) -> WorkFolder:
    """The work folder inside `output`: the one of a job that was stopped, if it was the same job, or a new one.

    `identity` is everything that decides what the job writes.
    """
    if not output:
        raise ConfigError("No output folder. Name one: --output FOLDER")
    manifest = FileSystems.join(output, FILE_NAME)
    if FileSystems.exists(manifest):
        if not overwrite:
            raise ConfigError(
                f"{output} already holds a dataset. Name another --output, or replace it with: --overwrite"
            )
        FileSystems.delete([manifest])
    elif "://" not in output and Path(output).is_file():
        raise ConfigError(f"{output} is a file, but --output names a folder.")
    for leftover in ("data", "rejects"):
        delete_tree(FileSystems.join(output, leftover))
    fingerprint = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    work = WorkFolder(FileSystems.join(output, WORK, fingerprint))
    marker = FileSystems.join(work.path, "job.json")
    if FileSystems.exists(marker):
        logger.info("Going on with a job that was stopped; what it finished is kept in %s", work.path)
    else:
        delete_tree(FileSystems.join(output, WORK))
        with replace_file(marker) as stream:
            stream.write(json.dumps(identity, indent=2, sort_keys=True).encode())
    return work


def close_output(output: str) -> Manifest:
    """The finished dataset's manifest; what only the running job needed is deleted."""
    with open_file(FileSystems.join(output, FILE_NAME)) as stream:
        manifest = Manifest.from_json(stream.read().decode())
    delete_tree(FileSystems.join(output, WORK))
    return manifest


def launch(build: Callable[[beam.Pipeline], None], progress_line: Callable[[], str], options: PipelineOptions) -> None:
    """Runs the graph to its end, and says meanwhile on stderr how far it is."""
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    local_workers = options.view_as(DirectOptions).direct_running_mode == "multi_processing"
    quiet = worker_processes_write_to_a_file() if local_workers else contextlib.nullcontext()
    with quiet, interpreter_quoted(), progress(progress_line):
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except Exception as error:
            if expected := _expected_error(error):
                raise expected from None
            raise


@contextlib.contextmanager
def interpreter_quoted() -> Iterator[None]:
    """While the body runs, Beam starts worker processes by a path that a shell takes as one word.

    It makes a line for a shell out of `sys.executable`, unquoted, and waits for ever for workers that did not start.
    """
    before = sys.executable
    sys.executable = shlex.quote(before)
    try:
        yield
    finally:
        sys.executable = before


def _expected_error(error: BaseException) -> ConfigError | InputError | None:
    """The error that a worker raised on purpose, out of the traceback that a runner made of it."""
    for kind in (ConfigError, InputError):
        text = f".{kind.__name__}: {error}" if isinstance(error, kind) else str(error)
        if found := re.search(rf"\.{kind.__name__}: (.*?)(?= \[while running|\n\s*\n|\Z)", text, re.DOTALL):
            return kind(found.group(1).strip())
    return None


def runner_options(arguments: Sequence[str], workers: int) -> PipelineOptions:
    """Beam's options. Unlike Beam, refuses arguments that no option of Beam or of the runner takes."""
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for cls in PipelineOptions.__subclasses__():
        with contextlib.suppress(argparse.ArgumentError):
            cls._add_argparse_args(known)
    _, unknown = known.parse_known_args(list(arguments))
    if unknown:
        options = [option for action in known._actions for option in action.option_strings]
        close = difflib.get_close_matches(unknown[0].split("=")[0], options, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ConfigError(f"No runner option of Beam takes {unknown[0]!r} (after `--`).{hint}")
    arguments = list(arguments)
    if not any(argument.startswith("--runner") for argument in arguments):
        arguments.append(f"--runner={IN_PROCESS_RUNNER}")
        if workers != 1:
            arguments += ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
            arguments += ["--default_sdk_harness_log_level=WARNING"]
            arguments += ['--sdk_harness_log_level_overrides={"pipelines": "INFO"}']
    elif workers != 1:
        raise ConfigError("--workers is for local runs: give the runner's own option for its workers after `--`.")
    return PipelineOptions(arguments)


def chunk_progress(work: WorkFolder, stages: Mapping[str, str]) -> str:
    """How many chunks each stage has finished: each is a file, whatever the runner.

    `stages` are the work folder's stages, in order, with the words that a person reads. The first one's chunks are
    what the others have to do.
    """
    (first, total), *rest = [(words, len(work.keys(stage))) for stage, words in stages.items()]
    return " · ".join([f"{first} {total:,} chunks", *(f"{words} {done:,} of {total:,}" for words, done in rest)])


def sizes_and_times(paths: Sequence[str]) -> list[list[object]]:
    """Path, size and time of every input file: a job that was stopped goes on only if they are still the same."""
    found = FileSystems.match(list(paths))
    return [
        [path, match.metadata_list[0].size_in_bytes, match.metadata_list[0].last_updated_in_seconds]
        for path, match in zip(paths, found, strict=True)
    ]
