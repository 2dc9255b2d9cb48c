"""Measures the word aligner: error rate on gold alignments, training time, peak memory and speed.

    python -m benchmarks.bench_aligner quality                      # four gold sets; minutes
    python -m benchmarks.bench_aligner quality en-hi --pairs 300    # trained on a small sample
    python -m benchmarks.bench_aligner cost                         # of en-fr: 10,000 and 30,000 pairs, one thread
    python -m benchmarks.bench_aligner cost --pairs 10000 30000 200000 1000000 --threads 1 2 4
    python -m benchmarks.bench_aligner speed                        # of en-fr: forced alignment of news, one thread
    python -m benchmarks.bench_aligner load --pairs 30000 200000    # a saved model, in two processes (Linux)

`quality` trains on the language pair's corpora and on the text (not the links) of the gold set; with --held-out, on
the corpora alone, and then adapts that model to the gold set's text, as `polyspan-data align apply --adapt` does. Gold
words are cut further where the job's tokenizer cuts them, Chinese ones into characters, and a link of a part is a link
of its word. Other differences between training text and gold are not corrected: French gold has contractions in full
("de le"), Japanese gold follows another standard of segmentation. AER, precision and recall are those of Och and Ney
(2003): possible links cost no precision, only sure ones are missed.

`cost` trains in a process of its own, `polyspan-data align train` on two tokenised files; `words` are those of both
sides of a pair, `a CPU second` is pairs aligned in one. A corpus that is too small is repeated. `speed` loads a model
of 30,000 pairs, or --pairs, and aligns one after another NTREX-128's 1,997 pairs of news, eight times.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import ROOT, run
from pipelines.align.pharaoh import Agreement, GoldLinks, agreement
from pipelines.aligner import AlignerConfig, AlignmentModel, train
from pipelines.aligner.links import LinkSet
from pipelines.steps.bitext.readers import expand_bitext, read_bitext
from pipelines.steps.common.sentence_pairs import SentencePair
from pipelines.steps.common.tokenize import token_texts, tokenizer_for
from schemas.languages import LanguagePair

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
    sure: LinkSet
    possible: LinkSet  # the sure ones too


def read_corpus(pair: LanguagePair, size: int | None, specs: Sequence[str] = ()) -> list[WordPair]:
    """The words of `size` sentence pairs, evenly spaced over these corpora, or the pair's."""
    specs = specs or CORPORA.get(str(pair)) or [f"{BITEXT}/corpora/bible.{pair}.tsv.xz@1,2"]
    files = expand_bitext(specs, [pair])
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


def judge(found: Iterable[LinkSet], gold: Sequence[GoldPair]) -> Agreement:
    """Links of the words that the tokenizer made of a gold word are that word's."""
    of_gold_words = (
        {(pair.gold_words[0][i], pair.gold_words[1][j]) for i, j in links}
        for links, pair in zip(found, gold, strict=True)
    )
    return agreement(of_gold_words, (GoldLinks(pair.sure, pair.possible) for pair in gold))


def judge_model(model: AlignmentModel, gold: Sequence[GoldPair]) -> Agreement:
    found = model.align_batch([pair.words for pair in gold])
    return judge(({link[:2] for link in links} for links in found), gold)


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
                found = judge_model(replace(model, config=AlignerConfig(min_score=min_score)), gold)
                print(
                    f"{label:16}{len(text):12,}{min_score:11}{found.error_rate:7.3f}{found.precision:11.3f}"
                    f"{found.recall:8.3f}{seconds:8.1f}"
                )
        sys.stdout.flush()


def write_corpus(folder: Path, pair: str, size: int) -> tuple[str, str]:
    """Two line-aligned files of words. A corpus that is too small is repeated, each time with another word at the end
    of every sentence, so that no pair is a duplicate."""
    corpus = [words for words in read_corpus(LanguagePair(*pair.split("-")), size) if min(map(len, words))]
    names = f"{folder}/c.source", f"{folder}/c.target"
    for side, name in enumerate(names):
        with open(name, "w", encoding="utf-8") as stream:
            for number, words in enumerate(itertools.islice(itertools.cycle(corpus), size)):
                time_around = number // len(corpus)
                stream.write(" ".join([*words[side], *[f"<{time_around}>"] * (time_around > 0)]) + "\n")
    return names


def cost(pair: str, size: int, threads: Sequence[int], limit_s: float) -> None:
    """`align train` on all of `size` pairs, then `align_batch` of some thousand by the model that it wrote."""
    with tempfile.TemporaryDirectory() as temporary:
        names = write_corpus(Path(temporary), pair, size)
        train_command = [sys.executable, "-m", "pipelines.cli", "align", "train", "--bitext", ",".join(names)]
        train_command += ["--pair", pair, "--tokenized", "--model", f"{temporary}/model", "--overwrite"]
        train_command += ["--aligner.training-pairs", str(size)]
        chunks = []
        with open(names[0], encoding="utf-8") as sources, open(names[1], encoding="utf-8") as targets:
            lines = ((source.split(), target.split()) for source, target in zip(sources, targets, strict=True))
            while len(chunks) < 5 and (chunk := list(itertools.islice(lines, 2000))):  # the job's chunks
                chunks.append(chunk)
        aligned = sum(map(len, chunks))
        words = sum(len(source) + len(target) for chunk in chunks for source, target in chunk) / aligned
        for number in threads:
            trained = run([*train_command, "--threads", str(number)], limit_s)
            model = AlignmentModel.load(f"{temporary}/model")
            model.align_batch(chunks[0][:1])  # what is made once
            cpu_s, wall_s = time.process_time(), time.monotonic()
            for chunk in chunks:
                model.align_batch(chunk, threads=number)
            cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
            print(
                f"{pair:7}{size:11,}{words:8.0f}{number:9}{trained.wall_s:13.1f}{trained.cpu_s:13.1f}"
                f"{trained.peak_mib:10.0f}{aligned / wall_s:16,.0f}{aligned / cpu_s:16,.0f}",
                flush=True,
            )


def speed(name: str, size: int) -> None:
    pair = LanguagePair(*name.split("-"))
    texts = read_corpus(pair, None, [spec for spec in CORPORA[name] if spec.startswith(str(NTREX))])
    with tempfile.TemporaryDirectory() as folder:
        train(read_corpus(pair, size), AlignerConfig(), threads=4).save(f"{folder}/model")
        model = AlignmentModel.load(f"{folder}/model")
    rates = []
    for _ in range(8):
        started = time.process_time()
        model.align_batch(texts)
        rates.append(len(texts) / (time.process_time() - started))
    words = sum(len(source) + len(target) for source, target in texts) / len(texts)
    told = " ".join(f"{rate:,.0f}" for rate in rates)
    print(f"{name}: {len(texts):,} pairs of {words:.0f} words; pairs a CPU second: {told}")


def load(size: int) -> None:
    """Of a model of `size` sentence pairs: en-fr, and where these are too few, others' beside it in one model."""
    corpus: list[WordPair] = []
    for name in ("en-fr", "en-de", "en-vi", "en-ar", "en-zh", "en-hi", "en-ja"):
        if len(corpus) < size:
            corpus += read_corpus(LanguagePair(*name.split("-")), None)
    model = train(corpus[:size], AlignerConfig(), threads=4)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/some.model"
        model.save(path)
        processes = multiprocessing.get_context("spawn")
        barrier, queue = processes.Barrier(2), processes.SimpleQueue()
        workers = [processes.Process(target=load_beside_another, args=(path, barrier, queue)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        words, megabytes = len(model.tables.vocabulary.words), Path(path).stat().st_size / 2**20
    found = [queue.get() for _ in workers]
    print(f"{min(size, len(corpus)):,} pairs, {words:,} words, a file of {megabytes:.1f} MiB; two processes loaded it")
    for seconds, resident, share, anonymous in found:
        print(
            f"  in {seconds:.3f} CPU s: {resident:.1f} MiB more resident memory, of which {anonymous:.1f} its own; "
            f"{share:.1f} if what is shared counts by halves (Pss)"
        )


def load_beside_another(path: str, barrier: threading.Barrier, queue: multiprocessing.SimpleQueue[Any]) -> None:
    AlignmentModel.load(path)  # code that is loaded once
    barrier.wait()
    before = memory()
    barrier.wait()
    started = time.process_time()
    model = AlignmentModel.load(path)
    seconds = time.process_time() - started
    model.align(["the", "house"], ["la", "maison"])
    barrier.wait()
    queue.put((seconds, *(now - then for now, then in zip(memory(), before, strict=True))))
    barrier.wait()


def memory() -> tuple[float, float, float]:
    """MiB of this process: all that is resident, the share that it would be charged with, what is no file's."""
    fields = dict(re.findall(r"(\w+): +(\d+) kB", Path("/proc/self/smaps_rollup").read_text()))
    return int(fields["Rss"]) / 1024, int(fields["Pss"]) / 1024, int(fields["Anonymous"]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="quality", choices=["quality", "cost", "speed", "load"])
    parser.add_argument("pair", nargs="*", help="language pairs; default: all (quality), en-fr (cost, speed)")
    parser.add_argument("--pairs", type=int, nargs="+", help="sentence pairs to train on; default: all (quality)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="cost: one row for each")
    parser.add_argument("--limit", type=float, default=3600, help="cost: seconds after which training is given up")
    parser.add_argument("--held-out", action="store_true", help="leave the gold sets' text out of training")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: the real corpora are not at {DATA}")
    elif arguments.what == "quality":
        for size in arguments.pairs or [None]:
            quality(arguments.pair or list(CORPORA), size, arguments.held_out)
    elif arguments.what == "speed":
        for name in arguments.pair or ["en-fr"]:
            speed(name, (arguments.pairs or [30_000])[0])
    elif arguments.what == "load":
        for size in arguments.pairs or [30_000, 200_000]:
            load(size)
    else:
        print(
            f"{'pair':7}{'pairs':>11}{'words':>8}{'threads':>9}{'train wall s':>13}{'train CPU s':>13}"
            f"{'peak MiB':>10}{'align pairs/s':>16}{'a CPU second':>16}"
        )
        for pair in arguments.pair or ["en-fr"]:
            for size in arguments.pairs or [10_000, 30_000]:
                cost(pair, size, arguments.threads, arguments.limit)


if __name__ == "__main__":
    main()
