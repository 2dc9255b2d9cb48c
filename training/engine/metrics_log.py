"""What a run tells: a line for people, `metrics.jsonl` with a row a step, TensorBoard.

Figures of a row (every process's together, unless it says otherwise):
  step              steps done, counted from 1
  loss, loss/NAME   what is minimised, and its parts before their weights
  NAME_FIGURE       what an objective reports beside its loss, a share: wae_exact, mlm_correct …
  lr, gradient_norm the norm before clipping
  examples, tokens  of the step: the encoder's tokens, both passes where there are two
  examples_per_s, tokens_per_s, seconds   of the step, wall clock
  mfu               share of the devices' peak (training/engine/flops.py); absent where the peak is not known
  lost/REASON       rows of the step that could not be used, questions and answers that were left out or blurred
  padding           share of the computed tokens that are none
  loader_wait       share of the step's seconds in which this process waited for its batch
  memory            GiB, the most that this process's tensors took on the device so far; absent on a CPU
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

# What becomes of data on its way to the model (training/data/features.py).
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
# What else the readers of benchmarks' files and the makers of windows notice.
NOTED = {
    "truncated_query": "sequences whose query is cut to the limit of tokens",
    "truncated_pair": "pairs that are cut to the limit of tokens",
    "truncated_word": "sequences with a word that is cut to the limit of tokens",
    "word_without_tokens": "sequences with a word that the tokenizer has no token for",
    "answer_longer_than_window": "answers longer than a sequence holds, left out",
    "answer_elsewhere": "answers that are not where their file says, left out",
    "ambiguous_offset": "answers of which their file knows only the first of several places",
    "duplicate_id": "records whose id another has, too",
}
# The shares that a person watches, and what they are.
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
}
RECENT = 100  # steps whose losses and speeds are remembered
SECONDS_BETWEEN_LINES = 30.0
POINTS = 2_000  # of a curve in TensorBoard, about
LINES = 20  # of a run that is not shown on a terminal, at least


class Logbook:
    """The log of a run of `steps` steps that has done `start` of them. Rows after `start` are cut from an earlier log:
    the run that wrote them went on beyond its last checkpoint before it was stopped, and this one repeats them."""

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

    def __enter__(self) -> Logbook:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live and self._shown_at > -math.inf:
            print(file=self._stream)
        with ExitStack() as stack:  # all of it, whatever fails
            stack.enter_context(atomic_write.os_errors_of(self._folder / "tensorboard"))
            stack.callback(self._board.close)
            stack.callback(self._board.flush)  # raises what its thread could not write
            stack.enter_context(atomic_write.os_errors_of(self._folder / "metrics.jsonl"))
            stack.callback(self._rows.close)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        row = {"step": step, **figures}
        self.recent.append(row)
        with atomic_write.os_errors_of(self._folder / "metrics.jsonl"):
            self._rows.write(json.dumps(row) + "\n")
        if step in (1, self._steps) or step % max(1, self._steps // POINTS) == 0:
            with atomic_write.os_errors_of(self._folder / "tensorboard"):
                for name, value in figures.items():
                    self._board.add_scalar(name, value, step)
        self._show(step)

    def say(self, text: str) -> None:
        """A line of its own, above the progress bar where there is one."""
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


class Silent:
    """The logbook of every process but the first."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, step: int, figures: Mapping[str, float]) -> None: ...

    def say(self, text: str) -> None: ...


def progress_line(step: int, steps: int, start: int, seconds: float, recent: deque[dict[str, float]], bar: bool) -> str:
    """`step 120/300  loss 0.412 (clism 0.301, mlm 0.111)  lr 9.1e-05  |g| 1.32  8.1k tokens/s  31 examples/s  …`

    The loss is the last step's; shares and speeds are means over the recent steps since the run was begun or resumed.
    """
    row, here = recent[-1], [each for each in recent if each["step"] > start]
    parts = {name.removeprefix("loss/"): value for name, value in row.items() if name.startswith("loss/")}
    shown = [f"step {step:,}/{steps:,}", f"loss {row['loss']:.4g}"]
    if len(parts) > 1:
        shown[-1] += f" ({', '.join(f'{name} {value:.4g}' for name, value in parts.items())})"
    shown += [
        f"{label} {sum(each[name] for each in here) / len(here):.0%}" for name, label in FIGURES.items() if name in row
    ]
    shown += [f"lr {row['lr']:.2g}", f"|g| {row['gradient_norm']:.3g}"]
    for name in ("tokens", "examples"):
        speed = sum(each[name] for each in here) / sum(each["seconds"] for each in here)
        shown.append(f"{_short(speed)} {name}/s")
    if "mfu" in row:
        shown.append(f"MFU {row['mfu']:.0%}")
    shown += [f"padding {row['padding']:.1%}", f"waits {row['loader_wait']:.0%}"]
    if step < steps:
        shown.append(f"{duration(seconds / (step - start) * (steps - step))} left")
    done = round(12 * step / steps)
    return (f"[{'=' * done}{' ' * (12 - done)}] " if bar else "") + "  ".join(shown)


def cut_after(path: Path, step: int) -> deque[dict[str, float]]:
    """Leaves the rows of a `metrics.jsonl` up to `step`, and returns the recent ones of them.

    A last line that a killed run left unfinished goes too.
    """
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
    """None for a line that a killed process left unfinished, or that was damaged."""
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
    """`12.3k`"""
    for size, name in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 1 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
