"""A suite on real files from end to end, killed twice on the way: are its results those of a suite that was not?

    OMP_NUM_THREADS=1 python -m benchmarks.bench_suite --output FOLDER [--langs 2] [--steps 30]

Tasks of two kinds, two methods, two seeds, `--model tiny`. The first kill -9 hits the second fine-tuning, the
second one an evaluation. Prints the tables, which say nothing of the methods after so few steps of so small a model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from training.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
COMPARED = ("results.json", "results.md", "results.tex", "results.txt", "report.html", "suite.json")
KILLS = ("Run 2 of ", "Written: ")  # the line of stderr after which a process is killed

METHODS = """
seeds = [1, 2]
examples = [500]

[[methods]]
name = "plain"
recipes = {{ qa = "plain_qa", pairs = "plain_pairs" }}
options = {{ steps = {steps}, learning_rate = 1e-3 }}

[[methods]]
name = "mpmr"
recipes = {{ squad = "mpmr_squad", tydiqa = "mpmr_tydiqa", paws_x = "mpmr_paws_x" }}
options = {{ steps = {steps}, learning_rate = 1e-3 }}
"""
TRAININGS = {
    "squad": ("qa/squad/train-v1.1.rebuilt.json", "xquad"),
    "tydiqa": ("qa/tydiqa/tydiqa.goldp.en.train.json", "tydiqa"),
    "paws_x": ("pairs/pawsx/dev-en.tsv", "paws_x"),  # its training file is not among them
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the benchmarks' files")
    parser.add_argument("--only", nargs="+", choices=sorted(TRAININGS), default=list(TRAININGS), help="training sets")
    parser.add_argument("--langs", type=int, default=2, help="languages of each task, 0 for all")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"{options.data} is absent: this needs the benchmarks' files")
    options.output.mkdir(parents=True, exist_ok=True)
    toml = options.output / "suite.toml"
    toml.write_text(suite(options.only, options.steps, options.langs), encoding="utf-8")
    seconds = {"whole": finished(toml, options.data, options.output / "whole")}
    for number, line in enumerate(KILLS, 1):
        seconds[f"until kill {number}"] = killed(toml, options.data, options.output / "killed", line)
    seconds["after the kills"] = finished(toml, options.data, options.output / "killed")
    for name in COMPARED:
        whole, after_kills = ((options.output / folder / name).read_bytes() for folder in ("whole", "killed"))
        if whole != after_kills:
            sys.exit(f"{name}: not the same bytes after two kills")
    print((options.output / "killed" / "results.txt").read_text(encoding="utf-8"))
    print(f"The same bytes after two kills: {', '.join(COMPARED)}")
    print(", ".join(f"{name} {value:.0f} s" for name, value in seconds.items()))


def suite(trainings: Sequence[str], steps: int, langs: int) -> str:
    parts = [METHODS.format(steps=steps)]
    for name in trainings:
        train, task = TRAININGS[name]
        chosen = TASKS[task].langs[:langs] if langs else TASKS[task].langs
        parts.append(
            f'[[trainings]]\nname = "{name}"\ntask = "{name}"\ntrain = ["{train}"]\n\n'
            f'[[trainings.tests]]\ntask = "{task}"\nlangs = {list(chosen)}\n'
        )
    return "\n".join(parts).replace("'", '"')


def start(toml: Path, data: Path, output: Path) -> subprocess.Popen[str]:
    line = ("benchmark", str(toml), "--data", str(data), "--model", "tiny", "--device", "cpu", "--output", str(output))
    return subprocess.Popen([sys.executable, "-m", "training", *line], cwd=ROOT, stderr=subprocess.PIPE, text=True)


def finished(toml: Path, data: Path, output: Path) -> float:
    began = time.monotonic()
    process = start(toml, data, output)
    _, said = process.communicate()
    if process.returncode:
        sys.exit(said)
    return time.monotonic() - began


def killed(toml: Path, data: Path, output: Path, at: str) -> float:
    """Starts the suite and kills it with SIGKILL at the first line of stderr that begins with `at`."""
    began = time.monotonic()
    process = start(toml, data, output)
    assert process.stderr
    if not any(line.startswith(at) for line in process.stderr):
        sys.exit(f"it ended before {at!r}")
    process.kill()
    process.communicate()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
