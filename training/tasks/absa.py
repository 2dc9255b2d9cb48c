"""SemEval-2016 task 5, restaurants (Pontiki et al. 2016): opinion targets and their polarity, in six languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from schemas.mrc import TaggingExample
from schemas.spans import CharSpan
from training.errors import InputError
from training.tasks.columns import joined, sentences, tags_at
from training.tasks.files import Flags, known, lang_in
from training.tasks.tags import Entity, iob2, tags_of

LANGS = ("en", "es", "fr", "nl", "ru", "tr")
LABELS = ("NEG", "NEU", "POS")
CODES = {"EN": "en", "SP": "es", "FR": "fr", "DU": "nl", "RU": "ru", "TU": "tr"}
POLARITIES = {"negative": "NEG", "neutral": "NEU", "positive": "POS"}

_WORD = re.compile(r"[\w\u0300-\u036f]+|[^\w\s]")


def read(path: Path, lang: str | None = None) -> tuple[list[TaggingExample], Flags]:
    """The task's XML (`EN_REST_SB1_TEST.xml.gold`), or the words with `T-POS` tags that papers on cross-lingual ABSA
    share (`gold-en-test.txt`: Zhang et al. 2021; mPMR, A.2): neighbouring words with the same tag are one target."""
    if ".xml" in path.name:
        named = lang_in(path, r"(?P<lang>EN|SP|FR|DU|RU|TU)_REST_.*", names=CODES)
        return _read_xml(path, known(lang, named, path))
    lang = known(lang, lang_in(path, r"gold-(?P<lang>\w\w)-\w+\.txt"), path)
    examples = []
    for sentence in sentences(path):
        text, tokens = joined([row[0] for row in sentence.rows])
        tags = iob2(tags_at(path, sentence, 1))
        examples.append(TaggingExample(f"{path.name}:{sentence.line}", lang, text, tokens, tags, "absa"))
    return examples, {}


def _read_xml(path: Path, lang: str) -> tuple[list[TaggingExample], Flags]:
    """Targets NULL are not in the text and are left out, as are sentences marked out of scope.

    Words are cut at the targets' edges, so that none is lost. Flags: `target_elsewhere` (the text holds something else
    at the published offsets), `conflicting_polarity`, `overlapping_targets` (what begins first, or is longer, stays).
    """
    examples: list[TaggingExample] = []
    flags: dict[str, list[str]] = {}
    for sentence in _sentences(path):
        targets: list[Entity] = []
        reasons = set()
        for target in sorted(sentence.targets, key=lambda each: (each.start, -each.end)):
            text = sentence.text[target.start : target.end]
            start, end = target.end - len(text.lstrip()), target.start + len(text.rstrip())
            if text != target.text or start >= end:
                reasons.add("target_elsewhere")
            elif not targets or start >= targets[-1].end:
                targets.append(Entity(start, end, target.polarity))
            elif (start, end) != targets[-1][:2]:
                reasons.add("overlapping_targets")
            elif target.polarity != targets[-1].type:
                reasons.add("conflicting_polarity")
        tokens = tuple(_words(sentence.text, {edge for target in targets for edge in target[:2]}))
        starts = {span.start: at for at, span in enumerate(tokens)}
        ends = {span.end: at + 1 for at, span in enumerate(tokens)}
        found = [Entity(starts[start], ends[end], kind) for start, end, kind in targets]
        for reason in sorted(reasons):
            flags.setdefault(reason, []).append(sentence.id)
        tags = tags_of(found, len(tokens))
        examples.append(TaggingExample(sentence.id, lang, sentence.text, tokens, tags, "absa"))
    return examples, flags


def _words(text: str, edges: set[int]) -> Iterator[CharSpan]:
    for match in _WORD.finditer(text):
        cuts = [match.start(), *(at for at in range(match.start() + 1, match.end()) if at in edges), match.end()]
        yield from map(CharSpan, cuts, cuts[1:])


class _Target(NamedTuple):
    start: int
    end: int
    text: str
    polarity: str


class _Sentence(NamedTuple):
    id: str
    text: str
    targets: list[_Target]


def _sentences(path: Path) -> Iterator[_Sentence]:
    id_, text, targets, skipped = "", "", list[_Target](), False
    for line, name, attributes, content in _elements(path):
        try:
            if name == "sentence":
                id_, text, targets = attributes["id"], "", []
                skipped = attributes.get("OutOfScope", "").upper() == "TRUE"
            elif name == "text":
                text = content
            elif name == "Opinion" and attributes["target"] != "NULL":
                start, end = int(attributes["from"]), int(attributes["to"])
                targets.append(_Target(start, end, attributes["target"], POLARITIES[attributes["polarity"]]))
            elif name == "/sentence" and not skipped and text.strip():
                yield _Sentence(id_, text, targets)
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{path}:{line}: {name}: expected other attributes than {attributes} ({error!r})"
            ) from None


def _elements(path: Path) -> list[tuple[int, str, dict[str, str], str]]:
    """Line, name, attributes and text of each element, in the order in which they begin; `/name` where one ends."""
    found: list[tuple[int, str, dict[str, str], list[str]]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, of: found.append((parser.CurrentLineNumber, name, of, []))
    parser.EndElementHandler = lambda name: found.append((parser.CurrentLineNumber, f"/{name}", {}, []))
    parser.CharacterDataHandler = lambda content: found[-1][3].append(content)
    try:
        parser.Parse(path.read_bytes(), True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except expat.ExpatError as error:
        raise InputError(f"{path}:{error.lineno}: not XML ({expat.ErrorString(error.code)})") from None
    return [(line, name, attributes, "".join(content)) for line, name, attributes, content in found]
