"""Words per second, answers that fall on word boundaries, and memory of every language's tokenizer.

    python -m benchmarks.bench_tokenize                  # the table, from NTREX-128, XQuAD and TyDiQA in ../shared/data
    python -m benchmarks.bench_tokenize --memory de ja   # resident memory over a million distinct words

`cold` is a first pass over 1,997 news lines, most of whose time goes to words never seen before; `warm` is a second
pass, which a large corpus approaches. `answers` is the share of a benchmark's gold answers that begin and end at a word
boundary: what a span extractor that selects whole words can answer at best.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from pipelines.steps.common.tokenize import Tokenizer, tokenizer_for
from schemas.languages import LANGUAGES, Language

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
NTREX_NAMES = {"zh": "zho-CN"}


def news_lines(row: Language) -> list[str]:
    """Returns NTREX's lines in the language, or none."""
    name = NTREX_NAMES.get(row.code, row.iso639_3)
    paths = sorted((DATA / "bitext" / "ntrex128").glob(f"newstest2019-*.{name}.txt"))
    return paths[0].read_text("utf-8").splitlines() if paths else []


def words_per_second(tokenizer: Tokenizer, lines: list[str]) -> tuple[int, float]:
    """Returns the number of words, and words per second."""
    started = time.perf_counter()
    words = sum(len(tokenizer(line)) for line in lines)
    return words, words / (time.perf_counter() - started)


def answers_on_boundaries(tokenizer: Tokenizer, row: Language) -> tuple[int, int]:
    """Gold answers of XQuAD or TyDiQA that begin and end at word boundaries, and gold answers in all."""
    names = [f"xquad/xquad.{row.code}.json", f"tydiqa/tydiqa.goldp.{row.code}.dev.json"]
    path = next((DATA / "qa" / name for name in names if (DATA / "qa" / name).exists()), None)
    on_boundaries = total = 0
    for article in json.loads(path.read_text("utf-8"))["data"] if path else []:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            spans = tokenizer(context)
            starts, ends = {span.start for span in spans}, {span.end for span in spans}
            for question in paragraph["qas"]:
                for answer in question["answers"][:1]:
                    start, text = answer["answer_start"], answer["text"]
                    if start >= 0 and context.startswith(text, start):
                        total += 1
                        on_boundaries += start in starts and start + len(text) in ends
    return on_boundaries, total


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def print_memory(lang: str, distinct: int = 1_000_000) -> None:
    """Resident memory while the tokenizer meets `distinct` words that it has never seen."""
    tokenizer = tokenizer_for(lang)
    tokenizer("x")
    print(f"{lang}: {resident_mb():.0f} MB loaded", end="")
    for first in range(0, distinct, 20):
        tokenizer(" ".join(f"x{number}-東京{number}," for number in range(first, first + 20)))
        if (first + 20) % (distinct // 5) == 0:
            print(f", {resident_mb():.0f} MB at {first + 20:,}", end="", flush=True)
    print()


def print_table(langs: list[str]) -> None:
    print("lang  tokenizer    load s    words  cold words/s  warm words/s  answers on boundaries")
    for code in langs:
        row = LANGUAGES[code]
        started = time.perf_counter()
        tokenizer = tokenizer_for(code)
        load = time.perf_counter() - started
        lines = news_lines(row)
        speed = f"{'no NTREX text':>37}"
        if lines:
            words, cold = words_per_second(tokenizer, lines)
            _, warm = words_per_second(tokenizer, lines)
            speed = f"{words:9,}{cold:14,.0f}{warm:14,.0f}"
        on_boundaries, total = answers_on_boundaries(tokenizer, row)
        answers = f"{on_boundaries:,} of {total:,} = {on_boundaries / total:.1%}" if total else "-"
        print(f"{code:6}{row.tokenizer:11}{load:8.2f}{speed}  {answers}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("langs", nargs="*", default=list(LANGUAGES), help="language codes; all by default")
    parser.add_argument("--memory", action="store_true", help="measure memory over a million distinct words instead")
    arguments = parser.parse_args()
    if arguments.memory:
        for lang in arguments.langs:
            print_memory(lang)
    elif not DATA.is_dir():
        print(f"skipped: no real data in {DATA}")
    else:
        print_table(arguments.langs)


if __name__ == "__main__":
    main()
