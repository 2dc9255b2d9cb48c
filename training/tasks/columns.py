"""One word a line, its tag in a column, a blank line after each sentence: how tagged text is published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.errors import InputError
from schemas.spans import CharSpan
from training.tasks.files import lines_of
from training.tasks.tags import TAG


class Sentence(NamedTuple):
    """The lines of one sentence, in columns. `comments` are the `# name = value` lines before it."""

    line: int  # of its first word, from 1
    rows: list[list[str]]
    comments: dict[str, str]


def sentences(path: Path, encodings: tuple[str, ...] = ("utf-8",), comments: bool = False) -> Iterator[Sentence]:
    """The sentences of a file whose columns are separated by tabs or, in a line without one, by spaces.

    Lines of blanks alone end a sentence (WNUT's hold a tab), and so do `-DOCSTART-` lines, which are no words. With
    `comments`, lines that begin with `#` are such. Raises `InputError` naming file and line of what has other columns
    than the first word.
    """
    line, rows, notes = 0, list[list[str]](), dict[str, str]()
    first, columns = 0, 0  # the line of the first word, and how many it has
    for number, text in lines_of(path, encodings):
        if comments and text.startswith("#"):
            name, _, value = text[1:].partition("=")
            notes[name.strip()] = value.strip()
        elif text.strip() and not text.startswith("-DOCSTART-"):
            line = line if rows else number
            rows.append(text.split("\t") if "\t" in text else [each for each in text.split(" ") if each])
            first, columns = (first, columns) if first else (number, len(rows[0]))
            if len(rows[-1]) != columns:
                expected = f"{columns} column{'s' * (columns > 1)}, as line {first} has"
                raise InputError(f"{path}:{number}: expected {expected}; found {len(rows[-1])} in {text[:80]!r}")
        elif rows:
            yield Sentence(line, rows, notes)
            rows, notes = [], {}
    if rows:
        yield Sentence(line, rows, notes)


def words_alone(found: Sequence[Sentence], column: int = 0) -> bool:
    """Whether a file has no column after that of its words: it is unlabelled, or XTREME's label file."""
    return bool(found) and len(found[0].rows[0]) == column + 1


def tags_at(path: Path, sentence: Sentence, column: int, labels: Sequence[str] = ()) -> list[str]:
    """A sentence's tags. Raises `InputError` naming file and line of what is no tag or, with `labels`, of none of
    these."""
    tags = []
    for number, row in enumerate(sentence.rows, sentence.line):
        tag = row[column].strip() if -len(row) <= column < len(row) else ""
        if not TAG.fullmatch(tag):
            raise InputError(
                f"{path}:{number}: expected a tag such as O, B-LOC or I-LOC, found {tag!r} in {' '.join(row)[:80]!r}"
            )
        if labels and tag != "O" and tag[2:] not in labels:
            raise InputError(f"{path}:{number}: expected O or a tag of {', '.join(labels)}; found {tag!r}")
        tags.append(tag)
    return tags


def read_tags(path: Path, labels: Sequence[str] = ()) -> list[tuple[int, list[str]]]:
    """The last column of a file, by sentence, each with its first line: predictions, and XTREME's label files."""
    return [(sentence.line, tags_at(path, sentence, -1, labels)) for sentence in sentences(path)]


def joined(words: Sequence[str]) -> tuple[str, tuple[CharSpan, ...]]:
    """The words with a blank between two, and where each stands."""
    spans, start = [], 0
    for word in words:
        spans.append(CharSpan(start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def located(words: Sequence[str], text: str) -> tuple[CharSpan, ...] | None:
    """Where the words stand in the text, one after another with nothing but blanks between; None where they do not."""
    spans, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            return None
        end = start + len(word)
        spans.append(CharSpan(start, end))
    return None if text[end:].strip() else tuple(spans)
