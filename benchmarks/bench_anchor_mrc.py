"""The anchor-MRC job: MB of XML per second per core, the share of each step, peak memory as the dump grows.

    python -m benchmarks.bench_anchor_mrc                             # Vietnamese, 25 MB of XML
    python -m benchmarks.bench_anchor_mrc --mb 25 250 --lang vi
    python -m benchmarks.bench_anchor_mrc --mb 200 --workers 1 2 4 --range-bytes 1000000

A real dump's first pages are repeated until the dump is as long as asked for, with a number behind the titles of each
copy and in the links of its pages, so that each copy is a wiki of its own. Each run is a process of its own; with one
worker, the share of each step is printed. A dump is one bzip2 stream; its size is that of its XML.
"""

from __future__ import annotations

import argparse
import bz2
import json
import lzma
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
WIKI = ROOT.parent / "shared" / "data" / "wiki"
LANGS = ("bn", "ja", "vi")
TO_ANCHORS = ("bzip2 and XML", "wikitext to text and anchors", "kind of page", "titles of links", "pages to Arrow")

T = TypeVar("T")


def write_dump(path: Path, lang: str, megabytes: float) -> int:
    """Writes a dump of about `megabytes` MB of XML; returns the number of its bytes."""
    with lzma.open(WIKI / f"{lang}wiki-2023-trunc100k.xml.xz", "rt", encoding="utf-8") as stream:
        xml = stream.read()
    head, *pages = xml.split("  <page>\n")
    pages.pop()  # cut off
    size = copy = 0
    compressor = bz2.BZ2Compressor(9)
    with path.open("wb") as file:

        def write(text: str) -> None:
            nonlocal size
            encoded = text.encode()
            size += len(encoded)
            file.write(compressor.compress(encoded))

        write(head)
        while size < megabytes * 1e6:
            for page in pages:
                write("  <page>\n" + (numbered(page, copy) if copy else page))
                if size >= megabytes * 1e6:
                    break
            copy += 1
        write("</mediawiki>\n")
        file.write(compressor.flush())
    return size


def numbered(page: str, copy: int) -> str:
    """A page of the copy's own wiki."""
    page = re.sub(r"<title>(.*?)</title>", rf"<title>\1 ({copy})</title>", page)
    page = re.sub(r'<redirect title="(.*?)"', rf'<redirect title="\1 ({copy})"', page)
    page = re.sub(r"<id>(\d+)</id>", rf"<id>{copy}0\1</id>", page, count=1)
    return re.sub(r"\[\[([^][|#\n:]+)", rf"[[\1 ({copy})", page)


def watch_steps(seconds: dict[str, float]) -> None:
    """Adds up the CPU time that the job spends in each step, itself and not those that it calls."""
    from pipelines import anchor_mrc_transforms
    from pipelines.runtime import dataset_sink
    from pipelines.steps.anchor_mrc import triplets
    from pipelines.steps.wikipedia import pages

    running: list[str] = []
    last = time.process_time()

    def switch(change: Callable[[], object]) -> None:
        nonlocal last
        now = time.process_time()
        if running:
            seconds[running[-1]] += now - last
        last = now
        change()

    def watched(function: Callable[..., T], name: str) -> Callable[..., T]:
        def call(*args: Any, **kwargs: Any) -> T:
            switch(lambda: running.append(name))
            try:
                return function(*args, **kwargs)
            finally:
                switch(running.pop)

        return call

    def watched_iterator(function: Callable[..., Iterator[T]], name: str) -> Callable[..., Iterator[T]]:
        def call(*args: Any) -> Iterator[T]:
            advance = watched(function(*args).__next__, name)
            while True:
                try:
                    yield advance()
                except StopIteration:
                    return

        return call

    for module, name, words in (
        (pages, "plain_text", "wikitext to text and anchors"),
        (pages, "page_kind", "kind of page"),
        (pages, "normalize_target", "titles of links"),
        (anchor_mrc_transforms, "pages_table", "pages to Arrow"),
        (anchor_mrc_transforms, "build_titles", "title table"),
        (anchor_mrc_transforms, "resolve_links", "resolve links"),
        (anchor_mrc_transforms, "link_rejects", "rejects of links"),
        (anchor_mrc_transforms, "mentions_of", "sample mentions"),
        (anchor_mrc_transforms, "sample_mentions", "sample mentions"),
        (anchor_mrc_transforms, "wanted_texts", "draw contexts"),
        (anchor_mrc_transforms, "cut_texts", "cut texts"),
        (anchor_mrc_transforms, "pair_texts", "pair texts"),
        (triplets, "cut_context", "tokenise and cut contexts"),
        (triplets, "first_words", "tokenise and cut queries"),
        (triplets.Searchable, "__init__", "verify unanswerable contexts"),
        (triplets.Searchable, "mentions_any", "verify unanswerable contexts"),
        (dataset_sink, "_write", "write shards"),
    ):
        setattr(module, name, watched(getattr(module, name), words))
    anchor_mrc_transforms.read_pages = watched_iterator(anchor_mrc_transforms.read_pages, "bzip2 and XML")


def measure(dump: str, lang: str, workers: int, range_bytes: int) -> dict[str, Any]:
    """One run, started from this process."""
    from dataclasses import replace

    from pipelines.anchor_mrc import run
    from pipelines.recipes import ANCHOR_MRC

    seconds: dict[str, float] = defaultdict(float)
    watch_steps(seconds)
    with tempfile.TemporaryDirectory() as folder:
        config = replace(ANCHOR_MRC, dump=(dump,), lang=(lang,), output=f"{folder}/out", range_bytes=range_bytes)
        started = time.monotonic()
        (manifest,) = run(replace(config, workers=workers)).values()
        wall = time.monotonic() - started
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    seconds["Beam and the rest"] = total - sum(seconds.values())
    return {
        "counts": manifest.totals.to_json(),
        "examples": manifest.totals.examples,
        "cpu_s": total,
        "wall_s": wall,
        "peak_mib": max(usage.ru_maxrss for usage in usages) / 1024,
        "steps": dict(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, nargs="+", default=[25], help="megabytes of XML")
    parser.add_argument("--lang", default="vi", choices=LANGS)
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--range-bytes", type=int, default=8_000_000, help="of the compressed dump, a chunk's")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.lang, arguments.workers[0], arguments.range_bytes)))
        return
    if not WIKI.exists():
        raise SystemExit(f"skipped: this benchmark needs the dumps in {WIKI}")
    print(
        f"{'MB XML':>7} {'workers':>8} {'articles':>9} {'links':>10} {'entities':>9} {'examples':>9} {'wall s':>7} "
        f"{'CPU s':>7} {'MB/s wall':>10} {'MB/CPU s':>9} {'peak MiB':>9}  (of the largest process)"
    )
    for megabytes in arguments.mb:
        with tempfile.TemporaryDirectory() as folder:
            dump = Path(folder) / f"{arguments.lang}wiki.xml.bz2"
            size = write_dump(dump, arguments.lang, megabytes) / 1e6
            for workers in arguments.workers:
                command = [sys.executable, "-m", "benchmarks.bench_anchor_mrc", "--one", str(dump)]
                command += ["--lang", arguments.lang, "--workers", str(workers)]
                command += ["--range-bytes", str(arguments.range_bytes)]
                output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
                found = json.loads(output.strip().splitlines()[-1])
                counts = found["counts"]
                print(
                    f"{size:>7.0f} {workers:>8} {counts['articles']:>9,} {counts['links_found']:>10,} "
                    f"{counts['entities']:>9,} {found['examples']:>9,} {found['wall_s']:>7.1f} {found['cpu_s']:>7.1f} "
                    f"{size / found['wall_s']:>10.1f} {size / found['cpu_s']:>9.1f} {found['peak_mib']:>9,.0f}"
                )
                if workers == 1:  # otherwise the steps run in other processes
                    reading = sum(found["steps"].get(name, 0) for name in TO_ANCHORS)
                    print(f"{'':>7} {size / reading:>8.1f}  MB XML/CPU s from bzip2 to text and anchors")
                    for name, took in sorted(found["steps"].items(), key=lambda item: -item[1]):
                        print(f"{'':>7} {took / found['cpu_s']:>8.1%}  {name}")


if __name__ == "__main__":
    main()
