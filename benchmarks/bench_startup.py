"""What each command costs before it does anything: --help, --version, an unknown option, a path that is not there.

Prints CPU seconds (of all threads), the least of three runs. Each environment times the commands that it has
the libraries of:

    .venv/bin/python -m benchmarks.bench_startup
    .venv-training/bin/python -m benchmarks.bench_startup
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
QUESTIONS = str(ROOT / "training/sample/questions.en.json")
SENTENCES = str(ROOT / "pipelines/sample/sample.tsv")

# Program → command → what follows it in a command line whose last path is not there.
COMMANDS = {
    "polyspan-data": {
        "clism": f"--pair en-vi --output out --bitext {SENTENCES} no.tsv",
        "anchor-mrc": "--lang vi --output out --dump no.xml",
        "fetch wikipedia": "",
        "align train": f"--pair en-vi --model out --bitext {SENTENCES} no.tsv",
        "align apply": "--model no.model",
        "align score": f"--gold {SENTENCES} --links no.links",
        "demo": "",
    },
    "polyspan-inspect": {"show": "no", "stats": "no", "verify": "no"},
    "polyspan-train": {
        "pretrain tiny_mpmr": "--data no --output out",
        "finetune plain_qa": f"--train {QUESTIONS} no --output out --model tiny",
        "evaluate": f"./no --task xquad --gold {QUESTIONS} --output out",
        "predict": "./no",
        "few-shot clism_few_shot": f"--train {QUESTIONS} --test no --models tiny --output out",
        "report": "no",
        "score": f"--task xquad --gold {QUESTIONS} --predictions no",
        "convert": f"--task squad --files {QUESTIONS} no --output out",
    },
}
NEEDED = {"polyspan-data": "apache_beam", "polyspan-inspect": "pyarrow", "polyspan-train": "torch"}
MODULES = {
    "polyspan-data": "pipelines.cli",
    "polyspan-inspect": "schemas.inspection.cli",
    "polyspan-train": "training.cli",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(f"{'CPU seconds':<40}{'--help':>8}{'option':>8}{'path':>8}")
        for program, commands in COMMANDS.items():
            if not find_spec(NEEDED[program]):
                continue
            print(f"{program:<40}{seconds(program, '--help', 0):>8.2f}")
            print(f"{program + ' --version':<40}{seconds(program, '--version', 0):>8.2f}")
            for command, wrong in commands.items():
                path = f"{seconds(program, f'{command} {wrong}', 2):>8.2f}" if wrong else ""
                help_, option = seconds(program, f"{command} --help", 0), seconds(program, f"{command} --no-such", 2)
                print(f"{program} {command}".ljust(40) + f"{help_:>8.2f}{option:>8.2f}{path}")


def seconds(program: str, line: str, code: int) -> float:
    """Returns the CPU seconds of the quickest of some runs, all of which must end with the exit code."""
    taken = []
    for _ in range(ROUNDS):
        before = os.times()
        done = run(program, line)
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
        assert done.returncode == code, f"{program} {line}: exit code {done.returncode}\n{done.stderr}"
    return min(taken)


def run(program: str, line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", MODULES[program], *line.split()]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


if __name__ == "__main__":
    main()
