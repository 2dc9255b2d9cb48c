"""Runs the anchor-MRC job on every real dump: pages, links by rule, entities, examples, rejects by reason.

    python -m benchmarks.real_dumps --output FOLDER

Each language's dumps are one run of `polyspan-data anchor-mrc`, as a user would type it, then `polyspan-inspect
verify`. The dumps are the beginnings of Wikipedias, or a few pages of them: nearly all links are red, and entities are
kept from three mentions on. Some are damaged, in UTF-16, or carry another wiki's <siteinfo>: that is as it should be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WIKI = ROOT.parent / "shared" / "data" / "wiki"
DUMPS = {
    "bg": ["bgwiki-latest-pages-articles-shortened.xml.bz2"],
    "bn": ["bnwiki-2023-trunc100k.xml.xz"],
    "en": ["gensim_enwiki_p10p30302_shortened.xml.bz2", "enwiki-table-markup.xml.bz2", "wp2txt_en_2022.xml.bz2"],
    "ja": ["jawiki-2023-trunc100k.xml.xz"],
    "ja, Wp2Txt": ["wp2txt_ja_2022.xml.bz2"],
    "ja, truncated": ["jawiki_keiouok.xml.bz2"],
    "ltg": ["smallwiki-latest-pages-articles.xml"],
    "vi": ["viwiki-2023-trunc100k.xml.xz"],
}
MINI = "ar bn de el en es fi fr hi id it ja ko nl pl pt ru sv sw te th tr vi zh".split()


def run(name: str, lang: str, dumps: list[Path], output: Path, *more: str) -> dict[str, Any] | None:
    """The manifest's counts, and what the job said at its end."""
    command = [sys.executable, "-m", "pipelines.cli", "anchor-mrc", "--lang", lang, "--dump", *map(str, dumps)]
    command += ["--triplets.min-mentions", "3", "--output", str(output), "--overwrite", *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(
        f"{name}: exit code {done.returncode}", *done.stderr.strip().splitlines()[-1:] * bool(done.returncode), sep="  "
    )
    if not (output / "manifest.json").exists():
        return None
    verify = [sys.executable, "-m", "schemas.inspection.cli", "verify", str(output)]
    print(f"{'':4}{subprocess.run(verify, cwd=ROOT, capture_output=True, text=True).stdout.strip()}", flush=True)
    return json.loads((output / "manifest.json").read_text(encoding="utf-8"))["counts"][lang]


def told(counts: dict[str, Any]) -> str:
    def reasons(name: str) -> str:
        return ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts[name].items(), key=lambda x: -x[1]))

    return (
        f"| {counts['pages_read']:,} | {counts['articles']:,} | {counts['links_found']:,} | {counts['mentions']:,} "
        f"| {counts['entities']:,} | {counts['answerable']:,} + {counts['unanswerable']:,} "
        f"| {reasons('links_saved_by')} "
        f"| {reasons('page_rejects')} | {reasons('link_rejects')} | {reasons('mention_rejects')} "
        f"| {reasons('context_rejects')} |"
    )


def positions(folders: list[Path]) -> str:
    """Prints the positions of answers and the lengths of contexts, over all datasets."""
    from schemas.anchor_mrc import query_holds
    from schemas.shards import read_examples

    drawn, start, lengths, leaks, misses = [0] * 10, [0] * 10, {True: [], False: []}, 0, 0
    for example in (example for folder in folders for example in read_examples(folder)):
        length = len(example.context_text)
        lengths[example.answerable].append(length)
        if not example.answerable:
            continue
        drawn[min(9, example.words_before_drawn * 10 // 201)] += 1
        for span in example.answers:
            start[min(9, span.start * 10 // length)] += 1
            misses += span.of(example.context_text) != example.anchor_text
        leaks += query_holds(example.anchor_text, example.query_text, example.query_mask_spans, example.lang)
    sizes = {
        kind: " ".join(str(sorted(found)[len(found) * tenth // 10]) for tenth in (1, 3, 5, 7, 9))
        for kind, found in lengths.items()
    }
    return (
        f"words before the anchor, as drawn, by tenths of 0 to 200: {shares(drawn)}\n"
        f"answers by tenths of their contexts' characters: {shares(start)}\n"
        f"characters of contexts, deciles 1 3 5 7 9: answerable {sizes[True]}, unanswerable {sizes[False]}\n"
        f"of {len(lengths[True]):,} queries, {leaks} hold their anchor; of {sum(start):,} answers, {misses} miss it"
    )


def shares(counts: list[int]) -> str:
    return " ".join(f"{100 * count / max(1, sum(counts)):.1f}" for count in counts) + " %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="dumps-real")
    arguments = parser.parse_args()
    if not WIKI.exists():
        raise SystemExit(f"skipped: this benchmark needs the dumps in {WIKI}")
    output = Path(arguments.output).resolve()
    found = {}
    for name, files in DUMPS.items():
        lang = name.split(",")[0]
        found[name] = run(name, lang, [WIKI / file for file in files], output / name.replace(", ", "-"))
    for lang in MINI:
        dump = WIKI / "minidumps" / f"dbpedia_minidump_{lang}.xml.bz2"
        name = f"{lang}, mini"
        found[name] = run(name, lang, [dump], output / f"{lang}-mini", "--any-siteinfo")
    print(
        "\n| dump | pages | articles | links | mentions | entities | examples | links saved by | page rejects "
        "| link rejects | mention rejects | context rejects |\n|" + " --- |" * 12
    )
    for name, counts in found.items():
        print(f"| {name} {told(counts) if counts else '|'}")
    folders = [path.parent for path in sorted(output.glob("*/manifest.json"))]
    print("", positions(folders), sep="\n")


if __name__ == "__main__":
    main()
