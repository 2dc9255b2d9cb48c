"""Output folders: Polyspan deletes only what it wrote, one process writes at a time, a new output replaces an old one.

A folder may be written to if it is new or empty, or if it has a mark of ours (`manifest.json` of a dataset,
`run.json` of a training run, …). Each kind of output has a function that reads its mark and lists the files that
belong to it (`FilesOf`). Files that no mark lists are foreign: they are never deleted, and an output that holds any is
refused.

A new output is written beside the existing one and exchanged with it when it is complete:

    out/          the old output, whole until the exchange     out/          the new output
    .out.new/     the new output, unfinished               →   .out.new/     the old output, then deleted
        .polyspan-new   marks the new output until the end

Linux and macOS exchange two folders in one step. If the file system cannot, three renames do it with a third name,
`.out.old`. A process that dies between them leaves both outputs whole, and the next command puts the old one back.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import logging
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.runtime.interrupts import cleaned_up

FilesOf = Callable[[Path], "set[str] | None"]
"""Folder → the files that its mark lists, as paths relative to the folder; None if it has no mark of that kind."""

LOCK = ".polyspan-lock"
NEW = ".polyspan-new"
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.partial")
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_NAMED = 3  # foreign files that a message names

logger = logging.getLogger(__name__)


# --- what is in a folder ----------------------------------------------------------------------------------------------


def check_output(folder: Path, files_of: FilesOf, inputs: Mapping[str, Iterable[str | Path]] | None = None) -> bool:
    """Returns whether the folder holds an output of this kind; False if it is new or empty.

    `inputs` are the local paths that each option names. Raises `ConfigError` if the folder is a file, holds files that
    Polyspan did not write, or contains one of the inputs.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, but --output names a folder. Choose another --output")
    refuse_inputs_inside(folder, inputs or {})
    if not folder.exists():
        return False
    own = files_of(folder)
    if foreign := foreign_files(folder, own or set()):
        what = "no output of this command" if own is None else "an output of Polyspan, but also other files"
        raise ConfigError(
            f"{folder} holds {what}: {_some(foreign)}. Polyspan never overwrites or deletes what it did not write. "
            + ("Choose a new or empty folder with --output" if own is None else "Move them, or choose another --output")
        )
    return own is not None


def refuse_inputs_inside(folder: Path, inputs: Mapping[str, Iterable[str | Path]]) -> None:
    """Raises `ConfigError` if the output folder contains a file or folder that the command reads."""
    output = folder.resolve()
    for option, paths in inputs.items():
        for path in paths:
            found = Path(path)
            if found.exists() and (found.resolve() == output or output in found.resolve().parents):
                raise ConfigError(
                    f"{option} {path} is inside the output folder {folder}. Choose an --output that holds no input"
                )


def foreign_files(folder: Path, own: AbstractSet[str]) -> list[str]:
    """Returns, sorted, the files and links in the folder that `own` does not list and that are not temporary files of
    ours."""
    return sorted(name for name in files_in(folder) if name not in own and not _is_temporary(folder, name))


def delete_output(folder: Path, files_of: FilesOf) -> None:
    """Deletes the files that the folder's mark lists, our temporary files, and the folders that become empty.

    The mark is deleted last, so that the next command recognises what a process that dies here leaves. Raises
    `ConfigError` for a folder that has files but no mark.
    """
    own = files_of(folder)
    if own is None and foreign_files(folder, set()):
        raise ConfigError(
            f"{folder} has no mark of Polyspan ({_some(foreign_files(folder, set()))}): delete it yourself"
        )
    delete_files(folder, [name for name in files_in(folder) if name in (own or ()) or _is_temporary(folder, name)])
    if left := [name for name in foreign_files(folder, set()) if name != LOCK]:
        logger.warning("%s: not written by Polyspan, so kept: %s", folder, _some(left))


def delete_temporary_files(folder: Path) -> None:
    """Deletes the temporary files of a process that died, except for the marks of a replacement."""
    names = [name for name in files_in(folder) if _TEMPORARY.fullmatch(name.rpartition("/")[2])]
    if names:
        delete_files(folder, names)


def delete_files(folder: Path, names: Iterable[str]) -> None:
    """Deletes these files, marks last, and the folders below `folder` that become empty."""
    for name in sorted(names, key=_deletion_order):
        if not (name == LOCK and _is_held(folder / name)):
            (folder / name).unlink(missing_ok=True)
    for path, _, _ in os.walk(folder, topdown=False):
        if path != str(folder):
            with suppress(OSError):  # not empty
                os.rmdir(path)


_MARKS = {
    *("job.json", "run.json", "manifest.json", "polyspan.json"),
    *("report.json", "evaluation.json", "few_shot.json", "suite.json"),
}


def _deletion_order(name: str) -> tuple[bool, bool, int, str]:
    base = name.rpartition("/")[2]
    return base in (LOCK, NEW), base in _MARKS, -name.count("/"), name


def files_in(folder: Path) -> Iterator[str]:
    """Yields every file and link below the folder, relative to it. Links to folders are not followed."""
    for path, folders, files in os.walk(folder):
        inside = Path(path)
        for name in (*files, *(name for name in folders if (inside / name).is_symlink())):
            yield (inside / name).relative_to(folder).as_posix()


def _is_temporary(folder: Path, name: str) -> bool:
    base = name.rpartition("/")[2]
    if name == LOCK:
        return _holder(folder / name) is not None
    if name == NEW:
        return (folder / name).is_file() and not (folder / name).stat().st_size
    return bool(_TEMPORARY.fullmatch(base))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields the name and a description of every JSON value that differs between two configurations."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif before != now:
        yield name, f"{before} before, {now} now"


# --- one writer -------------------------------------------------------------------------------------------------------

_held: dict[tuple[int, int], int] = {}  # device and inode of each lock file of this process → its handle


def _close_in_child() -> None:
    """Closes the lock files in a forked child (a data loader's worker), so that the lock ends with its parent."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def locked(folder: Path, becomes: Path | None = None) -> Iterator[None]:
    """Inside the block, no other process writes to the folder. It is created if needed, and deleted if it is empty at
    the end.

    `becomes` is the folder's path after an exchange inside the block.

    Raises `ConfigError` naming host, number and start of the process that has the lock. The operating system frees
    the lock of a process that dies. On a file system without locks, a live process of this host is recognised by its
    number. A process of another host is not, so its lock remains until somebody deletes the file.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        handle = _acquire(folder / LOCK)
    except BaseException:
        _remove_if_empty(folder, is_new)
        raise

    def release() -> None:
        _release(handle, (folder / LOCK, (becomes or staging(folder)) / LOCK))
        _remove_if_empty(staging(folder), True)  # the old output was here, with this lock
        _remove_if_empty(folder, is_new or becomes is not None)

    with cleaned_up(release):
        try:
            yield
        finally:
            release()


def _remove_if_empty(folder: Path, may_go: bool) -> None:
    if may_go:
        with suppress(OSError):
            folder.rmdir()


def _acquire(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            _lock(handle, path)
            if _same_file(handle, path):
                _write_holder(handle, path)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the process that had the lock has just deleted the file: create it anew


def _lock(handle: int, path: Path) -> None:
    """Raises `ConfigError` if another process has the lock."""
    holder = _holder(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except OSError as error:
        if error.errno in _NO_LOCKS:
            if not holder:
                return
            if holder["host"] != socket.gethostname():
                raise ConfigError(
                    f"{path.parent}: process {holder['pid']} on {holder['host']} began to write here at "
                    f"{holder['started']}, and this file system has no locks to tell whether it still does. "
                    f"If it has ended: rm {shlex.quote(str(path))}"
                ) from None
            if holder["pid"] == os.getpid() or not _is_alive(holder["pid"]):
                return
        elif not isinstance(error, BlockingIOError):
            raise
    holder = holder or {}
    raise ConfigError(
        f"{path.parent}: another process writes here: process {holder.get('pid', '(unknown)')} on "
        f"{holder.get('host', '(an unknown host)')}, since {holder.get('started', '(an unknown time)')}. "
        "Wait for it, stop it, or choose another --output"
    )


def _write_holder(handle: int, path: Path) -> None:
    before = _holder(path)
    if before is None:
        raise ConfigError(f"{path} is not a lock file that Polyspan wrote. Move it, or choose another --output")
    if before:
        logger.info("Process %s on %s, which wrote here, has ended", before["pid"], before["host"])
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(_this_process()).encode(), 0)
    found = os.fstat(handle)
    _held[found.st_dev, found.st_ino] = handle


def _same_file(handle: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _holder(path: Path) -> dict[str, Any] | None:
    """Returns the content of a lock file: host, pid, started. Empty if nothing is written yet, None if not ours."""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if text else {}
    except (OSError, ValueError):
        return None
    if not isinstance(values, dict) or (values and values.keys() != _this_process().keys()):
        return None
    return values


def _this_process() -> dict[str, Any]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": now}


def _is_held(path: Path) -> bool:
    with suppress(OSError):
        found = os.lstat(path)
        return (found.st_dev, found.st_ino) in _held
    return False


def _release(handle: int, paths: Iterable[Path]) -> None:
    """Deletes the lock file, wherever an exchange of folders moved it, then frees the lock."""
    for path in paths:
        if _same_file(handle, path):
            with suppress(OSError):  # a file system that has become read-only
                path.unlink()
    found = os.fstat(handle)
    _held.pop((found.st_dev, found.st_ino), None)
    os.close(handle)


# --- a new output in the place of an old one --------------------------------------------------------------------------


def staging(folder: Path) -> Path:
    """Returns the folder in which the new output is written: `.out.new` beside `out`."""
    real = folder.resolve()
    return real.with_name(f".{real.name}.new")


def begin_replacement(folder: Path, files_of: FilesOf) -> Path:
    """Returns the staging folder, marked as new. It is empty, or that of an interrupted replacement.

    Raises `ConfigError` if the folder cannot be exchanged, or if files that Polyspan did not write have its name.
    """
    real, new = folder.resolve(), staging(folder)
    tidy(real, files_of)
    here = Path.cwd()
    if os.path.ismount(real):
        raise ConfigError(f"--overwrite {folder}: a mount point cannot be replaced. Choose a folder inside it")
    if real == here or real in here.parents:
        raise ConfigError(
            f"--overwrite {folder}: the working folder is inside it, and would be deleted. Run the command elsewhere"
        )
    check_output(new, files_of)
    if new.exists() and not (new / NEW).exists():  # an old output that waits to be deleted
        delete_output(new, files_of)
    new.mkdir(exist_ok=True)
    (new / NEW).touch()
    return new


@contextmanager
def replacement(folder: Path, files_of: FilesOf) -> Iterator[Path]:
    """Yields the locked staging folder, whose content replaces `folder` at the end of the block.

    After an exception `folder` is unchanged, and the staging folder is kept unless it is empty.
    """
    new = begin_replacement(folder, files_of)
    with locked(new, becomes=folder.resolve()):
        try:
            yield new
        except BaseException:
            if not set(files_in(new)) - {NEW, LOCK}:
                (new / NEW).unlink()
            raise
        finish_replacement(folder, files_of)


def finish_replacement(folder: Path, files_of: FilesOf) -> None:
    """Exchanges the complete output in the staging folder with the one in `folder`, and deletes the old one."""
    real, new = folder.resolve(), staging(folder)
    flush_tree(new)
    exchange(new, real)
    flush(real.parent)
    tidy(real, files_of)


def tidy(folder: Path, files_of: FilesOf) -> None:
    """Ends a replacement after the exchange: deletes the old output, then the mark of the new one."""
    real, old = folder.resolve(), staging(folder)
    is_old = old.exists() and not (old / NEW).exists()
    if is_old and ((real / NEW).exists() or not set(files_in(old)) - {LOCK}):
        delete_output(old, files_of)
        _remove_if_empty(old, True)
    (real / NEW).unlink(missing_ok=True)


def needs_tidying(folder: Path) -> bool:
    """Returns whether a process died between the exchange of two outputs and the end of the replacement."""
    old = staging(folder)
    return (folder / NEW).exists() or (old.exists() and not (old / NEW).exists())


def recover(folder: Path, files_of: FilesOf) -> None:
    """Puts the old output back if a process died between the renames that replace an exchange."""
    real = folder.resolve()
    parked, new = real.with_name(f".{real.name}.old"), staging(folder)
    if not parked.is_dir() or files_of(parked) is None or foreign_files(parked, files_of(parked) or set()):
        return  # nothing, or somebody else's
    if not real.exists():
        with locked(parked, becomes=real):
            parked.rename(real)
    elif not new.exists() and (real / NEW).exists():
        with locked(parked, becomes=new):
            parked.rename(new)


def exchange(one: Path, other: Path) -> None:
    """Swaps the names of two folders of one file system, in one step if the system can."""
    if not _exchange_at_once(one, other):
        parked = other.with_name(f".{other.name}.old")
        other.rename(parked)
        one.rename(other)
        parked.rename(one)


def _exchange_at_once(one: Path, other: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        done: int = libc.renamex_np(*paths, ctypes.c_uint(2))  # RENAME_SWAP
    elif hasattr(libc, "renameat2"):
        at_cwd = -100
        done = libc.renameat2(at_cwd, paths[0], at_cwd, paths[1], ctypes.c_uint(2))  # RENAME_EXCHANGE
    else:
        return False
    if done == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def flush_tree(folder: Path) -> None:
    """Waits until every file below the folder has reached the disk."""
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            flush(path)


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, have reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
