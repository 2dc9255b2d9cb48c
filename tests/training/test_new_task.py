"""A task that no module names but its own: one record in `TASKS` is all that the commands need."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from schemas.mrc import MrcExample, PairExample
from tests.training.people import squad
from training.cli import main
from training.metrics.counting import Counted, Graded, Metric, Options
from training.tasks import squad_json
from training.tasks.catalog import TASKS, Task
from training.tasks.files import FileLedger, FileRecords, lines_of

LINES = [
    ("Rosen sind rot", "Veilchen sind blau", "rhymes"),
    ("Anna lives in Hanoi", "she is far from Lagos", "differs"),
    ("the cat", "the hat", "rhymes"),
    ("the cat", "the dog", "differs"),
] * 2


def read_verses(path: Path, lang: str | None) -> FileRecords[PairExample]:
    """Reads `first | second | label`, a pair on each line."""
    ledger, records = FileLedger(), []
    for number, line in lines_of(path):
        first, second, label = line.split(" | ")
        ledger.add(lang or "en", 1)
        records.append(PairExample(f"{path.name}:{number}", lang or "en", first, second, label, "verses"))
    return records, {}, ledger


def count_verses(graded: Graded, lang: str, options: Options) -> Counted:
    """Counts a rhyme that was found, as one of all examples."""
    hits = [gold == label == "rhymes" for gold, label in zip(graded.golds, graded.predicted, strict=True)]
    counts_NK = np.array([hits, np.ones(len(hits))], np.float64).T

    def rhymes(found: float, count: float) -> float:
        return 100.0 * found / count

    return Counted(counts_NK, {"rhymes_found": (rhymes(*counts_NK.sum(axis=0).tolist()), rhymes)})


@pytest.fixture
def verses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The task's only file; while the test runs, the task exists."""
    metric = Metric("verses0.1", count_verses)
    monkeypatch.setitem(TASKS, "verses", Task("pairs", read_verses, metric, ("en",), ("differs", "rhymes")))
    path = tmp_path / "verses.txt"
    path.write_text("".join(f"{' | '.join(line)}\n" for line in LINES), encoding="utf-8")
    return path


def test_a_new_task_runs_through_every_command(
    verses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, dataset = str(tmp_path / "run"), str(tmp_path / "dataset")
    main(["convert", "--task", "verses", "--files", str(verses), "--output", dataset])
    assert "8 records (pair/1)" in capsys.readouterr().out

    sizes = [
        "--steps",
        "2",
        "--batch-size",
        "4",
        "--max-tokens",
        "48",
        "--max-query-tokens",
        "16",
        "--stride",
        "8",
        "--device",
        "cpu",
    ]
    files = ["--task", "verses", "--train", dataset, "--dev", str(verses), "--model", "tiny"]
    main(["finetune", "plain_pairs", *files, *sizes, "--output", run])
    assert "rhymes_found" in capsys.readouterr().out

    main(["evaluate", run, "--task", "verses", "--gold", str(verses), "--device", "cpu"])
    evaluated = capsys.readouterr().out
    assert evaluated.startswith("verses") and "verses.en|scorer:verses0.1|examples:8|" in evaluated
    report = json.loads((tmp_path / "run/results/verses/report.json").read_text())
    dev = [json.loads(line) for line in (tmp_path / "run/dev.jsonl").read_text().splitlines()]
    chosen = next(row for row in reversed(dev) if row["best"])
    assert report["rows"][0]["rhymes_found"]["value"] == pytest.approx(chosen["score"])

    predictions = str(tmp_path / "run/results/verses/predictions/verses.txt.txt")
    main(["score", "--task", "verses", "--gold", str(verses), "--predictions", predictions])
    assert capsys.readouterr().out == evaluated
    main(["score", "--task", "verses", "--gold", str(verses), "--predictions", predictions, "--format", "markdown"])
    assert f"| model | {report['rows'][0]['rhymes_found']['value']:.1f} |" in capsys.readouterr().out

    main(["report", run, "--output", str(tmp_path / "page")])
    assert "verses, rhymes_found" in capsys.readouterr().out

    (tmp_path / "asked.jsonl").write_text('{"sentence1": "the cat", "sentence2": "the hat"}\n')
    main(["predict", run, "--input", str(tmp_path / "asked.jsonl"), "--device", "cpu"])
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer["scores"].keys() == {"differs", "rhymes"}


def count_exactly(graded: Graded, lang: str, options: Options) -> Counted:
    """Counts answers that are written as a gold answer, as one of all examples."""
    hits = [answer in texts for texts, answer in zip(graded.golds, graded.predicted, strict=True)]
    counts_NK = np.array([hits, np.ones(len(hits))], np.float64).T

    def exact_match(found: float, count: float) -> float:
        return 100.0 * found / count

    return Counted(counts_NK, {"exact_match": (exact_match(*counts_NK.sum(axis=0).tolist()), exact_match)})


def test_a_new_metric_of_questions_needs_no_f1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metric = Metric("exact0.1", count_exactly)
    monkeypatch.setitem(TASKS, "exact", Task("qa", squad_json_of_task, metric, ("en", "de")))
    for lang, guess in (("en", "Hanoi"), ("de", "hanoi")):
        squad(tmp_path / f"{lang}.json", 1)
        (tmp_path / f"{lang}.answers").write_text(json.dumps({"q0": guess}), encoding="utf-8")
    golds, answers = ([str(tmp_path / f"{lang}.{end}") for lang in ("en", "de")] for end in ("json", "answers"))
    given = ["--task", "exact", "--gold", *golds, "--predictions", *answers, "--langs", "en", "de"]
    main(["score", *given, "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert [row["exact_match"]["value"] for row in report["rows"]] == [100.0, 0.0]
    assert report["averages"][0]["exact_match"]["value"] == 50.0 and "xtreme" not in report


def squad_json_of_task(path: Path, lang: str | None) -> FileRecords[MrcExample]:
    return squad_json.read(path, "exact", lang or "en")


def test_help_lists_a_new_task(verses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["finetune", "plain_pairs", "--help"])
    assert "verses" in capsys.readouterr().out
