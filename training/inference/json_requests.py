"""A line of JSON → a record to predict, or what is wrong with it.

{"id"?, "query" or "question", "context"}, {"id"?, "text", "tokens"?} or {"id"?, "sentence1", "sentence2"}
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from training.tasks.columns import joined, located
from training.tasks.files import half_surrogate

EXAMPLES = {
    "qa": '{"query": "Who won?", "context": "The Broncos won."}',
    "tagging": '{"text": "Anna lives in Hanoi."}',
    "pairs": '{"sentence1": "Anna lives in Hanoi.", "sentence2": "Anna lives in Vietnam."}',
}
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen, zero-width non-joiner and joiner: inside of words and emoji
# Letters of scripts that are written without blanks: Thai, Lao, Burmese, Khmer, Kana, Han.
ALONE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
                   "\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]")  # fmt: skip


class Number(float):
    """A number with a point or an exponent, which also knows how the line spells it."""

    spelling: str

    def __new__(cls, spelling: str) -> Number:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number


Id = str | int | float | None  # any scalar of JSON's: `bool` is an `int`


class Request(NamedTuple):
    """A line that can be answered."""

    id: Id
    record: Any
    with_tags: bool = False


class Refused(NamedTuple):
    """A line that cannot."""

    id: Id
    error: str


class BadLine(ValueError):
    """What was expected and found in a line."""


def request(kind: str, task: str, number: int, line: bytes) -> Request | Refused:
    """Line `number`, from 1. A blank line is refused in its place, so that line i of the output answers line i."""
    id_: Id = number
    try:
        values = _object(line)
        id_ = _id(values, number)
        return _REQUESTS[kind](id_, f"line {number}", task, values)
    except BadLine as error:
        return Refused(id_, f"line {number}: {error}")


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
    if all(isinstance(each, str) for each in tokens) and (tokens or "text" not in values):
        words = [_unicode("tokens", each) for each in tokens]
        text, found = (_text(values, "text"), None) if "text" in values else joined(words)
        spans = located(words, text) if found is None else found
        if spans is None:
            raise BadLine("expected 'tokens' that follow one another in 'text' with nothing but blanks between")
        return Request(id_, TaggingExample(name, "", text, spans, (), task), with_tags=True)
    text = _text(values, "text")
    return Request(id_, TaggingExample(name, "", text, _spans(tokens, text), (), task), with_tags=True)


def _pair(id_: Id, name: str, task: str, values: dict[str, Any]) -> Request:
    first, second = _text(values, "sentence1"), _text(values, "sentence2")
    return Request(id_, PairExample(name, "", first, second, None, task))


_REQUESTS: dict[str, Callable[..., Request]] = {"qa": _question, "tagging": _sentence, "pairs": _pair}


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
    """Python reads NaN and Infinity, which are not JSON: nobody else could read them in the output."""
    raise ValueError(name)


def _id(values: dict[str, Any], number: int) -> Id:
    """What the line gives, whatever scalar it is; else its number."""
    id_ = values.get("id", number)
    if isinstance(id_, str):
        return _unicode("id", id_)
    if isinstance(id_, dict | list):
        raise BadLine(f"expected 'id', a string, a number, true, false or null; found {_kind(id_)}")
    return cast(Id, id_)


def _text(values: dict[str, Any], name: str) -> str:
    if name not in values:
        found = ", ".join(repr(key) for key in values)
        raise BadLine(f"expected {name!r}, a string; found {f'only {found}' if found else 'nothing'}")
    if not isinstance(values[name], str):
        raise BadLine(f"expected {name!r}, a string; found {_kind(values[name])}")
    return _unicode(name, values[name])


def _unicode(name: str, text: str) -> str:
    if half := half_surrogate(text):
        raise BadLine(f"expected {name!r}, a text; found half a surrogate pair, {half}")
    return text


def _spans(tokens: Sequence[Any], text: str) -> tuple[CharSpan, ...]:
    spans, end = [], 0
    for each in tokens:
        if not isinstance(each, list) or len(each) != 2 or any(type(place) is not int for place in each):
            raise BadLine(f"expected 'tokens', all of them words or all [start, end] pairs; found {each!r}")
        if not end <= each[0] <= each[1] <= len(text):
            raise BadLine(f"expected 'tokens' in order and within 'text' of {len(text)} characters; found {each}")
        end = each[1]
        spans.append(CharSpan(*each))
    return tuple(spans)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def words_of(text: str) -> tuple[CharSpan, ...]:
    """Words of a text that comes without: runs of letters, digits and underscores with the marks on them; every other
    character alone, and so are letters of scripts without blanks. Marks and joiners stay with what they follow, so that
    no emoji and no syllable is cut; other invisible characters part words, as blanks do."""
    spans: list[CharSpan] = []
    grows = False  # whether a letter that follows belongs to the last word
    for at, char in enumerate(text):
        category = unicodedata.category(char)
        adjoins = bool(spans) and spans[-1].end == at
        if adjoins and (category[0] == "M" or char in JOINERS or text[at - 1] == "\u200d"):
            spans[-1] = CharSpan(spans[-1].start, at + 1)
        elif category[0] == "Z" or category in ("Cc", "Cf"):
            grows = False
        elif (category[0] in "LMN" or category == "Pc") and not ALONE.match(char):
            if grows and adjoins:
                spans[-1] = CharSpan(spans[-1].start, at + 1)
            else:
                spans.append(CharSpan(at, at + 1))
            grows = True
        else:
            spans.append(CharSpan(at, at + 1))
            grows = False
    return tuple(spans)
