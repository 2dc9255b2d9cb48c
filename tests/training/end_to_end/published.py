"""Files of each task in the layouts in which they are published: who lives where, in many languages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.sax.saxutils import quoteattr

PEOPLE = ("Anna Ek", "Bao", "Chidi", "Dina", "Zoë", "Farah")
PLACES = ("Hanoi", "New York", "Cairo", "Oslo", "Lima", "Pune")
SENTENCES = {
    "ar": "👍 تسكن {person} في {place} .",
    "de": "{person} wohnt in {place} .",
    "en": "{person} lives in {place} .",
    "es": "{person} vive en {place} .",
    "fi": "{person} asuu : {place} .",
    "fr": "👩‍👩‍👧 {person} habite à {place} .",
    "hi": "{person} {place} में रहती है ।",
    "th": "{person} อยู่ ที่ {place} .",
    "zh": "{person} 住 在 {place} 。",
}
QUESTIONS = {"de": "Wo wohnt {person}?", "es": "¿Dónde vive {person}?", "th": "{person} อยู่ที่ไหน"}


class Files(NamedTuple):
    """What a task has for training, as it is downloaded, and for evaluation; and the rows that a table has then."""

    train: Sequence[Path]
    gold: Sequence[Path]
    rows: Sequence[str]
    labels: Sequence[Path] = ()  # where XTREME keeps them apart
    averages: Sequence[str] = ("avg",)


def written(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(encoding))
    return path


# --- questions --------------------------------------------------------------------------------------------------------


def squad(path: Path, lang: str, asked_in: str = "en", blank: bool = False, name: str = "q") -> Path:
    """Questions about the second of two sentences. `blank`: without the answers, as XTREME's test files."""
    paragraphs: list[dict[str, Any]] = []
    for at, (person, place) in enumerate(zip(PEOPLE, PLACES, strict=True)):
        first = SENTENCES[lang].format(person=PEOPLE[at - 1], place=PLACES[at - 2])
        context = f"{first} {SENTENCES[lang].format(person=person, place=place)}"
        answer: dict[str, Any] = {"text": place, "answer_start": context.rindex(place)}
        if blank:
            answer = {"text": "", "answer_start": 0}
        question = QUESTIONS.get(asked_in, "Where is {person}?").format(person=person)
        paragraphs.append(
            {"context": context, "qas": [{"id": f"{name}-{at}", "question": question, "answers": [answer]}]}
        )
    document = {"version": "1.1", "data": [{"title": lang, "paragraphs": paragraphs}]}
    return written(path, json.dumps(document, ensure_ascii=False))


def squad_files(folder: Path) -> Files:
    train = [squad(folder / "train-v1.1.json", "en"), squad(folder / "squad.translate.train.en-de.json", "de", "de")]
    return Files(train, [squad(folder / "dev-v1.1.json", "en")], ["en"], averages=[])


def xquad_files(folder: Path) -> Files:
    gold = [squad(folder / f"xquad.{lang}.json", lang, lang) for lang in ("th", "de")]
    return Files([squad(folder / "xquad.en.json", "en")], gold, ["de", "th"])


def mlqa_files(folder: Path) -> Files:
    pairs = [("en", "de"), ("de", "de"), ("es", "es")]
    gold = [squad(folder / f"test/test-context-{c}-question-{q}.json", c, q) for c, q in pairs]
    train = squad(folder / "dev/dev-context-en-question-en.json", "en")
    return Files([train], gold, ["en-de", "de", "es"], averages=["XLT", "G-XLT"])


def tydiqa_files(folder: Path) -> Files:
    train = squad(folder / "tydiqa-goldp-v1.1-train.json", "fi", name="finnish")  # the ids say the language
    gold = [squad(folder / f"tydiqa.goldp.{lang}.dev.json", lang, blank=True) for lang in ("en", "ar")]
    labels = [squad(folder / f"labels/test-{lang}.json", lang) for lang in ("en", "ar")]
    return Files([train], gold, ["en", "ar"], labels)


# --- tagging ----------------------------------------------------------------------------------------------------------

Tagged = list[tuple[str, str]]  # words with IOB2 tags


def tagged(lang: str) -> list[Tagged]:
    sentences = []
    for person, place in zip(PEOPLE, PLACES, strict=True):
        words: Tagged = []
        for part in SENTENCES[lang].split(" "):
            text, label = {"{person}": (person, "PER"), "{place}": (place, "LOC")}.get(part, (part, ""))
            names = text.split(" ")
            tags = [f"B-{label}", *[f"I-{label}"] * (len(names) - 1)] if label else ["O"]
            words += zip(names, tags, strict=True)
        sentences.append(words)
    return sentences


def columns(sentences: list[Tagged], line: Callable[[int, str, str], str]) -> str:
    return "\n".join("".join(line(at, *each) + "\n" for at, each in enumerate(words, 1)) for words in sentences)


def wikiann_files(folder: Path) -> Files:
    """The authors' training file; XTREME's test file without tags and its label file; the authors' test file."""
    train = written(folder / "en/train", columns(tagged("en"), lambda at, word, tag: f"en:{word}\t{tag}"))
    german = written(folder / "panx/test-de.tsv", columns(tagged("de"), lambda at, word, tag: word))
    labels = written(folder / "labels/test-de.tsv", columns(tagged("de"), lambda at, word, tag: tag))
    chinese = written(folder / "zh/test", columns(tagged("zh"), lambda at, word, tag: f"zh:{word}\t{tag}"))
    return Files([train], [german, chinese], ["de", "zh"], [labels, chinese])


def conll_files(folder: Path) -> Files:
    """2003's English and German in IOB1 with columns between, the latter in ISO 8859-1; 2002's Spanish in IOB2."""

    def iob1(at: int, word: str, tag: str) -> str:
        return f"{word} NN I-NP {tag.replace('B-', 'I-')}"

    start = "-DOCSTART- -X- -X- O\n\n"
    german = columns(tagged("de"), lambda at, word, tag: f"{word} {word} NN I-NC {tag.replace('B-', 'I-')}")
    return Files(
        [written(folder / "eng.train", start + columns(tagged("en"), iob1))],
        [
            written(folder / "deu.testa", "-DOCSTART- -X- -X- -X- O\n\n" + german, "iso-8859-1"),
            written(folder / "esp.testb", columns(tagged("es"), lambda at, word, tag: f"{word} {tag}")),
        ],
        ["de", "es"],
    )


def universal_ner_files(folder: Path) -> Files:
    def treebank(name: str, lang: str) -> Path:
        content = "".join(
            f"# sent_id = {name}-{at}\n# text = {' '.join(word for word, _ in words).replace(' .', '.')}\n"
            + columns([words], lambda at, word, tag: f"{at}\t{word}\t{tag}\t-\t-")
            + "\n"
            for at, words in enumerate(tagged(lang))
        )
        return written(folder / name, content)

    gold = [treebank("zh_gsd-ud-test.iob2", "zh"), treebank("de_pud-ud-test.iob2", "de")]
    return Files([treebank("en_ewt-ud-train.iob2", "en")], gold, ["de_pud", "zh_gsd"])


def absa_files(folder: Path) -> Files:
    """SemEval's XML, and the words with tags that papers share. Who is good, where is bad."""
    xml = ['<?xml version="1.0" encoding="UTF-8"?>\n<Reviews><Review rid="1"><sentences>']
    for at, (person, place) in enumerate(zip(PEOPLE, PLACES, strict=True)):
        text = SENTENCES["fr"].format(person=person, place=place)
        xml.append(f'<sentence id="1:{at}"><text>{text}</text><Opinions>')
        for target, polarity in ((person, "positive"), (place, "negative")):
            start = text.index(target)
            edges = f'from="{start}" to="{start + len(target)}"'
            xml.append(f'<Opinion target={quoteattr(target)} category="X#Y" polarity="{polarity}" {edges}/>')
        xml.append("</Opinions></sentence>")
    content = "\n".join([*xml, "</sentences></Review></Reviews>\n"])
    sentiments = {"O": "O", "PER": "T-POS", "LOC": "T-NEG"}

    def token(at: int, word: str, tag: str) -> str:
        return f"{word}\t{sentiments[tag[-3:]]}\tX#Y"

    return Files(
        [written(folder / "EN_REST_SB1_TRAIN.xml", content)],
        [
            written(folder / "gold-es-test.txt", columns(tagged("es"), token)),
            written(folder / "FR_REST_SB1_TEST.xml.gold", content),
        ],
        ["es", "fr"],
    )


# --- pairs ------------------------------------------------------------------------------------------------------------


def pairs(lang: str, labels: Sequence[str]) -> list[tuple[str, str, str]]:
    """The same is the first label, another place the second, another person the third."""
    found = []
    for at, (person, place) in enumerate(zip(PEOPLE, PLACES, strict=True)):
        kind = at % len(labels)
        other = SENTENCES[lang].format(
            person=PEOPLE[at - 1] if kind == 2 else person, place=PLACES[at - 1] if kind == 1 else place
        )
        found.append((SENTENCES[lang].format(person=person, place=place), other, labels[kind]))
    return found


def paws_x_files(folder: Path) -> Files:
    """The authors' files with a header, in CR LF; XTREME's, without labels, which stand in a file of their own."""

    def theirs(lang: str, name: str) -> Path:
        lines = [f"{at}\t{first}\t{second}\t{label}" for at, (first, second, label) in enumerate(pairs(lang, "10"), 1)]
        path = folder / "x-final" / lang / name
        return written(path, "\r\n".join(["id\tsentence1\tsentence2\tlabel", *lines, ""]))

    french = pairs("fr", "10")
    xtreme = written(folder / "test-fr.tsv", "".join(f"{first}\t{second}\r\n" for first, second, _ in french))
    labels = written(folder / "labels/test-fr.tsv", "".join(f"{label}\n" for *_, label in french))
    german = theirs("de", "test_2k.tsv")
    return Files([theirs("en", "translated_train.tsv")], [german, xtreme], ["de", "fr"], [german, labels])


def xnli_files(folder: Path) -> Files:
    """MultiNLI's translation; the authors' test file, all of whose languages are in one; XTREME's without labels."""
    labels = ("entailment", "contradictory", "neutral")
    train = [f"{first}\t{second}\t{label}\n" for first, second, label in pairs("en", labels)]
    names = ("entailment", "contradiction", "neutral")
    test = [
        f"{lang}\t{label}\t{first}\t{second}\t{at}\n"
        for lang in ("zh", "ar")
        for at, (first, second, label) in enumerate(pairs(lang, names))
    ]
    german = pairs("de", names)
    xnli = written(folder / "xnli.test.tsv", "language\tgold_label\tsentence1\tsentence2\tpairID\n" + "".join(test))
    return Files(
        [written(folder / "multinli.train.en.tsv", "premise\thypo\tlabel\n" + "".join(train))],
        [xnli, written(folder / "test-de.tsv", "".join(f"{first}\t{second}\n" for first, second, _ in german))],
        ["ar", "de", "zh"],
        [xnli, written(folder / "labels/test-de.tsv", "".join(f"{label}\n" for *_, label in german))],
    )


class Published(NamedTuple):
    kind: Literal["qa", "tagging", "pairs"]
    files: Callable[[Path], Files]
    figures: tuple[str, ...]


_QA, _TAGGING = ("exact_match", "f1"), ("f1", "precision", "recall")
PUBLISHED = {
    "squad": Published("qa", squad_files, _QA),
    "xquad": Published("qa", xquad_files, _QA),
    "mlqa": Published("qa", mlqa_files, _QA),
    "tydiqa": Published("qa", tydiqa_files, _QA),
    "wikiann": Published("tagging", wikiann_files, _TAGGING),
    "conll": Published("tagging", conll_files, _TAGGING),
    "universal_ner": Published("tagging", universal_ner_files, _TAGGING),
    "absa": Published("tagging", absa_files, _TAGGING),
    "paws_x": Published("pairs", paws_x_files, ("accuracy",)),
    "xnli": Published("pairs", xnli_files, ("accuracy",)),
}
