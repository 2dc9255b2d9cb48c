"""The JSON of SQuAD 1.1, in which every extractive question answering set is published."""

from __future__ import annotations

import json
import lzma
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from training.errors import InputError
from training.tasks.files import Flags, text_of

T = TypeVar("T")


def read(path: Path, task: str, lang: str) -> tuple[list[MrcExample], Flags]:
    """The questions of one file, in its order. A name that ends in `.xz` is decompressed.

    Questions are NFC, contexts and answers stay as they are: offsets count in them. Flags: `answer_elsewhere` (the
    context holds another text at the published offset: the span is left out, the answer's text is kept);
    `ambiguous_offset` (the file itself says that its offset is only the first of several places); `duplicate_id`;
    `unlabelled` (XTREME publishes its test files with every answer blanked). Raises `InputError` naming the line or
    the place in the JSON.
    """
    flags: dict[str, list[str]] = defaultdict(list)
    examples, seen = [], set()
    for where, context, question in _questions(path):
        id_ = _field(question, "id", str, where)
        answers = _field(question, "answers", list, where)
        spans, texts = [], []
        for index, answer in enumerate(answers):
            text = _field(answer, "text", str, f"{where}.answers[{index}]")
            start = _field(answer, "answer_start", int, f"{where}.answers[{index}]")
            if not text:
                continue
            texts.append(text)
            if start >= 0 and context.startswith(text, start):
                spans.append(CharSpan(start, start + len(text)))
        impossible = question.get("is_impossible") is True
        reasons = {
            "answer_elsewhere": len(spans) < len(texts),
            "ambiguous_offset": question.get("offset_is_first_of_many") is True,
            "duplicate_id": id_ in seen,
            "unlabelled": not texts and not impossible,
        }
        for reason in (reason for reason, holds in reasons.items() if holds):
            flags[reason].append(id_)
        seen.add(id_)
        query = unicodedata.normalize("NFC", _field(question, "question", str, where))
        examples.append(
            MrcExample(id_, lang, query, context, tuple(spans), tuple(texts), bool(texts), task, label=None)
        )
    return examples, dict(flags)


def _questions(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Where it stands in the file, the context and the question, for each question."""
    document = load(path)
    for a, article in enumerate(_field(document, "data", list, f"{path}: the file")):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            where = f"{path}: data[{a}].paragraphs[{p}]"
            context = _field(paragraph, "context", str, where)
            for q, question in enumerate(_field(paragraph, "qas", list, where)):
                yield f"{where}.qas[{q}]", context, question


def load(path: Path) -> Any:
    """What a JSON file holds. Raises `InputError` naming the line where it stops being JSON."""
    try:
        text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else text_of(path)
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON ({error.msg}, column {error.colno})") from None
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _field(values: Any, name: str, kind: type[T], where: str) -> T:
    if not isinstance(values, dict):
        raise InputError(f"{where}: expected an object, found a {type(values).__name__}")
    if not isinstance(values.get(name), kind):
        found = f"a {type(values[name]).__name__}" if name in values else f"only {', '.join(map(repr, values))}"
        raise InputError(f"{where}: expected {name!r}, a {kind.__name__}; found {found}")
    return values[name]
