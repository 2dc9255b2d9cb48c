"""The word aligner: error rate on gold alignments, training time, peak memory and speed.

    python -m benchmarks.bench_aligner quality                      # four gold sets; minutes
    python -m benchmarks.bench_aligner quality en-hi --pairs 300    # trained on a small sample
    python -m benchmarks.bench_aligner cost --pairs 10000 30000     # of en-fr, one core

`quality` trains on the language pair's corpora and on the text (not the links) of the gold set; with --held-out, on
the corpora alone, and then adapts that model to the gold set's text, as `polyspan-data align apply --adapt` does. Gold
words are cut further where the job's tokenizer cuts them, Chinese ones into characters, and a link of a part is a link
of its word. What training text and gold still write differently is not mended: French gold has contractions in full
("de le"), Japanese gold follows another standard of segmentation. AER, precision and recall are those of Och and Ney
(2003): possible links cost no precision, only sure ones are missed.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipelines.aligner import AlignerConfig, AlignmentModel, train
from pipelines.steps.bitext import expand_bitext, read_bitext
from pipelines.steps.records import LanguagePair, SentencePair
from pipelines.steps.tokenize import token_texts, tokenizer_for

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
BITEXT = DATA / "bitext"
NTREX, TATOEBA = BITEXT / "ntrex128" / "newstest2019", BITEXT / "tatoeba"
CORPORA = {
    "en-fr": [f"{BITEXT}/corpora/bible.en-fr.tsv.xz@1,2", f"{NTREX}-src.eng.txt,{NTREX}-ref.fra.txt"],
    "en-hi": [
        f"{BITEXT}/corpora/joshua.en-hi.tsv.xz@1,2",
        f"{BITEXT}/tico19/all.en-hi.tmx",
        f"{NTREX}-src.eng.txt,{NTREX}-ref.hin.txt",
        f"{TATOEBA}/eng-hin/*.eng,{TATOEBA}/eng-hin/*.hin",
    ],
    "en-ja": [f"{NTREX}-src.eng.txt,{NTREX}-ref.jpn.txt", f"{TATOEBA}/eng-jpn/*.eng,{TATOEBA}/eng-jpn/*.jpn"],
    "en-zh": [
        f"{BITEXT}/corpora/bible.en-zh.tsv.xz@1,2",
        f"{NTREX}-src.eng.txt,{NTREX}-ref.zho-CN.txt",
        f"{BITEXT}/tico19/all.en-zh.tmx",
        f"{TATOEBA}/eng-zho/*.eng,{TATOEBA}/eng-zho/*.zho",
    ],
}
MAX_WORDS = 128  # the job's own limit

Words = Sequence[str]
WordPair = tuple[Words, Words]

HAN_OR_NOT = re.compile("[\u4e00-\u9fff]|[^\u4e00-\u9fff]+")


class GoldPair(NamedTuple):
    words: WordPair  # as the job's tokenizer cuts them
    gold_words: tuple[list[int], list[int]]  # of each word, which word of the gold set it is part of
    sure: set[tuple[int, int]]
    possible: set[tuple[int, int]]  # the sure ones too


def read_corpus(pair: LanguagePair, size: int | None) -> list[WordPair]:
    """The words of `size` sentence pairs, evenly spaced over the pair's corpora."""
    files = expand_bitext(CORPORA[str(pair)], [pair])
    records = [record for file in files for record in read_bitext(file) if isinstance(record, SentencePair)]
    step = max(1, len(records) // size) if size else 1
    corpus: list[WordPair] = []
    for record in records[::step][:size]:
        source, target = (
            units([text], lang)[0] for text, lang in zip((record.source_text, record.target_text), pair, strict=True)
        )
        if max(len(source), len(target)) <= MAX_WORDS:
            corpus.append((source, target))
    return corpus


def read_gold(pair: LanguagePair) -> list[GoldPair]:
    folder = DATA / "alignment" / str(pair)
    names = ("src.txt", "tgt.txt", "gold.txt")
    sources, targets, links = ((folder / name).read_text(encoding="utf-8").splitlines() for name in names)
    gold = []
    for source, target, line in zip(sources, targets, links, strict=True):
        (source_words, source_of), (target_words, target_of) = (
            units(text.split(" "), lang) for text, lang in zip((source, target), pair, strict=True)
        )
        found = {(int(i), int(j)): kind for i, kind, j in re.findall(r"(\d+)([-?])(\d+)", line)}
        sure = {link for link, kind in found.items() if kind == "-"}
        gold.append(GoldPair((source_words, target_words), (source_of, target_of), sure, set(found)))
    return gold


def units(words: Words, lang: str) -> tuple[list[str], list[int]]:
    """What is aligned: the job's words; in Chinese characters, the one unit that gold and every segmenter share."""
    parts, numbers = cut(words, lang)
    if lang != "zh":
        return parts, numbers
    pieces = [
        (piece, number) for part, number in zip(parts, numbers, strict=True) for piece in HAN_OR_NOT.findall(part)
    ]
    return [piece for piece, _ in pieces], [number for _, number in pieces]


def cut(words: Words, lang: str) -> tuple[list[str], list[int]]:
    """The job's words, and of each the number of the given word that it is part of."""
    tokenize = tokenizer_for(lang)
    parts = [(part, number) for number, word in enumerate(words) for part in token_texts(word, tokenize(word))]
    return [part for part, _ in parts], [number for _, number in parts]


def error_rate(model: AlignmentModel, gold: Sequence[GoldPair]) -> tuple[float, float, float]:
    """AER, precision, recall."""
    found = correct = sure_found = sure = 0
    for pair, links in zip(gold, model.align_batch([pair.words for pair in gold]), strict=True):
        source_of, target_of = pair.gold_words
        linked = {(source_of[link.source], target_of[link.target]) for link in links}
        found += len(linked)
        correct += len(linked & pair.possible)
        sure_found += len(linked & pair.sure)
        sure += len(pair.sure)
    return 1.0 - (sure_found + correct) / (found + sure), correct / max(1, found), sure_found / sure


def quality(pairs: Sequence[str], size: int | None, held_out: bool) -> None:
    print(f"{'pair':16}{'trained on':>12}{'min_score':>11}{'AER':>7}{'precision':>11}{'recall':>8}{'CPU s':>8}")
    for name in pairs:
        pair = LanguagePair(*name.split("-"))
        gold = read_gold(pair)
        corpus = read_corpus(pair, size) + ([] if held_out else [item.words for item in gold])
        prior: AlignmentModel | None = None
        texts = {name: corpus}
        if held_out:
            texts[f"{name} adapted"] = [item.words for item in gold]
        for label, text in texts.items():
            started = time.process_time()
            model = prior = train(text, AlignerConfig(), prior=prior)
            seconds = time.process_time() - started
            for min_score in (0.3, 0.4, 0.5, 0.6):
                aer, precision, recall = error_rate(replace(model, config=AlignerConfig(min_score=min_score)), gold)
                print(f"{label:16}{len(text):12,}{min_score:11}{aer:7.3f}{precision:11.3f}{recall:8.3f}{seconds:8.1f}")
        sys.stdout.flush()


def cost(pair: str, size: int) -> None:
    corpus = read_corpus(LanguagePair(*pair.split("-")), size)
    cells = sum(len(source) * len(target) for source, target in corpus) / len(corpus)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    model = train(corpus, AlignerConfig())
    trained = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    aligned = [corpus[start : start + 2000] for start in range(0, min(len(corpus), 10_000), 2000)]  # the job's chunks
    starting = time.process_time()
    for chunk in aligned:
        model.align_batch(chunk)
    rate = sum(map(len, aligned)) / (time.process_time() - starting)
    print(
        f"{pair}: trained on {len(corpus):,} pairs of {cells:.0f} cells (source words times target words) in "
        f"{trained - started:.0f} CPU s; peak {peak / 1024:.0f} MiB ({before / 1024:.0f} before); "
        f"aligns {rate:,.0f} pairs/s, {rate * cells / 1e6:.2f} million cells/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="quality", choices=["quality", "cost"])
    parser.add_argument("pair", nargs="*", help="language pairs; default: all (quality), en-fr (cost)")
    parser.add_argument("--pairs", type=int, nargs="+", help="sentence pairs to train on; default: all (quality)")
    parser.add_argument("--held-out", action="store_true", help="leave the gold sets' text out of training")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: the real corpora are not at {DATA}")
    elif arguments.what == "quality":
        for size in arguments.pairs or [None]:
            quality(arguments.pair or list(CORPORA), size, arguments.held_out)
    else:
        wanted = [(pair, size) for pair in arguments.pair or ["en-fr"] for size in arguments.pairs or [10_000, 30_000]]
        if len(wanted) == 1:
            cost(*wanted[0])
            return
        for pair, size in wanted:  # each in a process of its own: peak memory is the process's
            command = [sys.executable, "-m", "benchmarks.bench_aligner", "cost", pair, "--pairs", str(size)]
            subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
