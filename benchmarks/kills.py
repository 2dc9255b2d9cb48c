"""Kills polyspan-data at every file operation of a job and at random moments, and says what is left each time.

    python -m benchmarks.kills [clism] [anchor-mrc] [overwrite] [fetch] [--random 20] [--every 1]

After each kill the output is a whole dataset or file (the old or the new one) or none, files of others are untouched,
and the repeated command ends with code 0 and the bytes of an undisturbed run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, NamedTuple

from pipelines import anchor_mrc, clism
from pipelines.fetch.wikipedia import FetchConfig, fetch_wikipedia
from pipelines.recipes import ANCHOR_MRC, CLISM
from pipelines.steps.anchor_mrc.triplets import TripletConfig
from schemas.manifest import FILE_NAME
from schemas.verification import find_problems
from tests.kill_points import KILLED, run_in_child
from tests.pipelines.fetch.test_wikipedia import NAME as DUMP
from tests.pipelines.fetch.test_wikipedia import FakeMirror, Handler

os.environ["GIT_DIR"] = os.devnull  # a manifest names the commit, which may change meanwhile
SAMPLE = package_files("pipelines") / "sample"


class Case(NamedTuple):
    """A command that is killed, and what is in its output folder before."""

    run: Callable[[Path], Any]  # the command, with its output folder
    before: Callable[[Path], Any] | None = None
    random: int = 20  # kills at random moments, unless the command line says otherwise


def make_clism(output: Path, **changes: Any) -> None:
    config = replace(CLISM, bitext=(str(SAMPLE / "sample.tsv"),), pair=("en-vi",), chunk_pairs=100, output=str(output))
    clism.run(replace(config, **changes))


def make_anchor_mrc(output: Path) -> None:
    triplets = TripletConfig(context_words=40, query_words=30, min_mentions=2)
    dump = (str(SAMPLE / "wiki" / "viwiki-sample.xml"),)
    anchor_mrc.run(replace(ANCHOR_MRC, dump=dump, lang=("vi",), triplets=triplets, output=str(output)))


class SlowHandler(Handler):
    """Sends a file in a second, so that kills come while it is on its way."""

    def send_file(self, body: bytes, stop: int | None = None) -> None:
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        ranges = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"} if start else {}
        self.reply(206 if start else 200, {"Content-Length": str(len(body) - start)} | ranges)
        for place in range(start, len(body), BLOCK_BYTES) if self.command != "HEAD" else ():
            self.wfile.write(body[place : place + BLOCK_BYTES])
            time.sleep(BLOCK_BYTES / len(body))


BLOCK_BYTES = 1 << 16
MIRROR = FakeMirror()
MIRROR.RequestHandlerClass = SlowHandler
MIRROR.publish(articlesmultistreamdump={DUMP: random.Random(0).randbytes(3 << 20)})


def make_fetch(output: Path) -> None:
    fetch_wikipedia(FetchConfig(lang=("sw",), mirror=MIRROR.url, output=str(output)))


CASES = {
    "clism": Case(make_clism),
    "anchor-mrc": Case(make_anchor_mrc),
    "overwrite": Case(partial(make_clism, seed=1, overwrite=True), make_clism),
    "fetch": Case(make_fetch, random=100),
}


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if name.startswith(("data/part", "manifest"))}


class Trial:
    """One case in a scratch folder: `out` beside a file and a folder of the user's."""

    def __init__(self, case: Case, scratch: Path) -> None:
        self.case, self.scratch = case, scratch
        self.clean, self.old = scratch / "clean", scratch / "old"
        for made, run in ((self.clean, case.run), (self.old, case.before)):
            if run and run_in_child(partial(run, made), made)[0]:
                raise SystemExit("the undisturbed run failed; KILL_POINTS_LOG=FILE keeps what it said")
        self.expected, self.expected_old = digests(self.clean), digests(self.old) if case.before else {}

    def prepare(self) -> Path:
        place = self.scratch / "trial"
        shutil.rmtree(place, ignore_errors=True)
        (place / "data").mkdir(parents=True)
        (place / "data" / "mine.txt").write_text("mine")
        (place / "notes.txt").write_text("mine")
        if self.case.before:
            shutil.copytree(self.old, place / "out")
        return place

    def judge(self, place: Path) -> str:
        """What the kill left: none, old or new; then repeats the command. Raises AssertionError."""
        out = place / "out"
        left = "none"
        if (out / FILE_NAME).exists():
            assert not (problems := list(find_problems(out))), problems
            left = "old" if shards(out) == shards(self.old) and self.case.before else "new"
            assert left == "old" or shards(out) == shards(self.clean), "neither the old nor the new dataset"
        elif (out / DUMP).exists():
            assert digests(out)[DUMP] == self.expected[DUMP], "half a file under the whole one's name"
            left = "new"
        assert left != "none" or not self.case.before, "the old dataset is gone"
        code, _ = run_in_child(partial(self.case.run, out), out)
        assert code == 0, "the repeated command failed"
        assert digests(out) == self.expected, "the repeated command left other bytes"
        names = sorted(path.name for path in place.iterdir())
        assert names == ["data", "notes.txt", "out"], names
        assert (place / "data" / "mine.txt").read_text() == (place / "notes.txt").read_text() == "mine"
        return left

    def at_operation(self, number: int) -> str | None:
        """None if the command has fewer operations."""
        place = self.prepare()
        code, operations = run_in_child(partial(self.case.run, place / "out"), place / "out", number)
        if operations < number:
            return None
        assert code == KILLED
        return self.judge(place)

    def after_seconds(self, seconds: float) -> str:
        place = self.prepare()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self.case.run(place / "out")
            os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return self.judge(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), choices=[*CASES, []])
    parser.add_argument("--random", type=int, help="kills at random moments, of each case; default: 20, fetch 100")
    parser.add_argument("--every", type=int, default=1, help="kill at every N-th file operation")
    arguments = parser.parse_args()
    threading.Thread(target=MIRROR.serve_forever, daemon=True).start()
    print(f"{'command':<12}{'at an operation':>16}{'at random':>11}   the output afterwards")
    for name in arguments.cases:
        with tempfile.TemporaryDirectory(prefix="kills-") as scratch:
            trial = Trial(CASES[name], Path(scratch).resolve())
            left: Counter[str] = Counter()
            number = 1
            while found := trial.at_operation(number):
                left[found] += 1
                number += arguments.every
            killed = left.total()
            begun = time.monotonic()
            run_in_child(partial(trial.case.run, trial.prepare() / "out"), trial.scratch)
            seconds = time.monotonic() - begun
            chosen = random.Random(0)
            times = trial.case.random if arguments.random is None else arguments.random
            for _ in range(times):
                left[trial.after_seconds(chosen.uniform(0, seconds))] += 1
            what = ", ".join(f"{kind} {count}" for kind, count in sorted(left.items()))
            print(f"{name:<12}{killed:>16}{times:>11}   {what}", flush=True)


if __name__ == "__main__":
    main()
