"""Reads the JSON of SQuAD 1.1, in which every extractive question answering set is published."""

from __future__ import annotations

import json
import lzma
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from schemas.errors import InputError
from schemas.mrc import MrcExample
from schemas.spans import CharSpan
from training.tasks.files import FileLedger, FileRecords, LeftOut, half_surrogate, text_of

T = TypeVar("T")


def read(
    path: Path, task: str, lang: str | Callable[[str], str], query_lang: str | None = None
) -> FileRecords[MrcExample]:
    """Reads the questions of one file, in its order; decompresses a file whose name ends in `.xz`.

    `lang`: the language of the contexts, or a function of a question's id that returns it; `query_lang`: the language
    of the questions, if the file's name says it. Questions become NFC; contexts and answers keep their characters,
    because offsets refer to them.

    Flags: `answer_elsewhere` (the context has another text at the published offset: the span is left out, the answer's
    text is kept); `ambiguous_offset` (the file says that its offset is only the first of several); `duplicate_id`;
    `unlabelled` (XTREME blanks every answer of its test files). The ledger counts answers as labels, and one that is
    `answer_elsewhere` as left out. Raises `InputError` naming the line or the path in the JSON.
    """
    flags: dict[str, list[str]] = defaultdict(list)
    examples, seen, ledger = [], set(), FileLedger()
    for where, context, question in _questions(path):
        id_ = _field(question, "id", str, where)
        its_lang = lang if isinstance(lang, str) else lang(id_)
        answers = _answers(question, context, where)
        place = ledger.add(its_lang, len(answers.texts))
        ledger.left_out += [
            LeftOut("answer_elsewhere", "label", its_lang, id_, place, excerpt) for excerpt in answers.elsewhere
        ]
        reasons = {
            "answer_elsewhere": bool(answers.elsewhere),
            "ambiguous_offset": question.get("offset_is_first_of_many") is True,
            "duplicate_id": id_ in seen,
            "unlabelled": not answers.texts and question.get("is_impossible") is not True,
        }
        for reason in (reason for reason, holds in reasons.items() if holds):
            flags[reason].append(id_)
        seen.add(id_)
        query = unicodedata.normalize("NFC", _field(question, "question", str, where))
        texts = [("text", text) for text in answers.texts]
        _check_characters(where, id_, [("id", id_), ("question", query), ("context", context), *texts])
        examples.append(
            MrcExample(
                id=id_,
                lang=its_lang,
                query=query,
                context=context,
                answers=tuple(answers.spans),
                answer_texts=tuple(answers.texts),
                answerable=bool(answers.texts),
                task=task,
                label=None,
                query_lang=query_lang if query_lang != its_lang else None,
            )
        )
    return examples, dict(flags), ledger


class _Answers(NamedTuple):
    """The answers of a question. Blank ones are left out."""

    texts: list[str]
    spans: list[CharSpan]  # of those whose text is in the context at the published offset
    elsewhere: list[str]  # descriptions of the others


def _answers(question: dict[str, Any], context: str, where: str) -> _Answers:
    answers = _Answers([], [], [])
    for index, answer in enumerate(_field(question, "answers", list, where)):
        text = _field(answer, "text", str, f"{where}.answers[{index}]")
        start = _field(answer, "answer_start", int, f"{where}.answers[{index}]")
        if not text:
            continue
        answers.texts.append(text)
        if start >= 0 and context.startswith(text, start):
            answers.spans.append(CharSpan(start, start + len(text)))
        else:
            actual = context[max(0, start) : max(0, start) + len(text)]
            answers.elsewhere.append(f"{text!r} at {start}, where there is {actual!r}")
    return answers


def _check_characters(where: str, id_: str, texts: Sequence[tuple[str, str]]) -> None:
    """Raises `InputError` for a text, given with its field's name, that has half of a surrogate pair."""
    for name, text in texts:
        if half := half_surrogate(text):
            raise InputError(
                f"{where}: question {id_!a}: expected {name!r}, a text; found half a surrogate pair, {half}"
            )


def _questions(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the path of each question in the JSON, its context, and the question."""
    document = load(path)
    for a, article in enumerate(_field(document, "data", list, f"{path}: the file")):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            where = f"{path}: data[{a}].paragraphs[{p}]"
            context = _field(paragraph, "context", str, where)
            for q, question in enumerate(_field(paragraph, "qas", list, where)):
                yield f"{where}.qas[{q}]", context, question


def load(path: Path) -> Any:
    """Reads a JSON file. Raises `InputError` naming the line where it stops being JSON."""
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
