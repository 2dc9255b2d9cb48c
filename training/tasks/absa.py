"""Reads SemEval-2016 task 5, restaurants (Pontiki et al. 2016): opinion targets and polarities in six languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from schemas.errors import InputError
from schemas.mrc import TaggingExample
from schemas.spans import CharSpan
from training.metrics.tags import Entity, entities, iob2, tags_of
from training.tasks.columns import joined, sentences, tags_at, words_alone
from training.tasks.files import FileLedger, FileRecords, LeftOut, lang_in, require_lang, without_labels

LANGS = ("en", "es", "fr", "nl", "ru", "tr")
LABELS = ("NEG", "NEU", "POS")
FLAGGED = {"conflicting_polarity", "overlapping_targets", "target_elsewhere"}
POLARITIES = {"negative": "NEG", "neutral": "NEU", "positive": "POS"}

# Language → the names of the published files, in any case: EN_REST_SB1_TEST.xml.gold and similar, and names of
# training files. The first language that matches counts.
NAMES = {
    "es": r"SP_\w+_SB1_.*|.*Spanish.*",  # SemEval-2016ABSA Restaurants-Spanish_Train_Subtask1.xml
    "fr": r"FR_\w+_SB1_.*|ABSA16FR_.*|.*French.*",  # ABSA16FR_Restaurants_Train-withcontent.xml
    "nl": r"DU_\w+_SB1_.*|.*Dutch.*",  # restaurants_dutch_training.xml
    "ru": r"RU_\w+_SB1_.*|se16_ru_.*|.*Russian.*",  # se16_ru_rest_train.xml
    "tr": r"TU_\w+_SB1_.*|.*Turkish.*",  # TU_REST_SB1_TRAINING.xml
    "ar": r"AR_\w+_SB1_.*|.*Arabic.*",  # hotels
    "en": r"EN_\w+_SB1_.*|ABSA-?1[56]_.*|.*English.*",  # ABSA16_Restaurants_Train_SB1_v2.xml
}

_WORD = re.compile(r"[\w\u0300-\u036f]+|[^\w\s]")


def read(path: Path, lang: str | None = None) -> FileRecords[TaggingExample]:
    """Reads the task's XML (`EN_REST_SB1_TEST.xml.gold`), or words with `T-POS` tags as papers on cross-lingual ABSA
    share them (`gold-en-test.txt`: Zhang et al. 2021; mPMR, A.2). Neighbouring words with the same tag are one
    target."""
    if ".xml" in path.name:
        return _read_xml(path, require_lang(lang, _lang_in(path), path))
    lang = require_lang(lang, lang_in(path, r"gold-(?P<lang>\w\w)-\w+\.txt"), path)
    file_sentences = list(sentences(path))
    examples, ledger, unlabelled = [], FileLedger(), words_alone(file_sentences)
    for sentence in file_sentences:
        tags = [] if unlabelled else tags_at(path, sentence, 1, LABELS)
        ledger.add(lang, len(entities(tags)))
        text, tokens = joined([row[0] for row in sentence.rows])
        examples.append(TaggingExample(f"{path.name}:{sentence.line}", lang, text, tokens, iob2(tags), "absa"))
    return examples, without_labels(examples if unlabelled else ()), ledger


def _lang_in(path: Path) -> str | None:
    return next((lang for lang, names in NAMES.items() if re.fullmatch(names, path.name, re.IGNORECASE)), None)


def _read_xml(path: Path, lang: str) -> FileRecords[TaggingExample]:
    """Finds targets by their offsets: the published text of a target may differ in case from the sentence, as in the
    Dutch files. Splits words at the edges of targets, so that no target is lost.

    Every opinion is a label. Opinions are left out if their target is NULL and not in the text (`null_target`), if
    target and polarity repeat under another category (`repeated_target`), or for `conflicting_polarity`,
    `overlapping_targets` (the first or longer one stays) and `target_elsewhere` (the sentence has another text at the
    offsets). Sentences are left out with their opinions if they are `out_of_scope` or have `empty_text`. The last three
    reasons for opinions are flags too. A file without any opinion is unlabelled.
    """
    examples: list[TaggingExample] = []
    flags: dict[str, list[str]] = {}
    ledger = FileLedger()
    file_sentences = list(_sentences(path))
    if file_sentences and all(sentence.skipped == "empty_text" for sentence in file_sentences):
        raise InputError(
            f"{path}: no sentence has a text. The French files are published so: run ABSA16FR-download.jar, which "
            "comes with them, and give the file that it makes, …-withcontent.xml"
        )
    for sentence in file_sentences:
        place = ledger.add(lang, len(sentence.targets))
        targets, lost = _sorted_out(sentence)
        if sentence.skipped:
            excerpt = sentence.text.strip() or f"{len(sentence.targets)} opinions"
            ledger.left_out.append(LeftOut(sentence.skipped, "record", lang, sentence.id, place, excerpt))
        for reason, target in lost:
            excerpt = f"{target.text!r} ({target.polarity}) at {target.start} to {target.end} ⟵ {sentence.text}"
            ledger.left_out.append(LeftOut(reason, "label", lang, sentence.id, place, excerpt))
        for reason in sorted({reason for reason, _ in lost} & FLAGGED):
            flags.setdefault(reason, []).append(sentence.id)
        if not sentence.skipped:
            examples.append(_example(sentence, targets, lang))
    if not any(sentence.targets for sentence in file_sentences):
        examples = [replace(example, tags=()) for example in examples]
        flags = without_labels(examples)
    return examples, flags, ledger


def _example(sentence: _Sentence, targets: Sequence[Entity], lang: str) -> TaggingExample:
    """Makes the record of a sentence. `targets` are spans of characters."""
    tokens = tuple(_words(sentence.text, {edge for target in targets for edge in target[:2]}))
    starts = {span.start: index for index, span in enumerate(tokens)}
    ends = {span.end: index + 1 for index, span in enumerate(tokens)}
    chunks = [Entity(starts[start], ends[end], kind) for start, end, kind in targets]
    return TaggingExample(sentence.id, lang, sentence.text, tokens, tags_of(chunks, len(tokens)), "absa")


def _sorted_out(sentence: _Sentence) -> tuple[list[Entity], list[tuple[str, _Target]]]:
    """Returns the targets that stay, as spans of characters, and the others with a reason."""
    targets: list[Entity] = []
    lost: list[tuple[str, _Target]] = []
    for target in sorted(sentence.targets, key=lambda target: (target.start, -target.end)):
        text = sentence.text[target.start : target.end]
        start, end = target.end - len(text.lstrip()), target.start + len(text.rstrip())
        if sentence.skipped:
            lost.append((sentence.skipped, target))
        elif target.text == "NULL":
            lost.append(("null_target", target))
        elif target.start < 0 or start >= end or _without_case(text) != _without_case(target.text):
            lost.append(("target_elsewhere", target))
        elif not targets or start >= targets[-1].end:
            targets.append(Entity(start, end, target.polarity))
        elif (start, end) != targets[-1][:2]:
            lost.append(("overlapping_targets", target))
        elif target.polarity != targets[-1].type:
            lost.append(("conflicting_polarity", target))
        else:
            lost.append(("repeated_target", target))
    return targets, lost


def _without_case(text: str) -> str:
    """Returns a text that is equal for texts that differ only in case, also in Turkish, which has ı and İ."""
    return text.casefold().replace("\u0307", "").replace("ı", "i")


def _words(text: str, edges: set[int]) -> Iterator[CharSpan]:
    for match in _WORD.finditer(text):
        cuts = [
            match.start(),
            *(offset for offset in range(match.start() + 1, match.end()) if offset in edges),
            match.end(),
        ]
        yield from map(CharSpan, cuts, cuts[1:])


class _Target(NamedTuple):
    start: int
    end: int
    text: str
    polarity: str


class _Sentence(NamedTuple):
    id: str
    text: str
    targets: list[_Target]  # of all opinions, NULL included
    skipped: str  # the reason to leave the sentence out, or ""


def _sentences(path: Path) -> Iterator[_Sentence]:
    id_, text, targets, skipped = "", "", list[_Target](), ""
    for line, name, attributes, content in _elements(path):
        try:
            if name == "sentence":
                id_, text, targets = attributes["id"], "", []
                skipped = "out_of_scope" if attributes.get("OutOfScope", "").upper() == "TRUE" else ""
            elif name == "text":
                text = content
            elif name == "Opinion":
                named = attributes["target"] != "NULL"  # the offsets of the others say nothing
                start, end = (int(attributes["from"]), int(attributes["to"])) if named else (0, 0)
                targets.append(_Target(start, end, attributes["target"], POLARITIES[attributes["polarity"]]))
            elif name == "/sentence":
                yield _Sentence(id_, text, targets, skipped or ("" if text.strip() else "empty_text"))
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{path}:{line}: {name}: expected other attributes than {attributes} ({error!r})"
            ) from None


def _elements(path: Path) -> list[tuple[int, str, dict[str, str], str]]:
    """Returns line, name, attributes and text of each element, in the order of their starts; `/name` at its end."""
    elements: list[tuple[int, str, dict[str, str], list[str]]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: elements.append(
        (parser.CurrentLineNumber, name, attributes, [])
    )
    parser.EndElementHandler = lambda name: elements.append((parser.CurrentLineNumber, f"/{name}", {}, []))
    parser.CharacterDataHandler = lambda content: elements[-1][3].append(content)
    try:
        parser.Parse(path.read_bytes(), True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except expat.ExpatError as error:
        raise InputError(f"{path}:{error.lineno}: not XML ({expat.ErrorString(error.code)})") from None
    return [(line, name, attributes, "".join(content)) for line, name, attributes, content in elements]
