"""Lists our files in output folders: models, datasets of records, runs, evaluations, few-shot series, suites, reports.

Each kind of folder has a mark, a file that says what the folder is, and a function that lists its files
(`schemas.runtime.output_folder`). Links are never ours. The module is free of torch and transformers.
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
from schemas.errors import DatasetError, InputError
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
SUITE = "suite.json"
COMPARISON = "comparison.json"
GENERATOR = '<meta name="generator" content="polyspan-train report">'
MODELS = "models"  # folder of the models that pre-training keeps on its way
FIRST_STAGE = "baseline"  # a run that another run makes before its own first step
CANDIDATES, SOFT_LABELS = "candidates", "soft_labels"
RUN_DATA = (CANDIDATES, SOFT_LABELS)  # datasets that a run may make before its own first step

_PARTIAL = r"\.{}\.[0-9a-f]{{32}}\.partial"
_STEP = r"step-\d{8,}"
_CHECKPOINT = r"(model\.safetensors|optimizer\.safetensors|state\.json)"
SAFETENSORS_TEMPORARY = r"\.tmp[0-9A-Za-z]{6}"  # a file that safetensors is writing
_OF_RUN = re.compile(
    r"(run|shards)\.json|metrics\.jsonl|dev\.jsonl|tensorboard/events\.out\.tfevents\.[^/]+"
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
_OF_TRANSLATION_WORK = re.compile(r"work/(translate\.json|[\w-]+\.\d{5,}\.json)")
_OF_EVALUATION = re.compile(r"report\.(json|txt)|evaluation\.json|predictions/[^/]+\.(json|jsonl|tsv|txt)")
_OF_COMPARISON = (COMPARISON, "comparison.txt", REPORT)
_OF_SERIES = ("few_shot.json", "few_shot.csv", "few_shot.svg")
_OF_SUITE = re.compile(
    r"suite\.json|results\.(json|md|tex|txt)|report\.html|submission/[^/]+/seed-\d+(-sample-\d+)?/[a-z]+/test-[\w-]+\.(json|tsv)"
)
_TEMPORARY = re.compile(r"(.*/)?\.[^/]+\.[0-9a-f]{32}\.partial(/.*)?")


# --- kinds of folders -------------------------------------------------------------------------------------------------


def model_files(folder: Path) -> set[str] | None:
    """Lists a model's files: those that polyspan.json lists or, if it lists none, those with the names of models'
    files."""
    about = _json(folder / MODEL)
    if about is None and not _is_being_made(folder):
        return None
    if about is not None and not {"heads", "provenance", "sha256"} <= about.keys():
        return None
    listed = set((about or {}).get("files") or ())
    known = _OF_MODEL_BEING_MADE if _is_being_made(folder) else None if listed else _OF_MODEL
    return {name for name in _files(folder) if name in listed or (known and known.fullmatch(name))}


def dataset_files(folder: Path) -> set[str] | None:
    """Lists the files of a dataset that `convert` or two-stage training wrote."""
    if _is_being_made(folder):
        return {name for name in _files(folder) if _OF_DATASET.fullmatch(name)}
    try:
        index = manifest.load(folder)
    except (DatasetError, OSError):
        return None
    return {shard.file for shard in (*index.shards, *index.rejects)} | {manifest.FILE_NAME, "README.md"}


def translation_files(folder: Path) -> set[str] | None:
    """Lists the files of a dataset of translations or, while it is being made, also the sentences that are finished."""
    own = dataset_files(folder)
    if own is not None and _is_being_made(folder):
        own |= {name for name in _files(folder) if _OF_TRANSLATION_WORK.fullmatch(name)}
    return own


def evaluation_files(folder: Path) -> set[str] | None:
    """Lists an evaluation's files: those that evaluation.json lists; those of older releases by report.json and
    names."""
    about, report = _json(folder / EVALUATION), _json(folder / "report.json")
    if about is not None and isinstance(about.get("files"), list):
        return {name for name in _files(folder) if name in about["files"]}
    if _is_being_made(folder) or (report is not None and {"rows", "averages", "model"} <= report.keys()):
        return {name for name in _files(folder) if _OF_EVALUATION.fullmatch(name)}
    return None


def run_files(folder: Path) -> set[str] | None:
    """Lists the files of a run with its models, its evaluations and, what its
    method learns from (`FIRST_STAGE`, `RUN_DATA`)."""
    if not (is_run(folder) or is_run(folder / FIRST_STAGE)):
        return None
    own = {name for name in _files(folder) if _OF_RUN.fullmatch(name)}
    for part, files_of in (*_parts(folder), *_evaluations(folder)):
        own |= _files_of_part(folder, part, files_of)
    return own


def series_files(folder: Path) -> set[str] | None:
    """Lists the files of a few-shot series and its runs."""
    if not is_series(folder):
        return None
    own = {name for name in _files(folder) if name in _OF_SERIES}
    for run in folder.glob("*/*/sample-*"):
        own |= _files_of_part(folder, run.relative_to(folder).as_posix(), run_files)
    return own


def suite_files(folder: Path) -> set[str] | None:
    """Lists the files of a benchmark's suite and its runs."""
    if not is_suite(folder):
        return None
    own = {name for name in _files(folder) if _OF_SUITE.fullmatch(name)}
    for run in folder.glob("*/*/seed-*"):
        own |= _files_of_part(folder, run.relative_to(folder).as_posix(), run_files)
    return own


def report_files(folder: Path) -> set[str] | None:
    """Lists a report's file, whose head names our command."""
    path = folder / REPORT
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as page:
        head = page.read(1_000)
    known = (GENERATOR.encode(), b"<title>Polyspan runs</title>")
    return {REPORT} if any(mark in head for mark in known) else None


def comparison_files(folder: Path) -> set[str] | None:
    """Lists the files of a comparison of languages."""
    about = _json(folder / COMPARISON)
    if not _is_being_made(folder) and (about is None or not {"task", "source_lang", "models"} <= about.keys()):
        return None
    return {name for name in _files(folder) if name in _OF_COMPARISON}


def is_run(folder: Path) -> bool:
    """Returns whether the folder has a run.json of ours."""
    about = None if folder.is_symlink() else _json(folder / RUN)
    return about is not None and {"format_version", "recipe", "versions"} <= about.keys()


def is_series(folder: Path) -> bool:
    """Returns whether the folder has a few_shot.json of ours."""
    about = _json(folder / SERIES)
    return about is not None and {"recipe", "test_task", "scores", "failed"} <= about.keys()


def is_suite(folder: Path) -> bool:
    """Returns whether the folder has a suite.json of ours."""
    about = _json(folder / SUITE)
    return about is not None and {"format_version", "suite", "tests", "cells", "failed"} <= about.keys()


# --- progress of a run ------------------------------------------------------------------------------------------------


def is_complete(folder: Path) -> bool:
    """Returns whether the folder's run is complete and cleaned up. Fine-tuning deletes its checkpoints at its end."""
    about = _json(folder / RUN)
    if about is None or not (folder / "model" / MODEL).is_file():
        return False
    return "selection" not in about or not ((folder / "checkpoints").exists() or (folder / "best").exists())


def is_done(folder: Path, command: str) -> bool:
    """Returns whether the run of this command (`training.engine.command_digest`) is complete.

    Raises `InputError` if a file of its model is missing or was changed.
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
    """Returns whether a run has taken a step, not counting its baseline's. A launch that failed earlier may be
    deleted."""
    log = folder / "metrics.jsonl"
    is_logged = log.is_file() and log.stat().st_size > 0
    return is_logged or any((folder / name).exists() for name in ("checkpoints", "model", "best"))


def leftovers(folder: Path) -> list[str]:
    """Lists locks, marks and temporary files of a killed process, without those of evaluations, which have own
    locks."""
    return [
        name
        for name in files_in(folder)
        if not name.startswith("results/")
        and (name.rpartition("/")[2] in (LOCK, NEW) or _TEMPORARY.fullmatch(name) or "/.polyspan-new" in name)
    ]


def tidy_run(folder: Path) -> None:
    """Completes or undoes what a killed process was writing into the run's folder. Evaluations are not touched."""
    for part, files_of in _parts(folder):
        path = folder / part
        recover(path, files_of)
        if path.is_dir() and not path.is_symlink():
            tidy(path, files_of)
        if part == FIRST_STAGE and path.is_dir():
            tidy_run(path)
        if (new := staging(path)).is_dir():
            delete_all(new, files_of)
    delete_files(
        folder, [name for name in _files(folder) if _TEMPORARY.fullmatch(name) and not name.startswith("results/")]
    )


def delete_all(folder: Path, files_of: FilesOf) -> None:
    """Deletes our files in a folder, and the folder itself unless it holds other files."""
    own = files_of(folder) or set()
    foreign = set(foreign_files(folder, own))
    delete_files(folder, [name for name in files_in(folder) if name not in foreign])
    _remove_if_empty(folder)


def delete_parts(folder: Path, names: Iterable[str]) -> None:
    """Deletes our files in these folders of a run."""
    own = run_files(folder) or set()
    for name in names:
        below = [path.removeprefix(f"{name}/") for path in own if path.startswith(f"{name}/")]
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            delete_files(folder / name, below)
            _remove_if_empty(folder / name)


def delete_run_but(folder: Path, kept: Iterable[str]) -> None:
    """Deletes a run's files, except those in the folders `kept`."""
    own, kept = run_files(folder) or set(), tuple(f"{name}/" for name in kept)
    delete_files(folder, [name for name in own if not name.startswith(kept)])


# --- checksums --------------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """Returns a file's SHA-256. It is computed again only if the file's size or time of change differs."""
    status = path.stat()
    return _digest(str(path.resolve()), status.st_size, status.st_mtime_ns)


def fingerprint_of_dataset(folder: str) -> str:
    """Returns the SHA-256 of the dataset's manifest, which holds the checksum of every shard."""
    return sha256_of(Path(folder) / manifest.FILE_NAME)


@lru_cache(maxsize=256)
def _digest(path: str, size: int, changed: int) -> str:
    return sha256_of(Path(path))


# --- plumbing ---------------------------------------------------------------------------------------------------------


def _parts(folder: Path) -> Iterator[tuple[str, FilesOf]]:
    """Yields the folders in a run that are written as a whole, and the baseline's run."""
    yield from ((name, model_files) for name in ("model", "best", "last"))
    yield from ((f"{MODELS}/{name}", model_files) for name in _names_in(folder / MODELS) if re.fullmatch(_STEP, name))
    yield from ((name, dataset_files) for name in RUN_DATA)
    yield FIRST_STAGE, run_files


def _evaluations(folder: Path) -> Iterator[tuple[str, FilesOf]]:
    """Yields a folder for each task, whether its results are complete or being written."""
    yield from ((f"results/{name}", evaluation_files) for name in _names_in(folder / "results"))


def _names_in(folder: Path) -> list[str]:
    """Lists the folders in a folder, also those that are being replaced."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted({re.sub(r"^\.(.+)\.(new|old)$", r"\1", path.name) for path in folder.iterdir()})


def _files_of_part(folder: Path, part: str, files_of: FilesOf) -> set[str]:
    """Lists the files of a part and of its replacement in progress, relative to the folder."""
    own = set()
    path = folder / part
    for version in (path, path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")):
        relative = version.relative_to(folder)
        if version.is_dir() and not any((folder / parent).is_symlink() for parent in (relative, *relative.parents)):
            ours = set(files_in(version)) - set(foreign_files(version, files_of(version) or set()))
            own |= {(relative / name).as_posix() for name in ours}
    return own


def _files(folder: Path) -> list[str]:
    return [name for name in files_in(folder) if not (folder / name).is_symlink()]


def _is_being_made(folder: Path) -> bool:
    mark = folder / NEW
    return mark.is_file() and not mark.is_symlink() and not mark.stat().st_size


def _json(path: Path) -> dict[str, Any] | None:
    """Reads the JSON object in a file. Returns None if there is none."""
    if path.is_symlink():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


# --- one process writes a run -----------------------------------------------------------------------------------------


class RunTarget(NamedTuple):
    """Where a run is written."""

    folder: Path
    is_new: bool  # the folder is beside that of a complete run, which it will replace
    is_done: bool = False  # the command's run is complete and in place


@contextmanager
def reserve_run_folder(output: Path, overwrite: bool, command: str) -> Iterator[RunTarget]:
    """Locks the folder of a run for this process. With `overwrite`, a complete run stays until the new one is complete.

    Raises `ConfigError` if another process writes to the folder, or if it holds foreign files.
    """
    recover(output, run_files)
    check_output(output, run_files)
    with locked(output):
        was_replaced = (output / NEW).exists()
        tidy(output, run_files)
        tidy_run(output)
        if was_replaced and overwrite and is_done(output, command):
            yield RunTarget(output, False, is_done=True)
        elif overwrite and is_complete(output):
            new = begin_replacement(output, run_files)
            with locked(new, becomes=output.resolve()):
                tidy_run(new)
                with _deleted_if_no_step_was_taken(new):
                    yield RunTarget(new, True)
        else:
            with _deleted_if_no_step_was_taken(output):
                yield RunTarget(output, False)


@contextmanager
def _deleted_if_no_step_was_taken(folder: Path) -> Iterator[None]:
    """Deletes a run that fails before its first step, so that another command can use the folder."""
    try:
        yield
    except BaseException:
        has_data = any((folder / name).exists() for name in RUN_DATA)
        if not (any(map(has_progress, (folder, folder / FIRST_STAGE))) or has_data):
            with suppress(OSError):
                delete_output(folder, run_files)
                _remove_if_empty(folder)
        raise
