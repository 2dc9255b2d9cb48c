"""Selects the weights that a run keeps. `dev.jsonl` has a row for each evaluation on the dev files:

{"step": 340, "epoch": 1.0, "score": 61.2, "figures": {"dev-en": {"f1": 61.2, "exact_match": 48.0}}, "best": true}

`score` is the mean of the dev sets' main figures, in percent. `best` is true if the score is above all before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.runtime import atomic_write

FILE_NAME = "dev.jsonl"


class Selection:
    """The evaluations of a run that has done `done` steps. Later rows are cut: the run was stopped between an
    evaluation and its checkpoint, and will repeat them."""

    def __init__(self, folder: Path, done: int, patience: int) -> None:
        self.path, self.patience = folder / FILE_NAME, patience
        self.rows = [row for row in read(self.path) if row["step"] <= done]
        self._write()

    @property
    def best(self) -> dict[str, Any] | None:
        return next((row for row in reversed(self.rows) if row["best"]), None)

    @property
    def is_over(self) -> bool:
        """Whether none of the last `patience` evaluations was the best."""
        return bool(self.patience) and self.since_best >= self.patience

    @property
    def since_best(self) -> int:
        """The number of evaluations since the best one."""
        best = self.best
        return sum(row["step"] > best["step"] for row in self.rows) if best else 0

    def add(self, step: int, epoch: float, score: float, figures: Mapping[str, Mapping[str, float]]) -> bool:
        """Records an evaluation; returns whether it is the best so far."""
        is_best = self.best is None or score > self.best["score"]
        self.rows.append({"step": step, "epoch": epoch, "score": score, "figures": dict(figures), "best": is_best})
        self._write()
        return is_best

    @property
    def last_line(self) -> str:
        """Describes the last evaluation in one line."""
        row, best = self.rows[-1], self.best
        assert best
        figures = "; ".join(
            f"{name} " + ", ".join(f"{figure} {value:.2f}" for figure, value in values.items())
            for name, values in row["figures"].items()
        )
        kept = "the best so far" if row["best"] else f"the best was {best['score']:.2f} at step {best['step']:,}"
        return f"  dev after step {row['step']:,} (epoch {row['epoch']:.3g}): {figures}: {kept}"

    def _write(self) -> None:
        if self.rows or self.path.exists():
            atomic_write.text(self.path, "".join(json.dumps(row) + "\n" for row in self.rows))


def read(path: Path) -> list[dict[str, Any]]:
    """Reads the rows of a run's dev.jsonl. There are none if the run was never evaluated."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def flat(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """`{"dev-en": {"f1": 61.2}}` → `{"dev-en f1": 61.2}`"""
    return {f"{name} {figure}": value for name, values in figures.items() for figure, value in values.items()}
