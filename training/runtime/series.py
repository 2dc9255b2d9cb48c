"""Runs many fine-tunings in one output folder, so that a repeated command goes on where it was stopped."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from schemas.errors import ConfigError, DatasetError, InputError
from schemas.runtime.output_folder import (
    NEW,
    FilesOf,
    begin_replacement,
    delete_output,
    locked,
    recover,
    tidy,
)
from training.runtime.errors import TrainingError, in_words
from training.runtime.outputs import FIRST_STAGE, RUN_DATA, delete_parts

UNNEEDED = ("checkpoints", "model", "last", FIRST_STAGE, *RUN_DATA)  # parts of a run that its scores do not need

K = TypeVar("K")


@contextmanager
def series_folder(
    output: Path,
    files_of: FilesOf,
    overwrite: bool,
    holds_this: Callable[[], bool],
    holds_scores: Callable[[], bool],
) -> Iterator[tuple[Path, bool]]:
    """Yields the folder to write, and whether it is beside an older series, which it will replace. Inside the block no
    other process writes to it.

    `holds_this`: whether the output holds runs of this very command; `holds_scores`: whether it holds any finished run.
    """
    recover(output, files_of)
    with locked(output):
        was_replaced = (output / NEW).exists()  # by this command, which was killed before it could tidy up
        tidy(output, files_of)
        if was_replaced and holds_this():
            yield output, False
        elif overwrite and holds_scores():
            new = begin_replacement(output, files_of)
            log(f"{output} stays as it is until the new series, which is made in {new}, is complete")
            with locked(new, becomes=output.resolve()):
                yield new, True
        else:
            if overwrite:
                delete_output(output, files_of)
            yield output, False


def run_all(
    planned: Sequence[K],
    done: Collection[K],
    failed: dict[K, str],
    work: Callable[[K], int | None],
    save: Callable[[K], None],
) -> int | None:
    """Runs what is not `done` yet. `work` trains and evaluates one run and returns the signal that stopped it, if one
    did; `save` is called after each run. Returns the signal.

    A run that fails is added to `failed`, and the others go on, unless the disk is full and the like.
    """
    left = [each for each in planned if each not in done]
    if len(left) < len(planned):
        log(f"{len(planned) - len(left):,} of {len(planned):,} runs are done.")
    for number, each in enumerate(left, start=1):
        log(f"Run {number:,} of {len(left):,}: {each}")
        try:
            if stopped_by := work(each):
                return int(stopped_by)
        except Exception as error:  # the next run may succeed: a bad sample, a missing model, too little memory
            if in_words(error):  # a full disk: the others would fail too
                raise
            if not isinstance(error, ConfigError | InputError | DatasetError | TrainingError):
                traceback.print_exc()
            failed[each] = f"{type(error).__name__}: {error}"
            log(f"failed: {each}: {error}")
        save(each)
    return None


def delete_unneeded(run: Path) -> None:
    """Deletes the models and checkpoints of a run that was evaluated."""
    if run.is_dir():
        delete_parts(run, UNNEEDED)


def log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
