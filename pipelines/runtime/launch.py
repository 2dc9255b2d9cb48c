"""Starts a job: checks Beam's options, logs its progress and turns its errors into readable ones."""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

from pipelines.runtime.logs import progress, worker_output_kept
from pipelines.runtime.work_folder import WorkFolder
from schemas.did_you_mean import did_you_mean
from schemas.errors import ConfigError, InputError, OutputError, RunnerError
from schemas.runtime.interrupts import descendants, kill

SERVER_TIMEOUT_S = 10.0
IN_PROCESS_RUNNER = "FnApiRunner"  # Beam's default may download a runner

logger = logging.getLogger(__name__)


def launch(build: Callable[[beam.Pipeline], None], progress_line: Callable[[], str], options: PipelineOptions) -> None:
    """Runs the graph to its end and prints its progress on stderr.

    Raises `ConfigError` if the runner refuses the job or cannot be reached, and `RunnerError` if a worker process dies
    or a runner outside this process fails. Errors that workers raise on purpose are raised again.
    """
    runner = options.view_as(StandardOptions).runner
    in_process = runner == IN_PROCESS_RUNNER
    with contextlib.nullcontext() if in_process else _start_errors_in_words(runner):
        check_servers(options)
        pipeline = beam.Pipeline(options=options)
    build(pipeline)
    before = descendants()
    local_workers = options.view_as(DirectOptions).direct_running_mode == "multi_processing"
    quiet = worker_output_kept() if local_workers else contextlib.nullcontext()
    with quiet, interpreter_quoted(), progress(progress_line):
        try:
            with contextlib.nullcontext() if in_process else _start_errors_in_words(runner):
                result = pipeline.run()
            result.wait_until_finish()
        except Exception as error:
            kill(descendants() - before)  # other workers must not write any more
            if expected := _expected_error(error) or _runner_error(error, runner):
                raise expected from None
            raise


def _runner_error(error: Exception, runner: str) -> RunnerError | None:
    """Returns an error that explains the failure of a worker or of a runner; None for an error of this program."""
    if re.search(r"Channel closed|Socket closed|Worker subprocess exited|Connection reset", str(error)):
        return RunnerError(
            "A worker process died; often the system ends one because memory is full. Repeat the command to go on from "
            "what is finished, with fewer --workers"
        )
    if runner == IN_PROCESS_RUNNER:
        return None
    last = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()[:500]
    return RunnerError(
        f"The job failed on {runner}: {last}. The runner's own log says more; repeat the command to go on"
    )


@contextlib.contextmanager
def interpreter_quoted() -> Iterator[None]:
    """Quotes `sys.executable` while the body runs, so that Beam can start workers if its path contains blanks.

    Beam puts it unquoted into a shell's command line, and waits forever for workers that did not start.
    """
    before = sys.executable
    sys.executable = shlex.quote(before)
    try:
        yield
    finally:
        sys.executable = before


@contextlib.contextmanager
def _start_errors_in_words(runner: str) -> Iterator[None]:
    """Raises `ConfigError` with the runner's own words if it cannot take the job, without the traceback."""
    try:
        yield
    except (ConfigError, InputError):
        raise
    except Exception as error:
        if expected := _expected_error(error):
            raise expected from None
        text = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(
            f"{runner} cannot run the job: {text[:500] or type(error).__name__}. Change the options after `--`, or "
            "leave them out to run on this machine"
        ) from None


def check_servers(options: PipelineOptions) -> None:
    """Raises `ConfigError` if no server answers at a cluster's address; Beam would wait for it forever."""
    given = options.get_all_options()
    for option in ("job_endpoint", "artifact_endpoint", "flink_master", "spark_master_url", "environment_config"):
        address = re.fullmatch(r"(?:(?:https?|spark)://)?([\w.-]+):(\d{1,5})/?", str(given.get(option) or ""))
        if not address or (option == "environment_config" and given.get("environment_type") != "EXTERNAL"):
            continue
        try:
            socket.create_connection((address[1], int(address[2])), timeout=SERVER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--{option}={given[option]}: nothing answers there ({error}). Start the server, or correct the address"
            ) from None


def _expected_error(error: BaseException) -> ConfigError | InputError | OutputError | None:
    """Returns the error that a worker raised on purpose, from the traceback that the runner made of it."""
    for kind in (ConfigError, InputError, OutputError):
        text = f".{kind.__name__}: {error}" if isinstance(error, kind) else str(error)
        if match := re.search(rf"\.{kind.__name__}: (.*?)(?= \[while running|\n\s*\n|\Z)", text, re.DOTALL):
            return kind(match.group(1).strip())
    return None


def runner_options(arguments: Sequence[str], workers: int) -> PipelineOptions:
    """Returns Beam's options. Raises `ConfigError` for arguments that are no option of Beam or of the runner."""
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for cls in PipelineOptions.__subclasses__():
        with contextlib.suppress(argparse.ArgumentError):
            cls._add_argparse_args(known)
    _, unknown = known.parse_known_args(list(arguments))
    if unknown:
        options = [option for action in known._actions for option in action.option_strings]
        hint = did_you_mean(unknown[0].split("=")[0], options)
        raise ConfigError(f"No runner option of Beam takes {unknown[0]!r} (after `--`).{hint}")
    if workers < 0:
        raise ConfigError(f"--workers {workers}: expected 1 or more, or 0 for as many as there are cores.")
    arguments = list(arguments)
    _check_runner(arguments)
    if not any(argument.startswith("--runner") for argument in arguments):
        arguments.append(f"--runner={IN_PROCESS_RUNNER}")
        if workers != 1:
            arguments += ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
            arguments += ["--default_sdk_harness_log_level=WARNING"]
            arguments += ['--sdk_harness_log_level_overrides={"pipelines": "INFO"}']
    elif workers != 1:
        raise ConfigError("--workers is for local runs: give the runner's own option for its workers after `--`.")
    return PipelineOptions(arguments)


def _check_runner(arguments: Sequence[str]) -> None:
    """Raises `ConfigError` for a runner that Beam does not have, or for a mode that loses records."""
    options = PipelineOptions(list(arguments))
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ConfigError(
            "--direct_running_mode=multi_threading loses records in Beam 2.77 (a GroupByKey drops values). "
            "Use several processes instead: --workers 4"
        )
    runner = options.view_as(StandardOptions).runner
    known = StandardOptions.KNOWN_RUNNER_NAMES
    if runner and "." not in runner and runner.lower().removesuffix("runner") not in _short_names(known):
        hint = did_you_mean(runner, known) or f" Beam has: {', '.join(known)}."
        raise ConfigError(f"--runner={runner}: there is no such runner.{hint}")


def _short_names(runners: Sequence[str]) -> set[str]:
    return {name.lower().removesuffix("runner") for name in runners}


def chunk_progress(work: WorkFolder, stages: Mapping[str, str]) -> str:
    """Returns how many chunks each stage has finished; each chunk is a file, whatever the runner.

    `stages` maps the work folder's stages, in order, to words. The later stages process the chunks of the first one.
    """
    (first, total), *rest = [(words, len(work.keys(stage))) for stage, words in stages.items()]
    return " · ".join([f"{first} {total:,} chunks", *(f"{words} {done:,} of {total:,}" for words, done in rest)])


def sizes_and_times(paths: Sequence[str]) -> list[list[object]]:
    """Returns path, size and time of every input file; a stopped job goes on only if they are the same."""
    matches = FileSystems.match(list(paths))
    return [
        [path, match.metadata_list[0].size_in_bytes, match.metadata_list[0].last_updated_in_seconds]
        for path, match in zip(paths, matches, strict=True)
    ]
