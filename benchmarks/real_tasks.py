"""Every recipe on real files: fine-tune, evaluate, and `score` on what was predicted, as a user would type it.

    python -m benchmarks.real_tasks --output FOLDER          # a quarter of an hour on one core
    python -m benchmarks.real_tasks --output FOLDER --only mpmr_conll --steps 1000

A small random model (`--model tiny`) learns next to nothing of such tasks from so few steps: this shows that all of it
runs on files as they are published, what is lost on the way, and that the figures are those of the written predictions.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"


class Case(NamedTuple):
    task: str
    train: str  # globs below DATA
    test: str
    test_task: str = ""
    more: tuple[str, ...] = ()


QUESTIONS = Case(
    "squad", "qa/squad/train-v1.1.rebuilt.json.xz", "qa/xquad/xquad.*.json", "xquad", ("--examples", "4000")
)
ENTITIES = Case("universal_ner", "ner/UNER_Chinese-GSD/*-train.iob2", "ner/UNER_*PUD/*.iob2")
PAIRS = Case("paws_x", "pairs/pawsx/dev-*.tsv", "pairs/pawsx/test-*.tsv")
CASES = {
    "plain_qa": QUESTIONS,
    "clism_qa": QUESTIONS,
    "mpmr_squad": QUESTIONS,
    "two_stage": QUESTIONS,
    "mpmr_tydiqa": Case("tydiqa", "qa/tydiqa/*.en.train.json", "qa/tydiqa/*.dev.json"),
    "plain_tagging": ENTITIES,
    "clism_ner_que": ENTITIES,
    "mpmr_conll": ENTITIES,
    "plain_pairs": PAIRS,
    "mpmr_paws_x": PAIRS,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    if not DATA.is_dir():
        sys.exit(f"{DATA} is absent: this needs the benchmarks' files")
    print(
        "| recipe | trained on | loss, first and last tenth | seconds | tested on | figures, mean | lost or noticed |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for recipe in options.only:
        print(row(recipe, CASES[recipe], options.output / recipe, options.steps), flush=True)


def row(recipe: str, case: Case, output: Path, steps: int) -> str:
    task = case.test_task or case.task
    tests = files(case.test)
    begun = time.perf_counter()
    said = polyspan(
        *("finetune", recipe, "--task", case.task, "--model", "tiny", "--train", *files(case.train), *case.more),
        *("--steps", str(steps), "--learning-rate", "1e-3", "--output", str(output), "--device", "cpu", "--overwrite"),
    )
    seconds = time.perf_counter() - begun
    polyspan("evaluate", str(output), "--task", task, "--gold", *tests, "--device", "cpu")
    results = output / "results" / task
    report = json.loads((results / "report.json").read_text("utf-8"))
    check(task, tests, results, report)
    losses = [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text("utf-8").splitlines()]
    tenth = max(1, len(losses) // 10)
    first, last = (sum(each) / tenth for each in (losses[:tenth], losses[-tenth:]))
    records = re.search(r"([\d,]+(?: of [\d,]+)? records in [\d,]+ sequences)", said)
    lost = "; ".join(line.strip() for line in said.splitlines() if re.fullmatch(r"  [a-z].*: [\d,]+", line))
    means = report["averages"][0] if report["averages"] else report["rows"][0]
    figures = ", ".join(f"{name} {means[name]['value']:.1f}" for name in figure_names(means))
    tested = f"{sum(each['examples'] for each in report['rows']):,} of {len(tests)} files"
    return (
        f"| `{recipe}` | {records[1] if records else '?'} | {first:.3g}, {last:.3g} | {seconds:.0f} | {tested} "
        f"| {figures} | {lost or '–'} |"
    )


def check(task: str, tests: list[str], results: Path, report: dict[str, Any]) -> None:
    """`polyspan-train score` says the same of the predictions in the official formats."""
    written = sorted(path for path in (results / "predictions").iterdir() if path.suffix != ".jsonl")
    by_name = {path.name: path for path in written}
    predictions = [next(by_name[name] for name in by_name if name.startswith(Path(test).stem)) for test in tests]
    said = polyspan(
        *("score", "--task", task, "--gold", *tests, "--predictions", *map(str, predictions), "--format", "json")
    )
    scored = json.loads(said)
    for ours, theirs in zip(report["rows"], scored["rows"], strict=True):
        for name in figure_names(theirs):
            if ours[name]["value"] != theirs[name]["value"]:
                sys.exit(f"{ours['name']}: {name} {ours[name]['value']}, but score says {theirs[name]['value']}")


def figure_names(of: dict[str, Any]) -> list[str]:
    return [name for name, value in of.items() if isinstance(value, dict) and "value" in value]


def files(glob: str) -> list[str]:
    found = sorted(map(str, DATA.glob(glob)))
    return found or sys.exit(f"{DATA / glob}: no such files")


def polyspan(*arguments: str) -> str:
    """What the command says, on both streams; stdout alone for JSON."""
    done = subprocess.run([sys.executable, "-m", "training.cli", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"polyspan-train {' '.join(arguments)}\n{done.stderr}")
    return done.stdout if arguments[0] == "score" else done.stderr + done.stdout


if __name__ == "__main__":
    main()
