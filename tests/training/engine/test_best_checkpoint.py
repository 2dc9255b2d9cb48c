from __future__ import annotations

from pathlib import Path

from training.engine.best_checkpoint import Selection, read


def add(selection: Selection, step: int, score: float) -> bool:
    return selection.add(step, step / 10, score, {"dev": {"f1": score}})


def test_the_first_of_equals_stays_the_best(tmp_path: Path) -> None:
    selection = Selection(tmp_path, 0, patience=0)
    assert [add(selection, step, score) for step, score in ((10, 50.0), (20, 60.0), (30, 60.0), (40, 55.0))] == [
        *(True, True, False, False)
    ]
    assert selection.best and selection.best["step"] == 20
    assert not selection.is_over  # a patience of 0 never ends


def test_patience_counts_evaluations_since_the_best(tmp_path: Path) -> None:
    selection = Selection(tmp_path, 0, patience=2)
    over = []
    for step, score in ((1, 1.0), (2, 0.5), (3, 2.0), (4, 1.9), (5, 2.0)):
        add(selection, step, score)
        over.append(selection.is_over)
    assert over == [False, False, False, False, True]


def test_a_resumed_run_forgets_what_it_evaluated_after_its_checkpoint(tmp_path: Path) -> None:
    before = Selection(tmp_path, 0, patience=1)
    add(before, 10, 50.0)
    add(before, 20, 40.0)
    assert before.is_over
    again = Selection(tmp_path, 15, patience=1)
    assert not again.is_over
    assert [row["step"] for row in again.rows] == [row["step"] for row in read(tmp_path / "dev.jsonl")] == [10]
