"""Answers against gold word alignments: how often a projected answer is the gold's, and how many answers are lost.

    python -m benchmarks.bench_projection                   # all gold sets, the default and its neighbours
    python -m benchmarks.bench_projection en-hi --grid      # every strictness × min_score × aligner's min_score

Words are the gold's own; the names of the English side come from the built-in tagger. The gold answer of a mention runs
from the first to the last word that gold links (sure ones) join to it, if no word inside is linked to the outside:
otherwise the mention has no gold answer. Columns:

    questions  what the pipeline's own functions ask
    exact      of the questions whose mention has a gold answer: answers equal to it, word by word
    overlap    … answers that share a word with it without being equal
    no gold    questions whose mention has no gold answer, of all questions
    kept       of the mentions with a gold answer: those that are asked and answered exactly
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipelines.aligner import AlignerConfig, train
from pipelines.steps.bitext import expand_bitext, read_bitext
from pipelines.steps.entities import TaggerConfig, load_tagger
from pipelines.steps.masking import MaskingConfig, TokenizedPair, mask_mentions
from pipelines.steps.projection import is_consistent, project, words_of
from pipelines.steps.records import EntityMention, LanguagePair, Link, SentencePair
from pipelines.steps.tokenize import token_texts, tokenizer_for
from schemas.spans import CharSpan, TokenSpan

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
BITEXT = DATA / "bitext"
Words = Sequence[str]
FRENCH_PAIRS = 15_000
FRENCH = {
    "du": ["de", "le"], "des": ["de", "les"], "au": ["à", "le"], "aux": ["à", "les"],
    **{f"{letter}{mark}": [f"{letter}e"] for letter in ("l", "d", "n", "s", "c", "j", "m", "t", "qu") for mark in "'’"},
}  # fmt: skip


class GoldPair(NamedTuple):
    tokenized: TokenizedPair
    sure: list[Link]
    possible: list[Link]  # the sure ones too


# ---------------------------------------------------------------- gold sets


def read_gold(pair: str) -> list[GoldPair]:
    folder = DATA / "alignment" / pair
    sides = [[line.split() for line in read_lines(folder / name)] for name in ("src.txt", "tgt.txt")]
    if not any(word != word.lower() for words in sides[0] for word in words):
        cased = usual_case()
        sides[0] = [[cased.get(word, word) for word in words] for words in sides[0]]
    texts = [" ".join(words) for words in sides[0]]
    mentions = load_tagger(TaggerConfig(), "en").tag(texts)
    found = []
    for number, (source, target, links) in enumerate(zip(*sides, read_lines(folder / "gold.txt"), strict=True)):
        record = SentencePair(str(number), LanguagePair(*pair.split("-")), pair, number + 1, " ".join(source), " ".join(target))
        tokenized = TokenizedPair(record, spans(source), spans(target), mentions[number])
        sure = [Link(int(i), int(j)) for i, j in re.findall(r"(\d+)-(\d+)", links)]
        possible = [Link(int(i), int(j)) for i, j in re.findall(r"(\d+)\?(\d+)", links)]
        found.append(GoldPair(tokenized, sure, sure + possible))
    return found


def usual_case() -> dict[str, str]:
    """How words are mostly written inside a sentence: two gold sets are in lower case, where no tagger finds names."""
    seen: dict[str, Counter[str]] = {}
    paths = [BITEXT / "ntrex128/newstest2019-src.eng.txt", *sorted(BITEXT.glob("tatoeba/*/*.eng"))]
    for path in paths:
        for line in read_lines(path):
            for word in line.split()[1:]:
                word = word.strip(".,;:!?\"'()“”‘’")
                for part in (word, word.removesuffix("'s").removesuffix("’s")):
                    seen.setdefault(part.lower(), Counter())[part] += 1
    return {word: max(forms, key=lambda form: (forms[form], form)) for word, forms in seen.items()}


def spans(words: Words) -> list[CharSpan]:
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    return [CharSpan(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)]


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


# ---------------------------------------------------------------- the aligner


def training_text(pair: str, gold: Sequence[GoldPair]) -> list[tuple[Words, Words]]:
    """Words for the aligner to learn from: the gold sentences, and corpora that can be segmented as they are."""
    corpora = {
        "en-hi": [
            f"{BITEXT}/corpora/joshua.en-hi.tsv.xz@1,2",
            f"{BITEXT}/tico19/all.en-hi.tmx",
            f"{BITEXT}/ntrex128/newstest2019-src.eng.txt,{BITEXT}/ntrex128/newstest2019-ref.hin.txt",
            f"{BITEXT}/tatoeba/eng-hin/*.eng,{BITEXT}/tatoeba/eng-hin/*.hin",
        ],
        "en-fr": [
            f"{BITEXT}/ntrex128/newstest2019-src.eng.txt,{BITEXT}/ntrex128/newstest2019-ref.fra.txt",
            f"{BITEXT}/corpora/bible.en-fr.tsv.xz@1,2",
        ],
    }
    text = [(gold_words(item.tokenized.pair.source_text), gold_words(item.tokenized.pair.target_text)) for item in gold]
    languages = LanguagePair(*pair.split("-"))
    files = expand_bitext(corpora[pair], [languages]) if pair in corpora else []
    limit = {"en-fr": FRENCH_PAIRS}.get(pair)
    records = (record for file in files for record in read_bitext(file) if isinstance(record, SentencePair))
    for record in itertools.islice(records, limit):
        source, target = record.source_text, record.target_text
        text.append((token_texts(source, tokenizer_for("en")(source)), gold_style(target, languages.target)))
    return text


def gold_words(text: str) -> list[str]:
    return text.split(" ")


def gold_style(text: str, lang: str) -> list[str]:
    """A text's words as the gold set has them: the French one writes contractions in full ("de le", "que il")."""
    words = token_texts(text, tokenizer_for(lang)(text))
    return [part for word in words for part in FRENCH.get(word.lower(), [word])] if lang == "fr" else words
