"""Measures wikitext per CPU second of the scanner, by language, beside WikiExtractor and mwparserfromhell.

    python -m benchmarks.bench_wikitext [--peers VENV] [--peer-mb 3]

Reads the articles of the dumps in ../shared/data/wiki; each dump's articles are scanned `--passes` times, and the
fastest counts. MB are millions of bytes of UTF-8 wikitext. `leftovers` counts what looks like markup in our text.
`--peers` names a virtual environment with `pip install wikiextractor mwparserfromhell`, which are run as programs on
each dump's first articles, up to `--peer-mb`; the columns say how many times as fast we are on the same articles. Of
dumps of less than 1 MB they say nothing: there, a program's start outweighs its work.

- WikiExtractor: `wikiextractor --json --links --no-templates --processes 1` on an export file of the articles; it reads
  XML and writes files as well, less the time that it takes for one empty article. CPU time of all its processes.
- mwparserfromhell: `parse(wikitext).strip_code()`.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

from pipelines.steps.wikipedia.dump import Page, plan_ranges, read_pages, read_siteinfo
from pipelines.steps.wikitext.plain_text import plain_text
from pipelines.steps.wikitext.site import Site, site_of

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "wiki"
DUMPS = [
    ("en", "gensim_enwiki_p10p30302_shortened.xml.bz2"),
    ("en", "wp2txt_en_2022.xml.bz2"),
    ("ja", "jawiki-2023-trunc100k.xml.xz"),
    ("vi", "viwiki-2023-trunc100k.xml.xz"),
    ("bn", "bnwiki-2023-trunc100k.xml.xz"),
    ("ltg", "smallwiki-latest-pages-articles.xml"),
    *((lang, f"minidumps/dbpedia_minidump_{lang}.xml.bz2") for lang in ("ar", "de", "fi", "ru", "th", "zh")),
]
LEFTOVERS = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|<ref|</|\|thumb|''|-\{|\}-|&nbsp;|__[A-Z]")
MWPARSER = """
import json, sys, time
import mwparserfromhell
texts = json.load(open(sys.argv[1], encoding="utf-8"))
started = time.process_time()
for text in texts:
    mwparserfromhell.parse(text).strip_code()
print(time.process_time() - started)
"""


def articles(path: Path) -> list[str]:
    """Yields the wikitext of the articles of a dump."""
    return [
        page.text
        for part in plan_ranges(str(path), 1 << 30)
        for page in read_pages(part)
        if isinstance(page, Page) and page.namespace == 0 and page.redirect is None
    ]


def megabytes(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def our_seconds(texts: list[str], site: Site, passes: int) -> float:
    times = []
    for _ in range(passes):
        started = time.process_time()
        for text in texts:
            plain_text(text, site)
        times.append(time.process_time() - started)
    return min(times)


def mwparser_seconds(texts: list[str], venv: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts), encoding="utf-8")
        command = [str(venv / "bin" / "python"), "-c", MWPARSER, str(path)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def wikiextractor_seconds(texts: list[str], venv: Path) -> float:
    """Returns the CPU seconds of WikiExtractor on an export file of `texts`, less those on a file of one word."""
    return _run_wikiextractor(texts, venv) - _run_wikiextractor(["x"], venv)


# WikiExtractor reads line by line: each element needs a line of its own.
HEAD = """<mediawiki>
<siteinfo>
<base>http://x.org/wiki/Main</base>
<namespaces>
<namespace key="10" case="first-letter">Template</namespace>
</namespaces>
</siteinfo>
"""
PAGE = """<page>
<title>P{number}</title>
<ns>0</ns>
<id>{number}</id>
<revision>
<id>{number}</id>
<text xml:space="preserve">{text}</text>
</revision>
</page>
"""


def _run_wikiextractor(texts: list[str], venv: Path) -> float:
    pages = [PAGE.format(number=number, text=escape(text)) for number, text in enumerate(texts, start=1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.xml"
        path.write_text(f"{HEAD}{''.join(pages)}</mediawiki>\n", encoding="utf-8")
        options = ["--json", "--links", "--no-templates", "--processes", "1", "--quiet", "--output", f"{folder}/out"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([venv / "bin" / "wikiextractor", *options, path], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        written = sum(file.read_text("utf-8").count("\n") for file in Path(folder).glob("out/*/*"))
    if written != len(pages):
        raise RuntimeError(f"wikiextractor wrote {written} of {len(pages)} articles")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first(texts: list[str], limit_mb: float) -> list[str]:
    """The first of `texts`, up to `limit_mb` and at least one."""
    size = 0.0
    chosen: list[str] = []
    for text in texts:
        size += len(text.encode()) / 1e6
        if chosen and size > limit_mb:
            break
        chosen.append(text)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="virtual environment with wikiextractor and mwparserfromhell")
    parser.add_argument("--peer-mb", type=float, default=3.0, help="wikitext of each dump that peers get")
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    print("| dump | articles | MB | MB per CPU s | anchors | leftovers | × WikiExtractor | × mwparserfromhell |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for lang, name in DUMPS:
        path = DATA / name
        if not path.exists():
            print(f"{name} is not in {DATA}: left out")
            continue
        # The siteinfo of the minidumps is English Wikipedia's; the tables know the language's names.
        site = site_of(lang, read_siteinfo(str(path)))
        texts = articles(path)
        pages = [plain_text(text, site) for text in texts]
        leftovers = sum(len(LEFTOVERS.findall(page.text)) for page in pages)
        rate = megabytes(texts) / our_seconds(texts, site, options.passes)
        ratios = ["", ""]
        if options.peers and megabytes(texts) > 1:
            sample = first(texts, options.peer_mb)
            ours = our_seconds(sample, site, options.passes)
            peers = (wikiextractor_seconds, mwparser_seconds)
            ratios = [f"{seconds(sample, options.peers) / ours:.1f}" for seconds in peers]
        anchors = sum(len(page.anchors) for page in pages)
        name = name.split("/")[-1].split(".")[0]
        print(
            f"| {lang} {name} | {len(texts):,} | {megabytes(texts):.1f} | {rate:.1f} | {anchors:,} | {leftovers} "
            f"| {' | '.join(ratios)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
