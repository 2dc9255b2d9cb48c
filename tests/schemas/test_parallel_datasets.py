"""Translations and soft labels as datasets: the golden ones; looked at, counted, verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schemas import soft_labels
from schemas.inspection.cli import main
from schemas.inspection.statistics import statistics
from schemas.shards import read_examples, read_rejects
from schemas.soft_labels import SoftLabels
from schemas.verification import find_problems
from tests.golden import make_parallel

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMAS = list(make_parallel.DATASETS)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_golden_datasets_are_still_read(schema: str) -> None:
    examples, _, rejects = make_parallel.DATASETS[schema]
    folder = GOLDEN / schema.replace("/", "-")
    assert list(read_examples(folder, verify=True)) == examples
    assert sum(batch.num_rows for batch in read_rejects(folder)) == len(rejects)
    assert list(find_problems(folder)) == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_golden_datasets_are_still_written_byte_for_byte(schema: str, tmp_path: Path) -> None:
    make_parallel.write(tmp_path, schema)
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    golden = GOLDEN / schema.replace("/", "-")
    assert files == {path.relative_to(golden) for path in golden.rglob("*") if path.is_file()}
    assert all((tmp_path / file).read_bytes() == (golden / file).read_bytes() for file in files)


def test_statistics_say_how_many_translations_have_labels(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = statistics(GOLDEN / "translations-1")["pairs"]
    assert pairs["en-zh"]["labels"] == {"known": 1, "projected": 1}
    assert pairs["en-zh"]["score_percent"]["mean"] == 75
    assert main(["stats", str(GOLDEN / "translations-1")]) in (0, None)
    shown = capsys.readouterr().out
    assert "known 1 · projected 1 (100.0% labelled)" in shown and "unknown 1 (0.0% labelled)" in shown


def test_a_translation_is_shown_with_its_source_and_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(GOLDEN / "translations-1"), "--count", "9"]) in (0, None)
    shown = capsys.readouterr().out
    assert "en-zh  labels projected, score 0.75\n  source   Anna lives in Hanoi.\n" in shown
    assert "⟦LOC 河内⟧" in shown and "⟦هانوي⟧" in shown


def test_soft_labels_are_shown_by_their_most_likely_classes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(GOLDEN / "soft_labels-1"), "--count", "9"]) in (0, None)
    shown = capsys.readouterr().out
    assert "  1  class 0, probability 0.50\n  2  class 3, probability 0.88\n" in shown
    assert "  1  class 0, probability 0.50; class 0, probability 1.00\n" in shown


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"distributions": ((0.5, 0.25),)}, "distributions 1: probabilities of a row do not add up to 1"),
        ({"distributions": ((1.5, -0.5),)}, "distributions 1: a probability is not in 0..1"),
        ({"distributions": ((1.0,),)}, "distributions 1: 1 values, which 2 classes do not divide"),
        ({"classes": 0}, "classes is 0: expected 1 or more"),
        ({"lang": ""}, "lang is empty"),
    ],
)
def test_soft_labels_that_break_the_contract_are_named(changes: dict[str, object], said: str) -> None:
    example = SoftLabels("p1 (zh)", "zh", ((0.25, 0.75),), 2)
    assert soft_labels.problems(example) == []
    assert soft_labels.problems(replace(example, **changes)) == [said]
