"""How well, and how fast, the built-in English tagger finds names, beside spaCy pipelines trained here.

    python benchmarks/bench_entities.py [--data ../shared/data] [--epochs 15]

Figures are span precision, recall and F1 with exact boundaries and types ignored, on the English test sets of Universal
NER (PUD: news and Wikipedia; EWT: web text), whose PER, LOC and ORG are compared with PERSON, ORG, GPE, LOC and FAC.
The spaCy pipelines are blank English with hash embeddings and a transition-based NER, trained on one core with a fixed
seed. Universal NER's English folder here holds no training part: EWT's dev part serves as one. WNUT-17's corporation
and group count as ORG; its products and creative works are left out. `en_core_web_sm` is scored if it is installed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from pipelines.steps.ner.config import TaggerConfig  # noqa: E402
from pipelines.steps.ner.taggers import TAGGERS, EntityTagger, load_tagger  # noqa: E402
from schemas.errors import ConfigError  # noqa: E402

NAMES = frozenset(("PERSON", "ORG", "GPE", "LOC", "FAC", "PER"))
WNUT_LABELS = {"person": "PERSON", "location": "LOC", "corporation": "ORG", "group": "ORG"}


class Sentence(NamedTuple):
    text: str
    entities: list[tuple[int, int, str]]  # code points, half-open


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float


# ---------------------------------------------------------------- data


def locate(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the span of each word in `text`. White space may differ: inside words, between them, or be missing."""
    places, end = [], 0
    for word in words:
        while end < len(text) and text[end].isspace():
            end += 1
        start = end
        for char in filter(lambda char: not char.isspace(), word):
            while end < len(text) and text[end].isspace():
                end += 1
            if end == len(text) or text[end] != char:
                raise ValueError(f"expected {word!r} at {start}, found {text[start : start + 20]!r} in {text!r}")
            end += 1
        places.append((start, end))
    return places


def decode(text: str, words: Sequence[str], tags: Sequence[str]) -> Sentence:
    """Converts IOB2 tags to character spans. An I without its B begins a span, as the official scorers read it."""
    entities: list[tuple[int, int, str]] = []
    previous = "O"
    for (start, end), tag in zip(locate(text, words), tags, strict=True):
        if tag[0] == "B" or (tag[0] == "I" and previous[2:] != tag[2:]):
            entities.append((start, end, tag[2:]))
        elif tag[0] == "I":
            entities[-1] = (entities[-1][0], end, tag[2:])
        previous = tag
    return Sentence(text, entities)


def blocks(path: Path) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        if line.strip():
            lines.append(line)
        elif lines:
            yield lines
            lines = []


def read_uner(path: Path) -> list[Sentence]:
    """Universal NER: `# text = …`, then number, word, tag and two more columns."""
    sentences = []
    for lines in blocks(path):
        text = next(line.split("=", 1)[1].strip() for line in lines if line.startswith("# text"))
        rows = [line.split("\t") for line in lines if line[0] != "#"]
        sentences.append(decode(text, [row[1] for row in rows], [row[2] for row in rows]))
    return sentences


def read_wnut(path: Path) -> list[Sentence]:
    """WNUT-17: word and tag. There is no text; words joined by blanks replace it."""
    sentences = []
    for lines in blocks(path):
        rows = [line.split("\t") for line in lines]
        words = [row[0] for row in rows]
        tags = [row[1][:2] + WNUT_LABELS[row[1][2:]] if row[1][2:] in WNUT_LABELS else "O" for row in rows]
        sentences.append(decode(" ".join(words), words, tags))
    return sentences


# ---------------------------------------------------------------- models and scores


def train_spacy(sentences: Iterable[Sentence], epochs: int, folder: Path) -> TaggerConfig:
    """A blank English NER pipeline, saved in `folder`."""
    import spacy
    from spacy.training import Example
    from spacy.util import minibatch
    from thinc.api import compounding, fix_random_seed

    fix_random_seed(1)
    shuffle = random.Random(1).shuffle
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = []
    for sentence in sentences:
        doc = nlp.make_doc(sentence.text)
        # A gold boundary inside a spaCy token cannot be learned: the entity takes the whole token.
        gold = [doc.char_span(start, end, label, alignment_mode="expand") for start, end, label in sentence.entities]
        reference = doc.copy()
        reference.set_ents(spacy.util.filter_spans([span for span in gold if span is not None]))
        examples.append(Example(doc, reference))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(epochs):
        shuffle(examples)
        for batch in minibatch(examples, compounding(8.0, 64.0, 1.005)):  # type: ignore[no-untyped-call]
            nlp.update(batch, drop=0.2, sgd=optimizer)
    folder.parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(folder)
    return TaggerConfig(str(folder))


def score(gold: Iterable[Sentence], tagged: Iterable[Iterable[tuple[int, int]]]) -> Score:
    right = found = expected = 0
    for sentence, spans in zip(gold, map(set, tagged), strict=True):
        wanted = {(start, end) for start, end, _ in sentence.entities}
        right, found, expected = right + len(wanted & spans), found + len(spans), expected + len(wanted)
    precision, recall = right / max(1, found), right / max(1, expected)
    return Score(precision, recall, 2 * precision * recall / max(1e-9, precision + recall))


def measure(tagger: EntityTagger, sentences: Sequence[Sentence]) -> tuple[Score, float]:
    """Returns the score, and sentences per second of the best of three passes."""
    texts = [sentence.text for sentence in sentences]
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        tagged = tagger.tag(texts)
        seconds.append(time.perf_counter() - began)
    spans = [
        [(mention.span.start, mention.span.end) for mention in mentions if mention.label in NAMES]
        for mentions in tagged
    ]
    return score(sentences, spans), len(texts) / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--models", type=Path, default=None, help="keep the trained pipelines in this folder")
    args = parser.parse_args()
    ner = args.data / "ner"
    if not ner.is_dir():
        sys.exit(f"{ner}: not there. Say where the named-entity sets are with --data.")
    tests = {
        "PUD test": read_uner(ner / "UNER_English-PUD" / "en_pud-ud-test.iob2"),
        "EWT test": read_uner(ner / "UNER_English-EWT" / "en_ewt-ud-test.iob2"),
    }
    ewt = read_uner(ner / "UNER_English-EWT" / "en_ewt-ud-dev.iob2")
    wnut = read_wnut(ner / "wnut17" / "wnut17train.conll")

    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        models = args.models or Path(scratch)
        taggers = {name: TaggerConfig(name) for name in TAGGERS}
        for name, sentences in (("EWT dev", ewt), ("WNUT-17 train", wnut), ("EWT dev + WNUT-17", [*ewt, *wnut])):
            began = time.perf_counter()
            config = train_spacy(sentences, args.epochs, models / name.replace(" ", "_"))
            print(
                f"trained spaCy on {name}: {len(sentences)} sentences, {time.perf_counter() - began:.0f} s",
                file=sys.stderr,
            )
            taggers[f"spaCy, {name}"] = config
        taggers["en_core_web_sm"] = TaggerConfig("en_core_web_sm")

        sizes = ", ".join(
            f"{name} {len(data)} sentences, {sum(len(s.entities) for s in data)} names" for name, data in tests.items()
        )
        print(f"span F1, types ignored | {sizes}\n")
        print(f"{'tagger':26}" + "".join(f"{name:>12}: P     R    F1  sent/s" for name in tests))
        for name, config in taggers.items():
            try:
                tagger = load_tagger(config, "en")
            except ConfigError:
                print(f"{name:26} (not installed)")
                continue
            row = f"{name:26}"
            for sentences in tests.values():
                result, speed = measure(tagger, sentences)
                row += f"{result.precision:>15.3f} {result.recall:.3f} {result.f1:.3f} {speed:>7,.0f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
