from __future__ import annotations

import io
import json
from pathlib import Path

from training.engine.metrics_log import MetricsLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def row(loss: float) -> dict[str, float]:
    return {
        "loss": loss,
        "loss/clism": loss / 2,
        "loss/mlm": loss / 2,
        "clism_exact": 0.25,
        "examples": 4,
        "tokens": 400,
        "seconds": 0.5,
        "padding": 0.0,
        "lr": 1e-4,
        "gradient_norm": 1.5,
        "loader_wait": 0.02,
    }


def write(folder: Path, steps: range, total: int = 10, start: int = 0, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    with MetricsLog(folder, total, start, stream) as log:
        for step in steps:
            log.write(step, row(10 / step))
    return stream.getvalue()


def steps_of(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_repeats_no_step(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))  # killed after step 5, its last checkpoint being of step 3
    with (tmp_path / "metrics.jsonl").open("a") as log:
        log.write('{"step": 6, "lo')
    write(tmp_path, range(4, 11), start=3)
    assert steps_of(tmp_path) == list(range(1, 11))


def test_tensorboard_shows_every_figure_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, range(1, 6))
    write(tmp_path, range(4, 11), start=3)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert sorted(board.Tags()["scalars"]) == sorted(row(1.0))
    assert [event.step for event in board.Scalars("loss")] == list(range(1, 11))


def test_a_line_says_what_a_person_watches(tmp_path: Path) -> None:
    line = write(tmp_path, range(1, 5)).splitlines()[3]
    assert line.startswith("step 4/10  loss 2.5 (clism 1.25, mlm 1.25)  answers found 25%  lr 0.0001  |g| 1.5  ")
    assert "800 tokens/s  8 examples/s" in line and "padding 0.0%  waits 2%" in line and line.endswith(" left")


def test_a_log_file_gets_some_twenty_lines_and_a_terminal_one_that_moves(tmp_path: Path) -> None:
    lines = write(tmp_path / "file", range(1, 101), total=100).splitlines()
    assert [line.split()[1] for line in lines] == ["1/100", *(f"{step}/100" for step in range(5, 101, 5))]
    shown = write(tmp_path / "terminal", range(1, 101), total=100, stream=Terminal())
    assert shown.count("\n") == 1 and "\r" in shown and "[============]" in shown


def test_what_is_said_does_not_disturb_the_bar(tmp_path: Path) -> None:
    stream = Terminal()
    with MetricsLog(tmp_path, 2, 0, stream) as log:
        log.write(1, row(1.0))
        log.print_line("hello")
    assert "\r\x1b[Khello\n" in stream.getvalue()
