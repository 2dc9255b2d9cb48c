"""Compares the word aligner with others: alignment error rate, CPU seconds and peak memory on the same input.

    python -m benchmarks.bench_aligner_peers --peers-python peers/bin/python [en-fr en-hi] [--pairs 10000] [--held-out]

The peers are of no use to the project but for this comparison, and live in an environment of their own, each of them
optional: `pip install systran-align eflomal sil-thot` (systran-align: Python 3.11 at most). They run as programs.

Everyone gets the same tokenised, lower-cased text: the language pair's corpora and the text of the gold set (see
bench_aligner.py), Chinese by characters; with --held-out, the corpora alone. CPU seconds, of one core, cover everything
from text files to files of links: training, and linking all of the training text; with --held-out, of the gold set's.
Two directed sets of links become one by grow-diag-final-and; fast_align's come symmetrised. With --held-out, `polyspan
adapted` learns from the text that it links, as eflomal does; `polyspan` links each sentence pair by the model alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.bench_aligner import CORPORA, DATA, WordPair, judge, read_corpus, read_gold
from benchmarks.measure import Cost, Failed, run
from pipelines.align.pharaoh import read_links
from pipelines.aligner.links import LinkSet
from pipelines.aligner.symmetrize import grow_diag_final_and
from schemas.languages import LanguagePair

LANGUAGE_PAIRS = ("en-fr", "en-hi", "en-zh", "en-ja")
PEERS = ("fast_align", "eflomal", "eflomal prefix 4", "sil-thot HMM", "sil-thot eflomal")
OURS = {
    "polyspan": ["--symmetrize", "posterior"],
    "polyspan gdfa": ["--symmetrize", "grow-diag-final-and"],
    "polyspan adapted": ["--adapt"],  # to text that is held out: that which trained the model has nothing to add
}


def run_ours(folder: Path, name: str, pair: str, limit_s: float) -> Cost:
    """`align train` on everything that it is given, then `align apply`."""
    align = [sys.executable, "-m", "pipelines.cli", "align"]
    everything = ["--filters.max-length-ratio", "0", "--filters.no-drop-identical", "--filters.no-drop-duplicates"]
    train = ["train", "--bitext", f"{folder}/train.source,{folder}/train.target", "--pair", pair, "--tokenized"]
    train += ["--aligner.training-pairs", "1000000000", *everything]
    train += ["--model", f"{folder}/model", "--overwrite", "--threads", "1"]
    apply = ["apply", "--model", f"{folder}/model", "--source", f"{folder}/text.source", "--target"]
    apply += [f"{folder}/text.target", "--tokenized", "--output", f"{folder}/links", "--threads", "1", *OURS[name]]
    costs = [run([*align, *arguments], limit_s) for arguments in (train, apply)]
    cpu_s, wall_s, peak_mib = zip(*costs, strict=True)
    return Cost(sum(cpu_s), sum(wall_s), max(peak_mib))


def links_in(folder: Path) -> list[LinkSet]:
    if (folder / "links").exists():
        return list(read_links(f"{folder}/links"))
    ways = (read_links(f"{folder}/{way}") for way in ("forward", "backward"))
    return [grow_diag_final_and(*both) for both in zip(*ways, strict=True)]


def write_text(folder: Path, name: str, pairs: Sequence[WordPair]) -> None:
    for number, side in enumerate(("source", "target")):
        lines = (" ".join(pair[number]).lower() + "\n" for pair in pairs)
        (folder / f"{name}.{side}").write_text("".join(lines), encoding="utf-8")


def compare(
    name: str, size: int | None, held_out: bool, peers_python: str, only: Sequence[str], limit_s: float
) -> Iterator[str]:
    """The lines of one language pair's table, as they come."""
    pair = LanguagePair(*name.split("-"))
    gold = read_gold(pair)
    corpus = [words for words in read_corpus(pair, size) if min(map(len, words))]
    train = corpus if held_out else [*corpus, *(item.words for item in gold)]
    text = [item.words for item in gold] if held_out else train
    yield f"\n{name}: {len(train):,} sentence pairs, the gold set's {len(gold)} {'not ' * held_out}among them"
    yield f"{'':20}{'AER':>7}{'precision':>11}{'recall':>8}{'CPU s':>8}{'peak MiB':>10}"
    for aligner in only or [*OURS, *PEERS]:
        if aligner == "polyspan adapted" and not held_out:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_text(folder, "train", train)
            write_text(folder, "text", text)
            try:
                if aligner in OURS:
                    cost = run_ours(folder, aligner, name, limit_s)
                elif peers_python:
                    driver = str(Path(__file__).with_name("peer_aligners.py"))
                    cost = run([peers_python, driver, aligner, temporary], limit_s)
                else:
                    raise Failed("no --peers-python")
                found = judge(links_in(folder)[-len(gold) :], gold)
            except Failed as why:
                yield f"{aligner:20}skipped: {why}"
                continue
        yield (
            f"{aligner:20}{found.error_rate:7.3f}{found.precision:11.3f}{found.recall:8.3f}"
            f"{cost.cpu_s:8.1f}{cost.peak_mib:10.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", nargs="*", default=LANGUAGE_PAIRS, help=f"of {', '.join(CORPORA)}; default: all")
    parser.add_argument("--peers-python", default="", help="a Python that has the peers installed")
    parser.add_argument("--pairs", type=int, help="sentence pairs of the corpora to train on; default: all")
    parser.add_argument("--held-out", action="store_true", help="leave the gold sets' text out of training")
    parser.add_argument("--only", nargs="+", default=[], choices=[*OURS, *PEERS], help="only these aligners")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which an aligner is skipped")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: the real corpora are not at {DATA}")
        return
    for name in arguments.pair:
        for line in compare(
            name, arguments.pairs, arguments.held_out, arguments.peers_python, arguments.only, arguments.limit
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
