"""Logs a run: a progress line, `metrics.jsonl` with a row for each step, and TensorBoard.

Figures of a row, over all processes unless stated otherwise:
  step              steps done, counted from 1
  loss, loss/NAME   the weighted sum that is minimised, and its parts before their weights
  NAME_FIGURE       a share from 0 to 1 that an objective reports with its loss: wae_exact, mlm_correct …
  skipped           1 if the loss or the gradient's norm was not finite, so that the step changed nothing; else absent
  lr, gradient_norm the learning rate, and the gradient's norm before clipping
  examples, tokens  numbers in the step; tokens are counted in each pass of the encoder
  examples_per_s, tokens_per_s, seconds   speed and duration of the step, wall clock
  mfu               model FLOPs as a share of the devices' peak (training/engine/flops.py); absent without a known peak
  held_out/…        loss, its parts and figures on the examples of --held-out, in the rows of steps that evaluate them
  lost/REASON       rows that could not be used, and questions and answers that were left out or changed
  padding           share of the computed tokens that are padding
  loader_wait       share of the step's seconds in which this process waited for its batch
  memory            GiB, this process's peak of allocated memory on the device; absent on a CPU
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from training.runtime import atomic_write

# Reason → what features lose of the data (training/data/features.py).
LOST = {
    "truncated_question": "questions beyond the limit of tokens, left out",
    "truncated_answer": "answers beyond the limit of tokens, left out",
    "answer_without_tokens": "answers that the tokenizer has no token for, left out",
    "not_on_token_boundary": "answers whose tokens cover a little more or less, kept",
    "empty_source": "examples whose source gives no token, left out",
    "empty_target": "examples whose target gives no token, left out",
    "empty_query": "examples whose query gives no token, left out",
    "empty_context": "examples whose context gives no token, left out",
    "no_question": "examples without a question, left out",
    "no_answer": "examples without an answer, left out",
}
# Reason → what readers of benchmarks' files and windows lose or notice.
NOTED = {
    "truncated_query": "sequences whose query is cut to the limit of tokens",
    "truncated_pair": "pairs that are cut to the limit of tokens",
    "truncated_word": "sequences with a word that is cut to the limit of tokens",
    "word_without_tokens": "sequences with a word that the tokenizer has no token for",
    "answer_longer_than_window": "answers longer than a sequence holds, left out",
    "answer_elsewhere": "answers that are not where their file says, left out",
    "ambiguous_offset": "answers of which their file knows only the first of several places",
    "duplicate_id": "records whose id another has, too",
    "without_translation": "records without a translation, read beside themselves",
}
# Figure → its label on the progress line.
FIGURES = {
    "clism_exact": "answers found",
    "wae_exact": "answers found",
    "wae_answerable": "answered or not, right",
    "cacr_target_source": "translations found",
    "mlm_correct": "masked tokens right",
    "qa_exact": "answers found",
    "hard_exact": "answers found",
    "contrast_nearest": "answers nearest to their questions",
    "tags_correct": "tags right",
    "pairs_correct": "pairs right",
    **{
        f"{side}_{figure}": f"{words} ({side})"
        for side in ("source", "target")
        for figure, words in (("exact", "answers found"), ("correct", "labels right"))
    },
    "teacher_same": "as the teacher",
}
HELD_OUT = "held_out/loss"
RECENT = 100  # steps that the means on the progress line are over
SECONDS_BETWEEN_LINES = 30.0
POINTS = 2_000  # of a curve in TensorBoard, approximately
LINES = 20  # least number of progress lines of a run whose output is no terminal


class MetricsLog:
    """The log of a run that has done `start` of `steps` steps.

    Rows after `start` are cut from an earlier log: they were written after the last checkpoint and will be repeated.
    """

    def __init__(self, folder: Path, steps: int, start: int, stream: TextIO | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # takes a second to import

        self._steps, self._start, self._begun = steps, start, time.monotonic()
        self._stream = sys.stderr if stream is None else stream
        self._live, self._folder = self._stream.isatty(), folder
        self._shown_at = -math.inf
        folder.mkdir(parents=True, exist_ok=True)
        self.recent = cut_after(folder / "metrics.jsonl", start)
        self._rows = (folder / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
        self._board: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1 if start else None)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live and self._shown_at > -math.inf:
            print(file=self._stream)
        with ExitStack() as stack:  # closes everything, also after an error
            stack.enter_context(atomic_write.os_errors_of(self._folder / "tensorboard"))
            stack.callback(self._board.close)
            stack.callback(self._board.flush)  # raises what its thread could not write
            stack.enter_context(atomic_write.os_errors_of(self._folder / "metrics.jsonl"))
            stack.callback(self._rows.close)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes the row of a step."""
        row = {"step": step, **figures}
        self.recent.append(row)
        with atomic_write.os_errors_of(self._folder / "metrics.jsonl"):
            self._rows.write(json.dumps(row) + "\n")
        is_point = step in (1, self._steps) or step % max(1, self._steps // POINTS) == 0
        if is_point or HELD_OUT in figures:
            with atomic_write.os_errors_of(self._folder / "tensorboard"):
                for name, value in figures.items():
                    self._board.add_scalar(name, value, step)
        self._show(step)

    def print_line(self, text: str) -> None:
        """Prints a line, above the progress bar if there is one."""
        print(f"\r\x1b[K{text}" if self._live else text, file=self._stream, flush=True)

    def _show(self, step: int) -> None:
        now = time.monotonic()
        first_or_last = step in (self._start + 1, self._steps)
        if self._live:
            if first_or_last or now - self._shown_at > 0.1:
                line = progress_line(step, self._steps, self._start, now - self._begun, self.recent, bar=True)
                print(f"\r\x1b[K{line[: terminal_width() - 1]}", end="", file=self._stream, flush=True)
                self._shown_at = now
        elif first_or_last or step % max(1, self._steps // LINES) == 0 or now - self._shown_at > SECONDS_BETWEEN_LINES:
            line = progress_line(step, self._steps, self._start, now - self._begun, self.recent, bar=False)
            print(line, file=self._stream, flush=True)
            self._shown_at = now


class SilentLog:
    """The log of all processes but the first: it writes nothing."""

    def __enter__(self) -> SilentLog:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, step: int, figures: Mapping[str, float]) -> None: ...

    def print_line(self, text: str) -> None: ...


def progress_line(step: int, steps: int, start: int, seconds: float, recent: deque[dict[str, float]], bar: bool) -> str:
    """`step 120/300  loss 0.412 (clism 0.301, mlm 0.111)  lr 9.1e-05  |g| 1.32  8.1k tokens/s  31 examples/s  …`

    The loss is the last step's; shares and speeds are means over the recent steps since the run was begun or resumed.
    """
    row, own = recent[-1], [row for row in recent if row["step"] > start]
    parts = {name.removeprefix("loss/"): value for name, value in row.items() if name.startswith("loss/")}
    shown = [f"step {step:,}/{steps:,}", f"loss {row['loss']:.4g}"]
    if len(parts) > 1:
        shown[-1] += f" ({', '.join(f'{name} {value:.4g}' for name, value in parts.items())})"
    shown += [
        f"{label} {sum(row[name] for row in own) / len(own):.0%}" for name, label in FIGURES.items() if name in row
    ]
    if held_out := [each[HELD_OUT] for each in recent if HELD_OUT in each]:
        shown.append(f"held-out loss {held_out[-1]:.4g}")
    shown += [f"lr {row['lr']:.2g}", f"|g| {row['gradient_norm']:.3g}"]
    for name in ("tokens", "examples"):
        speed = sum(row[name] for row in own) / sum(row["seconds"] for row in own)
        shown.append(f"{_short(speed)} {name}/s")
    if skipped := sum("skipped" in row for row in own):
        shown.append(f"{skipped} of {len(own)} steps skipped")
    if "mfu" in row:
        shown.append(f"MFU {row['mfu']:.0%}")
    shown += [f"padding {row['padding']:.1%}", f"waits {row['loader_wait']:.0%}"]
    if step < steps:
        shown.append(f"{duration(seconds / (step - start) * (steps - step))} left")
    done = round(12 * step / steps)
    return (f"[{'=' * done}{' ' * (12 - done)}] " if bar else "") + "  ".join(shown)


def cut_after(path: Path, step: int) -> deque[dict[str, float]]:
    """Cuts the rows after `step`, or after an incomplete line, from a `metrics.jsonl`. Returns the recent rows."""
    recent: deque[dict[str, float]] = deque(maxlen=RECENT)
    old = path.open(encoding="utf-8", errors="replace") if path.exists() else nullcontext[Iterable[str]](())
    with old as lines, atomic_write.replacing(path) as rows:
        for line in lines:
            row = _row(line)
            if row is None or row["step"] > step:
                break
            rows.write(line)
            recent.append(row)
    return recent


def _row(line: str) -> dict[str, float] | None:
    """Parses a line. Returns None if it is incomplete or damaged."""
    try:
        row: dict[str, float] = json.loads(line)
        return row if line.endswith("\n") and row["step"] > 0 else None
    except (ValueError, KeyError, TypeError):
        return None


def terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _short(number: float) -> str:
    """Formats a number as in `12.3k`."""
    for size, name in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 1 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
