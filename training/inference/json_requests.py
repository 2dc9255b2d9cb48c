"""The JSON lines of `predict`: a line of input becomes a record to predict, and its prediction a line of output.

Input: {"id"?, "query" or "question", "context"}, {"id"?, "text", "tokens"?} or {"id"?, "sentence1", "sentence2"}; for a
method that reads translations also "translation", an object with the same texts.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from training.tasks.columns import joined, located
from training.tasks.files import half_surrogate
from training.tasks.predictions import Prediction, Span
from training.tasks.words import words_of


class Number(float):
    """A number with a point or an exponent. It keeps its spelling in the line."""

    spelling: str

    def __new__(cls, spelling: str) -> Number:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number


Id = str | int | float | None  # any scalar of JSON: `bool` is an `int`


class Request(NamedTuple):
    """A line that can be answered."""

    id: Id
    record: Any
    with_tags: bool = False  # the line has tokens, so its answer has their tags
    translation: Any = None  # the record's translation, for a method that reads one


class Refused(NamedTuple):
    """A line that cannot be answered."""

    id: Id
    error: str


class BadLine(ValueError):
    """Says what was expected in a line and what was found."""


@dataclass(frozen=True)
class LineFormat:
    """The lines of one kind of task."""

    example: str  # of a line of input
    request: Callable[[Id, str, str, dict[str, Any]], Request]  # id, the record's name, task, the line's values
    answer: Callable[[Request, Prediction, int, bool], dict[str, Any]]
    """Takes how many of the best answers or rationales to give, and whether rationales were asked for."""


def request(kind: str, task: str, number: int, line: bytes, reads_translations: bool = False) -> Request | Refused:
    """Reads line `number`, counted from 1. A blank line is refused too, so that line i of the output answers line i."""
    id_: Id = number
    try:
        values = _object(line)
        id_ = _id(values, number)
        asked = LINE_FORMATS[kind].request(id_, f"line {number}", task, values)
        if reads_translations:
            return asked._replace(translation=_translation(kind, task, number, values))
        if "translation" in values:
            raise BadLine("expected no 'translation', since the model's method reads none")
        return asked
    except BadLine as error:
        return Refused(id_, f"line {number}: {error}")


def _translation(kind: str, task: str, number: int, values: dict[str, Any]) -> Any:
    """Returns the record that the line's "translation" holds, an object with the same texts; None if it has none."""
    translated = values.get("translation")
    if translated is None:
        return None
    if not isinstance(translated, dict):
        raise BadLine(f"expected 'translation', an object with the texts; found {_kind(translated)}")
    return LINE_FORMATS[kind].request(None, f"line {number}", task, translated).record


def _question(id_: Id, name: str, task: str, values: dict[str, Any]) -> Request:
    if "query" in values and "question" in values:
        raise BadLine("expected 'query' or 'question', found both")
    query = unicodedata.normalize("NFC", _text(values, "question" if "question" in values else "query"))
    context = _text(values, "context")
    return Request(id_, MrcExample(name, "", query, context, (), (), False, task, label=None))


def _sentence(id_: Id, name: str, task: str, values: dict[str, Any]) -> Request:
    tokens = values.get("tokens")
    if tokens is None:
        text = _text(values, "text")
        return Request(id_, TaggingExample(name, "", text, words_of(text), (), task))
    if not isinstance(tokens, list):
        raise BadLine(f"expected 'tokens', a list; found {_kind(tokens)}")
    if all(isinstance(token, str) for token in tokens) and (tokens or "text" not in values):
        words = [_unicode("tokens", token) for token in tokens]
        text, joined_spans = (_text(values, "text"), None) if "text" in values else joined(words)
        spans = located(words, text) if joined_spans is None else joined_spans
        if spans is None:
            raise BadLine("expected 'tokens' that follow one another in 'text' with nothing but blanks between")
        return Request(id_, TaggingExample(name, "", text, spans, (), task), with_tags=True)
    text = _text(values, "text")
    return Request(id_, TaggingExample(name, "", text, _spans(tokens, text), (), task), with_tags=True)


def _pair(id_: Id, name: str, task: str, values: dict[str, Any]) -> Request:
    first, second = _text(values, "sentence1"), _text(values, "sentence2")
    return Request(id_, PairExample(name, "", first, second, None, task))


def _answers(request: Request, prediction: Prediction, best: int, rationales: bool) -> dict[str, Any]:
    no_answer = {name: prediction.scores[name] for name in ("no_answer",) if name in prediction.scores}
    return {"answers": [_span_values(span) for span in prediction.spans[:best]], **no_answer}


def _entities(request: Request, prediction: Prediction, best: int, rationales: bool) -> dict[str, Any]:
    entities = [_span_values(span, label=span.label) for span in prediction.spans]
    return {"entities": entities, **({"tags": list(prediction.tags)} if request.with_tags else {})}


def _label(request: Request, prediction: Prediction, best: int, rationales: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"label": prediction.label, "scores": dict(prediction.scores)}
    if rationales:
        values["rationales"] = [_span_values(span, sentence=span.label) for span in prediction.spans]
    return values


def _span_values(span: Span, **more: Any) -> dict[str, Any]:
    return {"text": span.text, "start_char": span.start_char, "end_char": span.end_char, **more, "score": span.score}


LINE_FORMATS = {
    "qa": LineFormat('{"query": "Who won?", "context": "The Broncos won."}', _question, _answers),
    "tagging": LineFormat('{"text": "Anna lives in Hanoi."}', _sentence, _entities),
    "pairs": LineFormat('{"sentence1": "Anna lives in Hanoi.", "sentence2": "Anna lives in Vietnam."}', _pair, _label),
}


def line_of(answer: Mapping[str, Any]) -> str:
    """Returns a line of output. A number that was given as an id keeps its spelling: 1.50 does not become 1.5."""
    id_ = answer["id"]
    spelling = id_.spelling if isinstance(id_, Number) else json.dumps(id_, ensure_ascii=False)
    rest = json.dumps({name: value for name, value in answer.items() if name != "id"}, ensure_ascii=False)
    return f'{{"id": {spelling}, {rest[1:]}\n'


# --- the values of a line ---------------------------------------------------------------------------------------------


def _object(line: bytes) -> dict[str, Any]:
    if not line.strip():
        raise BadLine("expected a JSON object, found a blank line")
    try:
        values = json.loads(line.decode("utf-8-sig"), parse_float=Number, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise BadLine(f"expected UTF-8, found byte 0x{line[error.start]:02x}") from None
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadLine(f"expected a JSON object, found what is not JSON{where}") from None
    if not isinstance(values, dict):
        raise BadLine(f"expected a JSON object, found {_kind(values)}")
    return values


def _no_constant(name: str) -> None:
    """Refuses NaN and Infinity, which Python reads although they are not JSON: others could not read the output."""
    raise ValueError(name)


def _id(values: dict[str, Any], number: int) -> Id:
    """Returns the line's id, any scalar; without one, the line's number."""
    id_ = values.get("id", number)
    if isinstance(id_, str):
        return _unicode("id", id_)
    if isinstance(id_, dict | list):
        raise BadLine(f"expected 'id', a string, a number, true, false or null; found {_kind(id_)}")
    return cast(Id, id_)


def _text(values: dict[str, Any], name: str) -> str:
    if name not in values:
        names = ", ".join(repr(key) for key in values)
        raise BadLine(f"expected {name!r}, a string; found {f'only {names}' if names else 'nothing'}")
    if not isinstance(values[name], str):
        raise BadLine(f"expected {name!r}, a string; found {_kind(values[name])}")
    return _unicode(name, values[name])


def _unicode(name: str, text: str) -> str:
    if half := half_surrogate(text):
        raise BadLine(f"expected {name!r}, a text; found half a surrogate pair, {half}")
    return text


def _spans(tokens: Sequence[Any], text: str) -> tuple[CharSpan, ...]:
    spans, end = [], 0
    for token in tokens:
        if not isinstance(token, list) or len(token) != 2 or any(type(offset) is not int for offset in token):
            raise BadLine(f"expected 'tokens', all of them words or all [start, end] pairs; found {token!r}")
        if not end <= token[0] <= token[1] <= len(text):
            raise BadLine(f"expected 'tokens' in order and within 'text' of {len(text)} characters; found {token}")
        end = token[1]
        spans.append(CharSpan(*token))
    return tuple(spans)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
