"""A suite on real files from end to end, killed twice on the way: are its results those of a suite that was not?

    OMP_NUM_THREADS=1 python -m benchmarks.bench_suite --output FOLDER [--langs LANG …] [--steps 30]

Tasks of two kinds, two methods, two seeds, `--model tiny`. The first kill -9 hits the second fine-tuning, the
second one an evaluation. Prints the tables, which say nothing of the methods after so few steps of so small a model.

With `--only paws_x --methods plain filter`, a method reads translations: PAWS-X's human ones, line by line, which are
written as XTREME publishes machine translations.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from training.tasks import files
from training.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
COMPARED = ("results.json", "results.md", "results.tex", "results.txt", "report.html", "suite.json")
KILLS = ("Run 2 of ", "Written: ")  # the line of stderr after which a process is killed

METHOD = """
[[methods]]
name = "{name}"
recipes = {{ {recipes} }}
options = {{ steps = {steps}, learning_rate = 1e-3 }}
"""
RECIPES = {
    "plain": 'qa = "plain_qa", pairs = "plain_pairs"',
    "mpmr": 'squad = "mpmr_squad", tydiqa = "mpmr_tydiqa", paws_x = "mpmr_paws_x"',
    "filter": 'pairs = "filter_pairs"',
}
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
    parser.add_argument("--methods", nargs="+", choices=sorted(RECIPES), default=["plain", "mpmr"])
    parser.add_argument("--langs", nargs="+", default=["en", "de", "ko"], help="those of them that a task has")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"{options.data} is absent: this needs the benchmarks' files")
    options.output.mkdir(parents=True, exist_ok=True)
    toml = options.output / "suite.toml"
    toml.write_text(suite(options.methods, options.only, options.steps, options.langs), encoding="utf-8")
    data = with_translations(options.data, options.output / "data") if "filter" in options.methods else options.data
    seconds = {"whole": finished(toml, data, options.output / "whole")}
    for number, line in enumerate(KILLS, 1):
        seconds[f"until kill {number}"] = killed(toml, data, options.output / "killed", line)
    seconds["after the kills"] = finished(toml, data, options.output / "killed")
    for name in COMPARED:
        whole, after_kills = ((options.output / folder / name).read_bytes() for folder in ("whole", "killed"))
        if whole != after_kills:
            sys.exit(f"{name}: not the same bytes after two kills")
    print((options.output / "killed" / "results.txt").read_text(encoding="utf-8"))
    print(f"The same bytes after two kills: {', '.join(COMPARED)}")
    print(", ".join(f"{name} {value:.0f} s" for name, value in seconds.items()))


def with_translations(data: Path, folder: Path) -> Path:
    """Returns a folder with the data and PAWS-X's translations, from English and into it."""
    folder.mkdir(exist_ok=True)
    if not (folder / "published").exists():
        (folder / "published").symlink_to(data.resolve())
    for lang in TASKS["paws_x"].langs[1:]:
        for part, source, target in (("dev", "en", lang), ("test", lang, "en")):
            name = "translate-train/" if part == "dev" else "translate-test/test-"
            path = folder / f"PAWSX/{name}{source}-{target}-translated.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            sides = [data / f"pairs/pawsx/{part}-{each}.tsv" for each in (source, target)]
            path.write_text("".join(map(translated, *map(lines_of, sides))), encoding="utf-8")
    return folder


def translated(line: str, translation: str) -> str:
    """Returns both sentences, both translated ones, and the label, of two lines of sentence, sentence and label."""
    (*sentences, label), (*others, _) = line.split("\t"), translation.split("\t")
    return "\t".join([*sentences, *others, label]) + "\n"


def lines_of(path: Path) -> list[str]:
    return [line for _, line in files.lines_of(path)]


def suite(methods: Sequence[str], trainings: Sequence[str], steps: int, langs: Sequence[str]) -> str:
    parts = ["seeds = [1, 2]\nexamples = [500]"]
    parts += [METHOD.format(name=name, recipes=RECIPES[name], steps=steps) for name in methods]
    for name in trainings:
        train, task = TRAININGS[name]
        chosen = [lang for lang in TASKS[task].langs if lang in langs]
        parts.append(
            f'[[trainings]]\nname = "{name}"\ntask = "{name}"\ntrain = ["{train}"]\n\n'
            f'[[trainings.tests]]\ntask = "{task}"\nlangs = {chosen}\n'
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
