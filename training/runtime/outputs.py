"""Which files of a folder are ours: of models, datasets of records, runs, evaluations, few-shot series and reports.

Each kind has a mark, a file of ours that says what the folder is, and a function that lists what belongs to it
(`schemas.runtime.output_folder`). Links are never ours. Imports neither torch nor transformers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from schemas import manifest
from schemas.errors import InputError
from schemas.manifest import DatasetError
from schemas.runtime.checksums import sha256_of
from schemas.runtime.output_folder import (
    LOCK,
    NEW,
    FilesOf,
    begin_replacement,
    check_output,
    delete_files,
    delete_output,
    files_in,
    foreign_files,
    locked,
    recover,
    staging,
    tidy,
)

RUN, MODEL, EVALUATION, SERIES, REPORT = "run.json", "polyspan.json", "evaluation.json", "few_shot.json", "report.html"
GENERATOR = '<meta name="generator" content="polyspan-train report">'
OF_TWO_STAGES = ("baseline", "candidates")  # what a two-stage run makes before it begins itself

_PARTIAL = r"\.{}\.[0-9a-f]{{32}}\.partial"
_STEP = r"step-\d{8,}"
_CHECKPOINT = r"(model\.safetensors|optimizer\.safetensors|state\.json)"
SAFETENSORS_TEMPORARY = r"\.tmp[0-9A-Za-z]{6}"  # what safetensors writes first
_OF_RUN = re.compile(
    r"run\.json|metrics\.jsonl|dev\.jsonl|tensorboard/events\.out\.tfevents\.[^/]+"
    rf"|(checkpoints|{_PARTIAL.format('checkpoints')})/"
    rf"(step-\d{{8,}}/{_CHECKPOINT}|{_PARTIAL.format(_STEP)}/({_CHECKPOINT}|{SAFETENSORS_TEMPORARY}))"
)
_OF_MODEL = re.compile(
    r"(config|generation_config|polyspan|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|(model|heads)\.safetensors|README\.md|(sentencepiece\.bpe|spiece|tokenizer)\.model|(vocab|merges)\.txt"
    r"|chat_template\.jinja"
)
_OF_MODEL_BEING_MADE = re.compile(f"{_OF_MODEL.pattern}|{SAFETENSORS_TEMPORARY}")
_OF_DATASET = re.compile(r"(data|rejects)/(part-\d{5}-of-\d{5}\.arrow|\d+)|README\.md|manifest\.json")
_OF_EVALUATION = re.compile(r"report\.(json|txt)|evaluation\.json|predictions/[^/]+\.(json|jsonl|tsv|txt)")
_OF_SERIES = ("few_shot.json", "few_shot.csv", "few_shot.svg")
_TEMPORARY = re.compile(r"(.*/)?\.[^/]+\.[0-9a-f]{32}\.partial(/.*)?")


# --- kinds of folders -------------------------------------------------------------------------------------------------


def model_files(folder: Path) -> set[str] | None:
    """Of a model. Those that polyspan.json lists; where it lists none, the names that models' files have."""
    about = _json(folder / MODEL)
    if about is None and not _is_being_made(folder):
        return None
    if about is not None and not {"heads", "provenance", "sha256"} <= about.keys():
        return None
    listed = set((about or {}).get("files") or ())
    known = _OF_MODEL_BEING_MADE if _is_being_made(folder) else None if listed else _OF_MODEL
    return {name for name in _files(folder) if name in listed or (known and known.fullmatch(name))}


def dataset_files(folder: Path) -> set[str] | None:
    """Of a dataset that `convert` or two-stage training writes."""
    if _is_being_made(folder):
        return {name for name in _files(folder) if _OF_DATASET.fullmatch(name)}
    try:
        index = manifest.load(folder)
    except (DatasetError, OSError):
        return None
    return {shard.file for shard in (*index.shards, *index.rejects)} | {manifest.FILE_NAME, "README.md"}


def evaluation_files(folder: Path) -> set[str] | None:
    """Of an evaluation. Those that evaluation.json lists; an older one's are known by report.json and their names."""
    about, report = _json(folder / EVALUATION), _json(folder / "report.json")
    if about is not None and isinstance(about.get("files"), list):
        return {name for name in _files(folder) if name in about["files"]}
    if _is_being_made(folder) or (report is not None and {"rows", "averages", "model"} <= report.keys()):
        return {name for name in _files(folder) if _OF_EVALUATION.fullmatch(name)}
    return None


def run_files(folder: Path) -> set[str] | None:
    """Of a run, its models, evaluations and, in two-stage training, its baseline and candidates."""
    if not (is_run(folder) or is_run(folder / "baseline")):
        return None
    own = {name for name in _files(folder) if _OF_RUN.fullmatch(name)}
    for part, files_of in (*_parts(folder), *_evaluations(folder)):
        own |= _files_of_part(folder, part, files_of)
    return own


def series_files(folder: Path) -> set[str] | None:
    """Of a few-shot series and its runs."""
    if not is_series(folder):
        return None
    own = {name for name in _files(folder) if name in _OF_SERIES}
    for run in folder.glob("*/*/sample-*"):
        own |= _files_of_part(folder, run.relative_to(folder).as_posix(), run_files)
    return own


def report_files(folder: Path) -> set[str] | None:
    """Of a report, whose page says in its head who made it."""
    path = folder / REPORT
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as page:
        head = page.read(1_000)
    known = (GENERATOR.encode(), b"<title>Polyspan runs</title>")
    return {REPORT} if any(each in head for each in known) else None


def is_run(folder: Path) -> bool:
    """Whether the folder has a run.json of ours."""
    found = None if folder.is_symlink() else _json(folder / RUN)
    return found is not None and {"format_version", "recipe", "versions"} <= found.keys()


def is_series(folder: Path) -> bool:
    """Whether the folder has a few_shot.json of ours."""
    found = _json(folder / SERIES)
    return found is not None and {"recipe", "test_task", "scores", "failed"} <= found.keys()


# --- how far a run is -------------------------------------------------------------------------------------------------


def is_complete(folder: Path) -> bool:
    """Whether the run in the folder is through and cleaned up. Fine-tuning deletes its checkpoints at its end."""
    about = _json(folder / RUN)
    if about is None or not (folder / "model" / MODEL).is_file():
        return False
    return "selection" not in about or not ((folder / "checkpoints").exists() or (folder / "best").exists())


def is_done(folder: Path, command: str) -> bool:
    """Whether the run of this command (`training.engine.command_digest`) is through.

    Raises `InputError` if its model is not the one that was written.
    """
    if not is_complete(folder) or (_json(folder / RUN) or {}).get("command") != command:
        return False
    about = _json(folder / "model" / MODEL) or {}
    for name, expected in dict(about.get("sha256", {})).items():
        path = folder / "model" / name
        if not path.is_file() or digest_of(path) != expected:
            raise InputError(
                f"{path}: missing, or not the file that was written, though the run is complete. Restore it "
                "from a copy, or begin anew with --overwrite"
            )
    return True


def nothing_to_do(folder: str | Path) -> str:
    return f"{folder}: complete, nothing to do. The model: {Path(folder) / 'model'}"


def has_progress(folder: Path) -> bool:
    """Whether a run has taken a step, its baseline's aside; a launch that failed before is worth nothing."""
    log = folder / "metrics.jsonl"
    is_logged = log.is_file() and log.stat().st_size > 0
    return is_logged or any((folder / name).exists() for name in ("checkpoints", "model", "best"))


def leftovers(folder: Path) -> list[str]:
    """Locks, marks and temporary files of a process that died, but for those of evaluations, which lock themselves."""
    return [
        name
        for name in files_in(folder)
        if not name.startswith("results/")
        and (name.rpartition("/")[2] in (LOCK, NEW) or _TEMPORARY.fullmatch(name) or "/.polyspan-new" in name)
    ]


def tidy_run(folder: Path) -> None:
    """Ends or takes back what a process that died was writing into the run's folder. Evaluations are left alone."""
    for part, files_of in _parts(folder):
        path = folder / part
        recover(path, files_of)
        if path.is_dir() and not path.is_symlink():
            tidy(path, files_of)
        if part == "baseline" and path.is_dir():
            tidy_run(path)
        if (new := staging(path)).is_dir():
            delete_all(new, files_of)
    delete_files(
        folder, [name for name in _files(folder) if _TEMPORARY.fullmatch(name) and not name.startswith("results/")]
    )


def delete_all(folder: Path, files_of: FilesOf) -> None:
    """Deletes what is ours in a folder, and the folder itself unless it holds anything else."""
    own = files_of(folder) or set()
    foreign = set(foreign_files(folder, own))
    delete_files(folder, [name for name in files_in(folder) if name not in foreign])
    _remove_if_empty(folder)


def delete_parts(folder: Path, names: Iterable[str]) -> None:
    """Deletes what is ours below these folders of a run."""
    own = run_files(folder) or set()
    for name in names:
        below = [each.removeprefix(f"{name}/") for each in own if each.startswith(f"{name}/")]
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            delete_files(folder / name, below)
            _remove_if_empty(folder / name)


def delete_run_but(folder: Path, kept: Iterable[str]) -> None:
    """Deletes a run's files but for the folders `kept`."""
    own, kept = run_files(folder) or set(), tuple(f"{name}/" for name in kept)
    delete_files(folder, [name for name in own if not name.startswith(kept)])


# --- checksums --------------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """SHA-256 of a file; computed once while its size and time of change stay the same."""
    found = path.stat()
    return _digest(str(path.resolve()), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: str, size: int, changed: int) -> str:
    return sha256_of(Path(path))


# --- plumbing ---------------------------------------------------------------------------------------------------------


def _parts(folder: Path) -> Iterator[tuple[str, FilesOf]]:
    """The folders inside a run that are written as a whole, and the baseline's run."""
    yield from ((name, model_files) for name in ("model", "best", "last"))
    yield "candidates", dataset_files
    yield "baseline", run_files


def _evaluations(folder: Path) -> Iterator[tuple[str, FilesOf]]:
    """One for each task, whether its results stand there or are being written."""
    results = folder / "results"
    if results.is_dir() and not results.is_symlink():
        names = {re.sub(r"^\.(.+)\.(new|old)$", r"\1", path.name) for path in results.iterdir()}
        yield from ((f"results/{name}", evaluation_files) for name in sorted(names))


def _files_of_part(folder: Path, part: str, files_of: FilesOf) -> set[str]:
    """The part's files, and those of what is about to replace it, relative to the folder."""
    own = set()
    path = folder / part
    for each in (path, path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")):
        relative = each.relative_to(folder)
        if each.is_dir() and not any((folder / up).is_symlink() for up in (relative, *relative.parents)):
            ours = set(files_in(each)) - set(foreign_files(each, files_of(each) or set()))
            own |= {(relative / name).as_posix() for name in ours}
    return own


def _files(folder: Path) -> list[str]:
    return [name for name in files_in(folder) if not (folder / name).is_symlink()]


def _is_being_made(folder: Path) -> bool:
    mark = folder / NEW
    return mark.is_file() and not mark.is_symlink() and not mark.stat().st_size


def _json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None if there is none."""
    if path.is_symlink():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


# --- one process writes a run -----------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a run is written."""

    folder: Path
    is_new: bool  # beside a complete run, which it will replace
    is_done: bool = False  # the command has done its work already, but for the cleaning up


@contextmanager
def place_for_run(output: Path, overwrite: bool, command: str) -> Iterator[Place]:
    """Inside, this process alone writes the run. With `overwrite`, a complete one stays as it is beside the new one.

    Raises `ConfigError` if another process writes there, or if the folder holds what is not ours.
    """
    recover(output, run_files)
    check_output(output, run_files)
    with locked(output):
        was_replaced = (output / NEW).exists()
        tidy(output, run_files)
        tidy_run(output)
        if was_replaced and overwrite and is_done(output, command):
            yield Place(output, False, is_done=True)
        elif overwrite and is_complete(output):
            new = begin_replacement(output, run_files)
            with locked(new, becomes=output.resolve()):
                tidy_run(new)
                with _nothing_left_of_a_failed_launch(new):
                    yield Place(new, True)
        else:
            with _nothing_left_of_a_failed_launch(output):
                yield Place(output, False)


@contextmanager
def _nothing_left_of_a_failed_launch(folder: Path) -> Iterator[None]:
    """A run that fails before its first step leaves nothing that another command would have to go on with."""
    try:
        yield
    except BaseException:
        if not (any(map(has_progress, (folder, folder / "baseline"))) or (folder / "candidates").exists()):
            with suppress(OSError):
                delete_output(folder, run_files)
                _remove_if_empty(folder)
        raise
