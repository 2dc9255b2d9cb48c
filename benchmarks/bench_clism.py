"""The CLISM job: sentence pairs per second per core, the share of each stage, and peak memory as the corpus grows.

    python benchmarks/bench_clism.py                       # 10,000 pairs of en-vi
    python benchmarks/bench_clism.py --pairs 10000 100000 1000000 --pair en-de

The corpus is repeated until it is as long as asked for, with a letter or two put behind each sentence so that no pair
is a duplicate. Each size runs in a process of its own: without `--workers` on one core, with the share of each stage.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import lzma
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BITEXT = ROOT.parent / "shared" / "data" / "bitext"
TATOEBA = {"en-vi": "eng-vie", "en-de": "deu-eng", "en-ar": "ara-eng", "en-hi": "eng-hin", "en-zh": "eng-zho"}
NTREX = {"vi": "vie", "de": "deu", "ar": "ara", "hi": "hin", "zh": "zho-CN"}


def real_pairs(pair: str) -> Iterator[tuple[str, str]]:
    """Yields NTREX-128, Tatoeba and the pair's larger corpus, one after another."""
    target = pair.split("-")[1]
    folder = BITEXT / "tatoeba" / TATOEBA[pair]
    stem = "tatoeba-test-v2021-08-07"
    sides = [
        (BITEXT / "ntrex128/newstest2019-src.eng.txt", BITEXT / f"ntrex128/newstest2019-ref.{NTREX[target]}.txt"),
        (folder / f"{stem}.eng", next(path for path in sorted(folder.iterdir()) if path.suffix != ".eng")),
    ]
    for source, translation in sides:
        if source.exists() and translation.exists():
            yield from zip(
                source.read_text(encoding="utf-8").split("\n"),
                translation.read_text(encoding="utf-8").split("\n"),
                strict=True,
            )
    for corpus in sorted((BITEXT / "corpora").glob(f"*.{pair}.tsv.xz")):
        with lzma.open(corpus, "rt", encoding="utf-8") as stream:
            for line in stream:
                source, translation = line.rstrip("\n").split("\t")[:2]
                yield source, translation


def write_corpus(folder: Path, pair: str, size: int) -> str:
    pairs = list(real_pairs(pair))
    names = (folder / "c.source", folder / "c.target")
    with names[0].open("w", encoding="utf-8") as sources, names[1].open("w", encoding="utf-8") as targets:
        for number, (source, target) in enumerate(itertools.islice(itertools.cycle(pairs), size)):
            letters = "".join(chr(ord("a") + int(digit)) for digit in str(number // len(pairs)))
            sources.write(f"{source} ({letters})\n")
            targets.write(f"{target} ({letters})\n")
    return f"{folder}/c.source,{folder}/c.target"


@contextlib.contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.process_time()
    try:
        yield
    finally:
        seconds[name] += time.process_time() - started


def watch_stages(seconds: dict[str, float]) -> None:
    """Adds up the CPU time that the job spends in each step."""
    from pipelines import clism_transforms
    from pipelines.aligner import aligners
    from pipelines.runtime import dataset_sink

    def watched(function, name):
        def call(*args, **kwargs):
            with timed(seconds, name):
                return function(*args, **kwargs)

        return call

    tokenizer_for, load_tagger, load_aligner = (
        clism_transforms.tokenizer_for,
        clism_transforms.load_tagger,
        clism_transforms.load_aligner,
    )

    class Watched:
        def __init__(self, inner, method, name):
            self._inner, self._method, self._name = inner, method, name

        def __getattr__(self, attribute):
            found = getattr(self._inner, attribute)
            return watched(found, self._name) if attribute == self._method else found

    clism_transforms.tokenizer_for = lambda lang: watched(tokenizer_for(lang), "tokenise")
    clism_transforms.load_tagger = lambda config, lang: Watched(load_tagger(config, lang), "tag", "tag entities")
    clism_transforms.load_aligner = lambda *given: Watched(load_aligner(*given), "align_batch", "align")
    aligners.train = watched(aligners.train, "train the aligner")
    clism_transforms.mask_mentions = watched(clism_transforms.mask_mentions, "project and mask")
    clism_transforms.pairs_to_table = watched(clism_transforms.pairs_to_table, "chunks to Arrow and back")
    clism_transforms.tokenized_to_table = watched(clism_transforms.tokenized_to_table, "chunks to Arrow and back")
    clism_transforms.sample_for_training = watched(clism_transforms.sample_for_training, "sample for the aligner")
    dataset_sink._write = watched(dataset_sink._write, "write shards")


def measure(pair: str, size: int, training_pairs: int, workers: int) -> dict[str, object]:
    """One run, started from this process."""
    sys.path.insert(0, str(ROOT))
    from dataclasses import replace

    from pipelines.clism import run
    from pipelines.recipes import CLISM

    seconds: dict[str, float] = defaultdict(float)
    watch_stages(seconds)
    with tempfile.TemporaryDirectory() as folder:
        spec = write_corpus(Path(folder), pair, size)
        config = replace(CLISM, bitext=(spec,), pair=(pair,), output=f"{folder}/out", workers=workers)
        wall = time.monotonic()
        manifest = run(replace(config, aligner=replace(config.aligner, training_pairs=training_pairs)))
        wall = time.monotonic() - wall
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    seconds["reading, Beam and the rest"] = total - sum(seconds.values())
    peak = max(usage.ru_maxrss for usage in usages) / 1024
    counts = manifest.totals
    return {
        "pairs": counts.pairs_read,
        "examples": counts.examples,
        "cpu_s": total,
        "wall_s": wall,
        "peak_mib": peak,
        "stages": dict(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000])
    parser.add_argument("--pair", default="en-vi", choices=sorted(TATOEBA))
    parser.add_argument("--training-pairs", type=int, default=100_000, help="bound of the aligner's training sample")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not BITEXT.exists():
        raise SystemExit(f"skipped: this benchmark needs the corpora in {BITEXT}")
    if arguments.one:
        print(json.dumps(measure(arguments.pair, arguments.one, arguments.training_pairs, arguments.workers)))
        return
    print(
        f"{'pairs':>10} {'examples':>9} {'wall s':>8} {'CPU s':>8} {'pairs/CPU s':>12} {'without training':>17} "
        f"{'peak MiB':>9}  (of the largest process)"
    )
    for size in arguments.pairs:
        command = [sys.executable, __file__, "--pair", arguments.pair, "--one", str(size)]
        command += ["--training-pairs", str(arguments.training_pairs), "--workers", str(arguments.workers)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        result = json.loads(output.strip().splitlines()[-1])
        stages = result["stages"]
        rest = result["cpu_s"] - stages.get("train the aligner", 0)
        print(
            f"{result['pairs']:>10,} {result['examples']:>9,} {result['wall_s']:>8.1f} {result['cpu_s']:>8.1f} "
            f"{result['pairs'] / result['cpu_s']:>12,.0f} {result['pairs'] / rest:>17,.0f} {result['peak_mib']:>9,.0f}"
        )
        if arguments.workers != 1:
            continue  # the stages run in other processes
        for name, took in sorted(stages.items(), key=lambda item: -item[1]):
            print(f"{'':>10} {took / result['cpu_s']:>8.1%}  {name}")


if __name__ == "__main__":
    main()
