"""Answers and tags that `translate` projects, against gold.

    python -m benchmarks.bench_translated_labels            # in the trainer's environment; two minutes on one core

Universal NER's PUD test sets are one text in several languages, each annotated by hand. The English tags are projected
onto the human translation as `translate` does, with the words of `predict` and an aligner that learns from PUD itself
and from NTREX, and compared with the tags of that language. A name that annotators see in one language alone, or give
another type, counts as an error. A sentence is labelled if all its English names could be projected.

    labelled    share of the sentences whose labels are not unknown
    precision   projected names that equal a name of the gold: type, first and last letter
    recall      names of the gold in labelled sentences that are found
    F1          of these two; then for the half of the labelled sentences with the highest scores
    edges       of the projected names that overlap a name of the gold, those with its first and last letter

XQuAD's English answers are projected onto the human translations of their contexts in the same way, a context as one
sentence, and compared with the answers of that language.

    exact       projected answers that equal the published one
    overlap     … that have a letter in common with it
    best half   `exact` among the half with the highest scores
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.mrc import MrcExample, TaggingExample
from training.inference.json_requests import words_of
from training.inference.projection import Labels, WordsOfText, projected_answers, projected_tags, train_aligner
from training.metrics.tags import entities
from training.tasks.records import read_records

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
QUESTIONS = {"de": "deu", "es": "spa", "hi": "hin", "vi": "vie", "zh": "zho-CN"}
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


def questions(lang: str) -> list[MrcExample]:
    return read_records([DATA / f"qa/xquad/xquad.{lang}.json"], "xquad").records  # type: ignore[return-value]


def answers(lang: str, file: str) -> str:
    """Returns the row of one language pair."""
    both = list(zip(questions("en"), questions(lang), strict=True))
    assert all(source.id == target.id for source, target in both)
    texts = dict.fromkeys((getattr(s, name), getattr(t, name)) for s, t in both for name in ("context", "query"))
    words = {pair: WordsOfText([words_of(pair[0])], [words_of(pair[1])]) for pair in texts}
    sentences = {pair: each.sentences(*pair)[0] for pair, each in words.items()}
    aligner = train_aligner([*sentences.values(), *news(file)])
    links = dict(zip(sentences, aligner.links(list(sentences.values())), strict=True))
    found = []
    for source, target in both:
        pair = source.context, target.context
        labels = projected_answers(source, words[pair], words[pair].links([links[pair]]))
        if labels.score is not None:
            (start, end), gold = labels.answers[0], target.answers[0]
            found.append((-labels.score, (start, end) == gold, start < gold.end and gold.start < end))
    exact = [right for _, right, _ in sorted(found, key=lambda each: each[0])]
    best = exact[: len(exact) // 2]
    overlap = sum(overlaps for _, _, overlaps in found)
    figures = (len(found) / len(both), sum(exact) / len(exact), overlap / len(found), sum(best) / len(best))
    return " | ".join((f"| en-{lang}", *(f"{figure:.1%}" for figure in figures))) + " |"


if __name__ == "__main__":
    accuracy()
    print("\n| pair | labelled | exact | overlap | best half |\n| --- | --- | --- | --- | --- |")
    for lang, file in QUESTIONS.items():
        print(answers(lang, file))
