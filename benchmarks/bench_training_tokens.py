"""Measures examples per second, on one core, from text to token ids and from rows to features.

    python -m benchmarks.bench_training_tokens                           # a vocabulary of its own, from NTREX-128
    python -m benchmarks.bench_training_tokens --tokenizer xlm-r-folder  # any tokenizer folder

An example is 50 words of query and 201 of context, cut from NTREX-128 in ../shared/data, with one answer; in scripts
that do not space their words, two code points count for a word. `plain` is the tokenizer as transformers offers it.
`new` encodes the second half of a language's text after the first; `warm` is a second pass over that half, which a
large corpus approaches. Then rows to features: WAE without and with the cache, and CLISM with it, English the source.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("RAYON_NUM_THREADS", "1")

from transformers import AddedToken, AutoTokenizer, PreTrainedTokenizerBase, XLMRobertaTokenizer

from schemas.clism import QUE_TOKEN
from training.data.features import Limits, clism_features, wae_features
from training.data.tokens import TextEncoder

NTREX = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "bitext" / "ntrex128"
UNSPACED = ("jpn", "tha", "zho-CN", "zho-TW")
QUERY, CONTEXT = 50, 201  # words
CHARS = 2  # code points of an unspaced script for one word


def trained(folder: Path, vocabulary: int) -> PreTrainedTokenizerBase:
    """Trains a tokenizer of XLM-R's form, with a vocabulary from every language of NTREX-128."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for path in sorted(NTREX.glob("*.txt")) for line in path.open(encoding="utf-8")),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocabulary,
        hard_vocab_limit=False,
        character_coverage=0.9995,
        num_threads=1,
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    return XLMRobertaTokenizer.from_pretrained(folder)


def mrc_rows(lines: Sequence[str], spaced: bool) -> list[dict[str, Any]]:
    """Makes rows of anchor_mrc/1: consecutive text as query and context, one answer in the middle of the context."""
    text = " ".join(lines)
    units = (
        [word + " " for word in text.split()]
        if spaced
        else [text[at : at + CHARS] for at in range(0, len(text), CHARS)]
    )
    rows = []
    for at in range(0, len(units) - QUERY - CONTEXT, QUERY + CONTEXT):
        query, context = units[at : at + QUERY], units[at + QUERY : at + QUERY + CONTEXT]
        start = len("".join(context[:100]))
        row = {
            "id": str(at),
            "query_text": "[MASK] " + "".join(query).rstrip(),
            "query_mask_spans": [{"start_char": 0, "end_char": 6}],
            "context_text": "".join(context).rstrip(),
            "answers": [{"start_char": start, "end_char": start + len(context[100].rstrip()) or 1}],
            "answerable": True,
        }
        rows.append(row)
    return rows


def clism_rows(sources: Sequence[str], targets: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of clism/1: the source's first word masked, the target's first ten code points for answer."""
    rows = []
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        question = {"que_start_char": 0, "answer_start_char": 0, "answer_end_char": min(10, len(target))}
        masked = QUE_TOKEN + source[len(source.split()[0]) :]
        row = {"id": str(number), "source_text": source, "masked_source_text": masked, "target_text": target}
        rows.append({**row, "questions": [question]})
    return rows


def seconds(function: Callable[[Any], object], items: Sequence[Any]) -> float:
    """Returns the CPU seconds for one item."""
    started = time.process_time()
    for item in items:
        function(item)
    return (time.process_time() - started) / len(items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, help="a folder that transformers.AutoTokenizer loads")
    parser.add_argument("--vocabulary", type=int, default=64_000, help="of the tokenizer that is trained otherwise")
    arguments = parser.parse_args()
    if not NTREX.is_dir():
        print(f"skipped: no real data in {NTREX}")
        return
    with tempfile.TemporaryDirectory() as folder:
        if arguments.tokenizer:
            tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
        else:
            tokenizer = trained(Path(folder), arguments.vocabulary)
    tokenizer.add_tokens([AddedToken(QUE_TOKEN, special=True)], special_tokens=True)
    print_table(tokenizer)


def print_table(tokenizer: PreTrainedTokenizerBase) -> None:
    encoder, limits = TextEncoder(tokenizer), Limits()
    print(f"{len(tokenizer):,} tokens; words are {'cached' if encoder.caches_words else 'not cached'}\n")
    columns = ("plain", "new", "warm", "WAE plain", "WAE warm", "CLISM warm")
    print(f"{'language':9}{'examples':>9}{'tokens':>8}" + "".join(f"{name:>12}" for name in columns))
    totals = {"spaced": [0.0] * len(columns), "all": [0.0] * len(columns)}
    languages = {"spaced": 0, "all": 0}

    def plain(text: str) -> object:
        return tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)

    uncached = TextEncoder(tokenizer)
    uncached._words = None
    english = next(NTREX.glob("newstest2019-src.*.txt")).read_text("utf-8").splitlines()
    for path in sorted(NTREX.glob("newstest2019-ref.*.txt")):
        lang = path.suffixes[-2].lstrip(".")
        lines = path.read_text("utf-8").splitlines()
        half = len(lines) // 2
        rows = mrc_rows(lines[half:], spaced=lang not in UNSPACED)
        pairs = clism_rows(english[half:], lines[half:])
        texts = [f"{row['query_text']} {row['context_text']}" for row in rows]
        seconds(encoder.encode, lines[:half])
        figures = [seconds(plain, texts), seconds(encoder.encode, texts), seconds(encoder.encode, texts)]
        figures.append(seconds(lambda row: wae_features(row, uncached, limits), rows))
        figures.append(seconds(lambda row: wae_features(row, encoder, limits), rows))
        seconds(lambda row: clism_features(row, encoder, limits), pairs)
        figures.append(seconds(lambda row: clism_features(row, encoder, limits), pairs))
        tokens = sum(len(encoder.encode(text).ids) for text in texts) / len(texts)
        print(f"{lang:9}{len(texts):9,}{tokens:8.0f}" + "".join(f"{1 / each:12,.0f}" for each in figures))
        for name in ("all",) if lang in UNSPACED else ("spaced", "all"):
            languages[name] += 1
            totals[name] = [total + each for total, each in zip(totals[name], figures, strict=True)]
    for name, total in totals.items():
        mean = "".join(f"{languages[name] / each:12,.0f}" for each in total)
        print(f"{name:26}{mean}")


if __name__ == "__main__":
    main()
