"""Tags that `translate` projects, against gold.

    python -m benchmarks.bench_translated_labels            # in the trainer's environment; half a minute on one core

Universal NER's PUD test sets are one text in several languages, each annotated by hand. The English tags are projected
onto the human translation as `translate` does, with the words of `predict` and an aligner that learns from PUD itself
and from NTREX, and compared with the tags of that language. A name that annotators see in one language alone, or give
another type, counts as an error. A sentence is labelled if all its English names could be projected.

    labelled    share of the sentences whose labels are not unknown
    precision   projected names that equal a name of the gold: type, first and last letter
    recall      names of the gold in labelled sentences that are found
    F1          of these two; then for the half of the labelled sentences with the highest scores
    edges       of the projected names that overlap a name of the gold, those with its first and last letter
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.mrc import TaggingExample
from training.inference.json_requests import words_of
from training.inference.projection import Labels, WordsOfText, projected_tags, train_aligner
from training.metrics.tags import entities
from training.tasks.records import read_records

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
TREEBANKS = {"de": ("German", "deu"), "pt": ("Portuguese", "por")}


class Names(NamedTuple):
    """The names of one sentence: first and last letter, and type."""

    gold: set[tuple[int, int, str]]
    found: set[tuple[int, int, str]]
    labels: Labels


def treebank(language: str, lang: str) -> list[TaggingExample]:
    path = DATA / f"ner/UNER_{language}-PUD/{lang}_pud-ud-test.iob2"
    return read_records([path], "universal_ner").records  # type: ignore[return-value]


def names_of(example: TaggingExample, tags: Sequence[str]) -> set[tuple[int, int, str]]:
    return {(example.tokens[start].start, example.tokens[end - 1].end, type_) for start, end, type_ in entities(tags)}


def projected(lang: str) -> list[Names]:
    language, file = TREEBANKS[lang]
    english, other = treebank("English", "en"), treebank(language, lang)
    both = list(zip(english, other, strict=True))
    assert all(source.id == target.id for source, target in both)
    words = [WordsOfText([source.tokens], [words_of(target.text)]) for source, target in both]
    pairs = [each.sentences(s.text, t.text)[0] for each, (s, t) in zip(words, both, strict=True)]
    aligner = train_aligner([*pairs, *news(file)])
    links = aligner.links(pairs)
    result = []
    for each, of_sentence, (source, target) in zip(words, links, both, strict=True):
        labels = projected_tags(source, each, each.links([of_sentence]))
        translation = TaggingExample(target.id, lang, target.text, tuple(each.target_words), labels.tags, "")
        result.append(Names(names_of(target, target.tags), names_of(translation, labels.tags), labels))
    return result


def news(file: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    folder = DATA / "bitext/ntrex128"
    sides = [
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("newstest2019-src.eng.txt", f"newstest2019-ref.{file}.txt")
    ]

    def words(text: str) -> tuple[str, ...]:
        return tuple(span.of(text) for span in words_of(text))

    return [(words(source), words(target)) for source, target in zip(*sides, strict=True)]


def row(name: str, sentences: Sequence[Names], total: int) -> str:
    found = sum(len(each.found) for each in sentences)
    gold = sum(len(each.gold) for each in sentences)
    right = sum(len(each.found & each.gold) for each in sentences)
    precision, recall = right / found, right / gold
    f1 = 2 * precision * recall / (precision + recall)
    overlapping = same = 0
    for each in sentences:
        for start, end, _ in each.found:
            others = [name[:2] for name in each.gold if name[0] < end and start < name[1]]
            overlapping, same = overlapping + bool(others), same + ((start, end) in others)
    figures = (len(sentences) / total, precision, recall, f1, same / overlapping)
    return " | ".join((f"| {name}", *(f"{figure:.1%}" for figure in figures))) + " |"


def accuracy() -> None:
    print("| pair | labelled | precision | recall | F1 | edges |\n| --- | --- | --- | --- | --- | --- |")
    for lang in TREEBANKS:
        sentences = projected(lang)
        labelled = [each for each in sentences if each.labels.labels == "projected"]
        ranked = sorted((each for each in labelled if each.found), key=lambda each: -(each.labels.score or 0))
        print(row(f"en-{lang}", labelled, len(sentences)))
        print(row(f"en-{lang}, best half with names", ranked[: len(ranked) // 2], len(sentences)))


if __name__ == "__main__":
    accuracy()
