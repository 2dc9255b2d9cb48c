"""Makes a dataset in its output folder: checks, locks and fills it, or replaces the dataset that it holds.

    out/ is new or empty, or holds a stopped job:   the job writes work/ and data/ in out/, the manifest last
    out/ holds a dataset, with --overwrite:         the job writes the same in .out.new/, which then replaces out/

Remote file systems (`gs://…`) have no locks, and folders cannot be exchanged in one step. Two processes that run the
same job write the same bytes, and another job is refused because of the first one's mark. A replacement is complete in
`.out.new` before the first old file is deleted. Until all its files are moved, `out` holds no dataset; repeating the
command completes the move.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from pipelines.runtime.dataset_files import (
    MARK,
    WORK,
    delete,
    files_of,
    is_of_dataset,
    is_of_running_job,
    is_temporary,
    manifest_in,
    marks_in,
    names_in,
    own_files,
    read_file,
    read_json,
)
from pipelines.runtime.work_folder import WorkFolder, replace_file
from pipelines.steps.common.files import file_digest
from pipelines.steps.common.paths import is_remote
from schemas.errors import ConfigError, InputError
from schemas.manifest import FILE_NAME, Manifest
from schemas.runtime import output_folder
from schemas.runtime.output_folder import differences
from schemas.verification import find_problems

logger = logging.getLogger(__name__)

RunJob = Callable[[str, WorkFolder], None]
"""A function that writes the dataset to a folder and keeps finished steps in the work folder."""


@dataclass(frozen=True)
class Request:
    """The dataset that a command asks for."""

    output: str
    overwrite: bool
    planned: Manifest  # without shards and counts
    inputs: Mapping[str, Sequence[str]]  # command-line option → the files that it names
    data: Sequence[str]  # the files that the manifest will list with their checksums
    identity: Mapping[str, Any]  # everything that decides the bytes that the job writes; plain JSON values

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]


def make_dataset(request: Request, run_job: RunJob) -> Manifest:
    """Returns the manifest of the dataset at `request.output`; `run_job` makes the dataset unless it is there already.

    The folder may hold the same dataset, the same job that was stopped, or, with `overwrite`, another dataset or job.
    Raises `ConfigError` before anything is written if it holds anything else.
    """
    if not request.output:
        raise ConfigError("No output folder. Name one: --output FOLDER")
    if is_remote(request.output):
        _check_scheme(request.output)
        return _make_remote(request, run_job)
    return _make_local(request, run_job)


def _make_local(request: Request, run_job: RunJob) -> Manifest:
    folder = Path(request.output)
    output_folder.recover(folder, files_of)
    output_folder.check_output(folder, files_of, {option: _local(paths) for option, paths in request.inputs.items()})
    finished = _finished(request)
    if finished and not (_leftovers(folder) or output_folder.needs_tidying(folder)):
        return finished  # without a lock, since the file system may be read-only
    with output_folder.locked(folder):
        if finished or (finished := _finished(request)):  # another process may have made it since
            _tidy(folder)
            return finished
        if not (folder / FILE_NAME).exists():
            _fill(request, str(folder), run_job)
            _tidy(folder)
            return manifest_in(request.output)
        with output_folder.replacement(folder, files_of) as new:
            logger.info("The dataset in %s stays until the new one in %s is complete", folder, new)
            _fill(request, str(new), run_job)
        _tidy(folder)
    return manifest_in(request.output)


def _fill(request: Request, folder: str, run_job: RunJob) -> None:
    """Runs the job in `folder`, unless an earlier process finished it and died afterwards."""
    work = _open_work(request, folder)
    if FileSystems.exists(FileSystems.join(folder, FILE_NAME)):
        return
    try:
        run_job(folder, work)
    except BaseException as error:
        # Nothing is kept if the same job would fail again (configuration, input), or if no step is finished.
        if isinstance(error, ConfigError | InputError) or not work.has_finished_any():
            _discard(folder)
        raise


def _open_work(request: Request, folder: str) -> WorkFolder:
    """Opens the work folder of the same job that was stopped, or a new one.

    Raises `ConfigError` if a job with another configuration was stopped here and `overwrite` is False.
    """
    work = WorkFolder(FileSystems.join(folder, WORK, request.fingerprint))
    mark = FileSystems.join(work.path, MARK)
    if FileSystems.exists(mark):
        if work.has_finished_any():
            logger.info("Going on with a job that was stopped; what it finished is kept in %s", work.path)
        return work
    for other in marks_in(folder):
        before = read_json(other).get("config", {})
        changed = list(differences(before, _plain(request.identity["config"]), "config"))
        is_begun = WorkFolder(FileSystems.split(other)[0]).has_finished_any()
        if changed and is_begun and not request.overwrite:
            raise ConfigError(
                f"{folder} holds a job that was stopped and had another configuration ({_in_words(changed)}). Repeat "
                "its own command to go on with it, choose another --output, or begin anew with: --overwrite"
            )
        if is_begun and not changed:
            logger.info("%s: the inputs or programs of a stopped job have changed: beginning anew", folder)
    _discard(folder)
    _write_mark(request, folder)
    return work


def _write_mark(request: Request, folder: str) -> None:
    with replace_file(FileSystems.join(folder, WORK, request.fingerprint, MARK)) as stream:
        stream.write(json.dumps(request.identity, indent=2, sort_keys=True).encode())


def _finished(request: Request) -> Manifest | None:
    """Returns the manifest of the dataset in the output folder if it is the requested one.

    Returns None if there is no dataset. Raises `ConfigError` for another dataset if `overwrite` is False.
    """
    output = request.output
    if not FileSystems.exists(FileSystems.join(output, FILE_NAME)):
        return None
    found = manifest_in(output)
    ours = FileSystems.join(output, WORK, request.fingerprint, MARK)
    changed = [] if FileSystems.exists(ours) else list(_changes(found, request))
    if not changed and not is_remote(output):
        changed = [("its files", problem) for problem in find_problems(output, quick=True)]
    if not changed:
        logger.info("%s is complete: nothing to do", output)
        return found
    if request.overwrite:
        return None
    raise ConfigError(
        f"{output} already holds a dataset, and not what this command makes ({_in_words(changed)}). Choose another "
        "--output, or replace it with: --overwrite"
    )


def _changes(found: Manifest, request: Request) -> Iterable[tuple[str, str]]:
    """Returns how a finished dataset differs from the requested one, as (name, difference).

    Input files are read only if everything else is the same.
    """
    names = ("schema", "config", "versions", "commit")
    before, now = ({name: getattr(manifest, name) for name in names} for manifest in (found, request.planned))
    if changed := list(differences(before, _plain(now))):
        return changed
    if [name for name, (size, _) in _recorded(found).items() if size is None]:
        return [("inputs", "their checksums are unknown")]
    sizes = {match.metadata_list[0].size_in_bytes for match in FileSystems.match(list(request.data))}
    if {size for size, _ in _recorded(found).values()} != sizes:
        return [("inputs", "other files, or files of another size")]
    logger.info("%s: a dataset with this configuration is there; comparing its inputs", request.output)
    digests = {(digest.size_bytes, digest.sha256) for digest in map(file_digest, list(request.data))}
    if digests != set(_recorded(found).values()):
        return [("inputs", "files with other content")]
    return []


def _recorded(found: Manifest) -> dict[str, tuple[int | None, str | None]]:
    """Returns the size and checksum of each input file, from the manifest."""
    return {f"{file.corpus} {file.path}": (file.bytes, file.sha256) for file in found.inputs}


def _in_words(changed: Iterable[tuple[str, str]]) -> str:
    named = [f"{name}: {what}" for name, what in changed]
    return "; ".join(named[:3]) + (f"; and {len(named) - 3} more" if len(named) > 3 else "")


def _plain(value: Any) -> Any:
    """Converts a value to JSON and back, so that tuples become lists."""
    return json.loads(json.dumps(value))


# --- cleaning up ------------------------------------------------------------------------------------------------------


def _leftovers(folder: Path) -> list[str]:
    """Lists files that only the running job needed, in a folder whose dataset is complete."""
    marks = (output_folder.NEW, output_folder.LOCK)
    return [name for name in output_folder.files_in(folder) if name in marks or is_of_running_job(name)]


def _tidy(folder: Path) -> None:
    output_folder.tidy(folder, files_of)
    output_folder.delete_files(folder, filter(is_of_running_job, list(output_folder.files_in(folder))))


def _discard(folder: str) -> None:
    """Deletes what a job has written to `folder`, which holds no dataset."""
    if is_remote(folder):
        names = names_in(folder)
        own = own_files(names, lambda name: read_file(folder, name)) or set()
        delete(folder, [name for name in names if name in own or is_temporary(name)])
        return
    own = files_of(Path(folder)) or set()
    names = set(output_folder.files_in(Path(folder)))
    output_folder.delete_files(Path(folder), [name for name in names if name in own or is_temporary(name)])


# --- remote file systems ----------------------------------------------------------------------------------------------


def _make_remote(request: Request, run_job: RunJob) -> Manifest:
    output, new = request.output.rstrip("/"), _remote_staging(request.output)
    _check_remote(output)
    if finished := _finished(request):
        delete(output, filter(is_of_running_job, names_in(output)))
        return finished
    if not FileSystems.exists(FileSystems.join(new, WORK, request.fingerprint, MARK)) and not FileSystems.exists(
        FileSystems.join(output, FILE_NAME)
    ):
        _fill(request, output, run_job)
    else:
        _check_remote(new)
        _fill(request, new, run_job)
        _write_mark(request, output)
        _move_remote(new, output)
    delete(output, filter(is_of_running_job, names_in(output)))
    return manifest_in(output)


def _check_scheme(output: str) -> None:
    """Raises `ConfigError` if no file system of Beam opens such a path."""
    try:
        FileSystems.get_filesystem(output)
    except ValueError:
        scheme = output.partition("://")[0]
        extra = {"gs": "gcp", "s3": "aws", "azfs": "azure", "hdfs": "hadoop"}.get(scheme)
        hint = f"Install Beam's file system for it: pip install 'apache-beam[{extra}]'" if extra else "Correct the path"
        raise ConfigError(f"--output {output}: {scheme}:// cannot be opened on this machine. {hint}") from None


def _remote_staging(output: str) -> str:
    """Returns the folder beside `output` in which a replacement is made."""
    head, _, name = output.rstrip("/").rpartition("/")
    if head in ("gs:/", "s3:/"):
        raise ConfigError(f"--output {output}: expected a folder in the bucket, such as {output.rstrip('/')}/dataset")
    return f"{head}/.{name}.new"


def _check_remote(folder: str) -> None:
    """Raises `ConfigError` if a remote folder holds files that are not ours."""
    names = names_in(folder)
    own = own_files(names, lambda name: read_file(folder, name))
    foreign = sorted(name for name in names if name not in (own or ()) and not is_temporary(name))
    if foreign:
        raise ConfigError(
            f"{folder} holds files that Polyspan did not write, such as {foreign[0]}. It never overwrites or deletes "
            "them: choose a new or empty folder with --output"
        )


def _move_remote(new: str, output: str) -> None:
    """Replaces the files of an old dataset by those of a new one.

    The old manifest is deleted first and the new one is moved last. After a kill it may be called again: files of the
    new dataset that are no longer in `new` have been moved already.
    """
    staged = names_in(new)
    index = manifest_in(new)
    moved = {"README.md", *(shard.file for shard in (*index.shards, *index.rejects))} - staged
    old = [name for name in names_in(output) if is_of_dataset(name) and name not in moved]
    delete(output, [name for name in old if name == FILE_NAME])
    delete(output, [name for name in old if name != FILE_NAME])
    for name in sorted(filter(is_of_dataset, staged), key=lambda name: name == FILE_NAME):
        FileSystems.rename([FileSystems.join(new, *name.split("/"))], [FileSystems.join(output, *name.split("/"))])
    delete(new, [name for name in names_in(new) if is_of_running_job(name)])


def _local(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not is_remote(path)]
