"""The table of titles: time and memory to build it, its size, titles resolved per second.

    python -m benchmarks.bench_titles [--titles 1000000]

Titles are made up; six in ten are redirects, as in large Wikipedias.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pipelines.steps.wikipedia.title_table import TitleRecord, TitleTable, build_titles


def records(count: int) -> Iterator[TitleRecord]:
    for number in range(count):
        is_redirect = number % 10 < 6
        target = f"A title of a page {number - number % 10 + 6}" if is_redirect else None
        yield TitleRecord(f"A title of a page {number}", target, "redirect" if is_redirect else "article", number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titles", type=int, default=1_000_000)
    count = parser.parse_args().titles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    table = build_titles(records(count))
    built = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.titles"
        with path.open("wb") as file:
            table.save(file)
        size = path.stat().st_size
        started = time.process_time()
        table = TitleTable.load(path)
        loaded = time.process_time() - started
        titles = [f"A title of a page {number * 7919 % count}" for number in range(200_000)]
        started = time.process_time()
        found = table.resolve_all(titles)
        resolved = time.process_time() - started
        assert (found.articles >= 0).all()
    print(
        f"{count:,} titles: built in {built:.1f} CPU s with {peak * 1024 / count:.0f} bytes a title at most; "
        f"{size / count:.1f} bytes a title on disk; loaded in {loaded * 1000:.0f} ms; "
        f"{len(titles) / resolved / 1e6:.2f} million titles resolved a second"
    )


if __name__ == "__main__":
    main()
