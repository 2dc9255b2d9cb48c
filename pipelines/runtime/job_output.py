"""The output folder of a job: checked, locked, filled, and exchanged with the old one when the new dataset is complete.

    out/ new or empty, or with a stopped job:   work/ beside data/ in out/ itself; the manifest comes last
    out/ with a dataset, and --overwrite:       the same in .out.new/, which is then exchanged with out/

A remote file system (`gs://…`) has neither locks nor exchanges. Two processes that run the same job write the same
bytes, and another job is refused because of the first one's mark. A replacement is complete in `.out.new` before the
first old file is deleted; until all its files are moved `out` has no dataset, and the repeated command ends the move.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from pipelines.runtime.work_folder import WorkFolder, open_file, replace_file
from pipelines.steps.common.files import file_digest
from pipelines.steps.common.paths import is_remote
from schemas.errors import ConfigError, InputError
from schemas.manifest import FILE_NAME, DatasetError, Manifest
from schemas.runtime import output_folder
from schemas.runtime.output_folder import differences
from schemas.verification import find_problems

WORK = "work"
MARK = "job.json"
NAMES_OF_A_DATASET = re.compile(
    rf"{WORK}/[0-9a-f]{{16}}/({MARK}|[a-z]+/[^/]+\.(json|arrow|model|titles))"
    r"|(data|rejects)/part-\d{5}-of-\d{5}\.arrow|README\.md|manifest\.json"
)
_TEMPORARY = re.compile(r"(.*/)?\.[^/]+\.[0-9a-f]{32}\.partial")

logger = logging.getLogger(__name__)

RunJob = Callable[[str, WorkFolder], None]
"""Writes the dataset to a folder, keeping what it finishes in the work folder."""


@dataclass(frozen=True)
class Request:
    """What a command asks for."""

    output: str
    overwrite: bool
    planned: Manifest  # without shards and counts
    inputs: Mapping[str, Sequence[str]]  # option → the files that it names
    data: Sequence[str]  # those files that the manifest will list, with their checksums
    identity: Mapping[str, Any]  # everything that decides what the job writes; of plain JSON values

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]


def make_dataset(request: Request, run_job: RunJob) -> Manifest:
    """The manifest of the dataset at `request.output`, which `run_job` makes unless it is there already.

    Raises `ConfigError`, before anything is written, if the folder holds anything but the same dataset, the same job
    that was stopped, or (with `overwrite`) another dataset or job.
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
    found = _finished(request)
    if found and not (_leftovers(folder) or output_folder.needs_tidying(folder)):
        return found  # perhaps on a file system that is read-only
    with output_folder.locked(folder):
        if found or (found := _finished(request)):  # another process may have made it since
            _tidy(folder)
            return found
        if not (folder / FILE_NAME).exists():
            _fill(request, str(folder), run_job)
            _tidy(folder)
            return _manifest_in(request.output)
        with output_folder.replacement(folder, files_of) as new:
            logger.info("The dataset in %s stays until the new one in %s is complete", folder, new)
            _fill(request, str(new), run_job)
        _tidy(folder)
    return _manifest_in(request.output)


def _fill(request: Request, folder: str, run_job: RunJob) -> None:
    """Runs the job in `folder`, unless an earlier process has and died afterwards."""
    work = _open_work(request, folder)
    if FileSystems.exists(FileSystems.join(folder, FILE_NAME)):
        return
    try:
        run_job(folder, work)
    except BaseException as error:
        # After an error in configuration or input, the same job would fail again; before its first step it has nothing.
        if isinstance(error, ConfigError | InputError) or not work.has_finished_any():
            _discard(folder)
        raise


def _open_work(request: Request, folder: str) -> WorkFolder:
    """The work folder of the same job that was stopped, or a new one.

    Raises `ConfigError` if a job with another configuration was stopped here, unless it is to be overwritten.
    """
    work = WorkFolder(FileSystems.join(folder, WORK, request.fingerprint))
    mark = FileSystems.join(work.path, MARK)
    if FileSystems.exists(mark):
        if work.has_finished_any():
            logger.info("Going on with a job that was stopped; what it finished is kept in %s", work.path)
        return work
    for other in _marks_in(folder):
        before = _read_json(other).get("config", {})
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
    """The manifest of the dataset in the output folder if it is what the request asks for.

    Raises `ConfigError` for another dataset, unless it is to be overwritten.
    """
    output = request.output
    if not FileSystems.exists(FileSystems.join(output, FILE_NAME)):
        return None
    found = _manifest_in(output)
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
    """How a finished dataset differs from what the request would make; input files are read if all else agrees."""
    planned = request.planned
    names = ("schema", "config", "versions", "commit")
    before, now = ({name: getattr(each, name) for name in names} for each in (found, planned))
    if changed := list(differences(before, _plain(now))):
        return changed
    if [name for name, (size, _) in _recorded(found).items() if size is None]:
        return [("inputs", "their checksums are unknown")]
    sizes = FileSystems.match(list(request.data))
    if {size for size, _ in _recorded(found).values()} != {each.metadata_list[0].size_in_bytes for each in sizes}:
        return [("inputs", "other files, or files of another size")]
    logger.info("%s: a dataset with this configuration is there; comparing its inputs", request.output)
    digests = {(digest.size_bytes, digest.sha256) for digest in map(file_digest, list(request.data))}
    if digests != set(_recorded(found).values()):
        return [("inputs", "files with other content")]
    return []


def _recorded(found: Manifest) -> dict[str, tuple[int | None, str | None]]:
    return {f"{file.corpus} {file.path}": (file.bytes, file.sha256) for file in found.inputs}


def _in_words(changed: Iterable[tuple[str, str]]) -> str:
    named = [f"{name}: {what}" for name, what in changed]
    return "; ".join(named[:3]) + (f"; and {len(named) - 3} more" if len(named) > 3 else "")


def _plain(value: Any) -> Any:
    """The value as JSON gives it back: tuples as lists."""
    return json.loads(json.dumps(value))


# --- which files are ours ---------------------------------------------------------------------------------------------


def files_of(folder: Path) -> set[str] | None:
    """The files of the dataset or job in a local folder; None if it has no mark (`schemas.runtime.output_folder`)."""
    return own_files(set(output_folder.files_in(folder)), lambda name: (folder / name).read_bytes())


def own_files(names: set[str], read: Callable[[str], bytes]) -> set[str] | None:
    """Of a folder's files, those of the dataset that its manifest describes and of the job whose mark it holds."""
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


def _is_of_dataset(name: str) -> bool:
    return bool(NAMES_OF_A_DATASET.fullmatch(name)) and not name.startswith(f"{WORK}/")


def _is_of_running_job(name: str) -> bool:
    return bool(_TEMPORARY.fullmatch(name) or (name.startswith(f"{WORK}/") and NAMES_OF_A_DATASET.fullmatch(name)))


def _leftovers(folder: Path) -> list[str]:
    """What only the running job needed, in a folder whose dataset is complete."""
    marks = (output_folder.NEW, output_folder.LOCK)
    return [name for name in output_folder.files_in(folder) if name in marks or _is_of_running_job(name)]


def _tidy(folder: Path) -> None:
    output_folder.tidy(folder, files_of)
    output_folder.delete_files(folder, filter(_is_of_running_job, list(output_folder.files_in(folder))))


def _discard(folder: str) -> None:
    """Deletes what a job has written to `folder`, where there is no dataset."""
    if is_remote(folder):
        names = _names_in(folder)
        own = own_files(names, lambda name: _read(folder, name)) or set()
        _delete(folder, [name for name in names if name in own or _TEMPORARY.fullmatch(name)])
        return
    own = files_of(Path(folder)) or set()
    found = set(output_folder.files_in(Path(folder)))
    output_folder.delete_files(Path(folder), [name for name in found if name in own or _TEMPORARY.fullmatch(name)])


# --- remote file systems ----------------------------------------------------------------------------------------------


def _make_remote(request: Request, run_job: RunJob) -> Manifest:
    output, new = request.output.rstrip("/"), _remote_staging(request.output)
    _check_remote(output)
    if found := _finished(request):
        _delete(output, filter(_is_of_running_job, _names_in(output)))
        return found
    if not FileSystems.exists(FileSystems.join(new, WORK, request.fingerprint, MARK)) and not FileSystems.exists(
        FileSystems.join(output, FILE_NAME)
    ):
        _fill(request, output, run_job)
    else:
        _check_remote(new)
        _fill(request, new, run_job)
        _write_mark(request, output)
        _move_remote(new, output)
    _delete(output, filter(_is_of_running_job, _names_in(output)))
    return _manifest_in(output)


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
    head, _, name = output.rstrip("/").rpartition("/")
    if head in ("gs:/", "s3:/"):
        raise ConfigError(f"--output {output}: expected a folder in the bucket, such as {output.rstrip('/')}/dataset")
    return f"{head}/.{name}.new"


def _check_remote(folder: str) -> None:
    names = _names_in(folder)
    own = own_files(names, lambda name: _read(folder, name))
    foreign = sorted(name for name in names if name not in (own or ()) and not _TEMPORARY.fullmatch(name))
    if foreign:
        raise ConfigError(
            f"{folder} holds files that Polyspan did not write, such as {foreign[0]}. It never overwrites or deletes "
            "them: choose a new or empty folder with --output"
        )


def _move_remote(new: str, output: str) -> None:
    """Moves a complete dataset, manifest last, over an old one, whose manifest goes first. May be repeated."""
    staged, there = _names_in(new), _names_in(output)
    index = _manifest_in(new)
    moved = {"README.md", *(shard.file for shard in (*index.shards, *index.rejects))} - staged
    old = [name for name in there if _is_of_dataset(name) and name not in moved]
    _delete(output, [name for name in old if name == FILE_NAME])
    _delete(output, [name for name in old if name != FILE_NAME])
    final = filter(_is_of_dataset, staged)
    for name in sorted(final, key=lambda name: name == FILE_NAME):
        FileSystems.rename([FileSystems.join(new, *name.split("/"))], [FileSystems.join(output, *name.split("/"))])
    _delete(new, [name for name in _names_in(new) if _is_of_running_job(name)])


def _names_in(folder: str) -> set[str]:
    try:
        found = FileSystems.match([FileSystems.join(folder, "**")])[0].metadata_list
    except OSError as error:
        raise ConfigError(f"--output {folder}: cannot be looked up: {error}") from error
    prefix = folder.rstrip("/") + "/"
    return {file.path.removeprefix(prefix) for file in found}


def _delete(folder: str, names: Iterable[str]) -> None:
    paths = [FileSystems.join(folder, *name.split("/")) for name in sorted(names, key=lambda name: name.endswith(MARK))]
    if paths:
        FileSystems.delete(paths)


# --- files ------------------------------------------------------------------------------------------------------------


def _marks_in(folder: str) -> list[str]:
    return [file.path for file in FileSystems.match([FileSystems.join(folder, WORK, "*", MARK)])[0].metadata_list]


def _manifest_in(folder: str) -> Manifest:
    return Manifest.from_json(_read(folder, FILE_NAME).decode())


def _read(folder: str, name: str) -> bytes:
    with open_file(FileSystems.join(folder, *name.split("/"))) as stream:
        return stream.read()


def _read_json(path: str) -> dict[str, Any]:
    with open_file(path) as stream:
        found: dict[str, Any] = json.loads(stream.read())
    return found


def _local(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not is_remote(path)]
