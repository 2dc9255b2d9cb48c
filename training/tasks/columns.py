"""Reads tagged text: a word on each line, its tag in a column, and a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.errors import InputError
from schemas.spans import CharSpan
from training.metrics.tags import TAG
from training.tasks.files import lines_of


class Sentence(NamedTuple):
    """One sentence: its lines in columns, and the `# name = value` lines before it as `comments`."""

    line: int  # of its first word, from 1
    rows: list[list[str]]
    comments: dict[str, str]


def sentences(path: Path, encodings: tuple[str, ...] = ("utf-8",), comments: bool = False) -> Iterator[Sentence]:
    """Yields the sentences of a file. Columns are separated by tabs or, in a line without tabs, by spaces.

    A sentence ends at a line of blanks (WNUT's have a tab) or at a `-DOCSTART-` line. With `comments`, lines that begin
    with `#` are comments. Raises `InputError` naming file and line if a word has another number of columns than the
    first word.
    """
    line, rows, notes = 0, list[list[str]](), dict[str, str]()
    first, columns = 0, 0  # the line of the first word, and how many it has
    for number, text in lines_of(path, encodings):
        if comments and text.startswith("#"):
            name, _, value = text[1:].partition("=")
            notes[name.strip()] = value.strip()
        elif text.strip() and not text.startswith("-DOCSTART-"):
            line = line if rows else number
            rows.append(text.split("\t") if "\t" in text else [column for column in text.split(" ") if column])
            first, columns = (first, columns) if first else (number, len(rows[0]))
            if len(rows[-1]) != columns:
                expected = f"{columns} column{'s' * (columns > 1)}, as line {first} has"
                raise InputError(f"{path}:{number}: expected {expected}; found {len(rows[-1])} in {text[:80]!r}")
        elif rows:
            yield Sentence(line, rows, notes)
            rows, notes = [], {}
    if rows:
        yield Sentence(line, rows, notes)


def words_alone(file_sentences: Sequence[Sentence], column: int = 0) -> bool:
    """Returns whether a file has no column after that of its words: it is unlabelled, or XTREME's label file."""
    return bool(file_sentences) and len(file_sentences[0].rows[0]) == column + 1


def tags_at(path: Path, sentence: Sentence, column: int, labels: Sequence[str] = ()) -> list[str]:
    """Returns a sentence's tags. Raises `InputError` naming file and line of what is no tag or, if `labels` are given,
    of a tag with another label."""
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
    """Reads the last column of predictions or of XTREME's label files: the first line and the tags of each sentence."""
    return [(sentence.line, tags_at(path, sentence, -1, labels)) for sentence in sentences(path)]


def joined(words: Sequence[str]) -> tuple[str, tuple[CharSpan, ...]]:
    """Joins the words with blanks; returns the text and the span of each word."""
    spans, start = [], 0
    for word in words:
        spans.append(CharSpan(start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def located(words: Sequence[str], text: str) -> tuple[CharSpan, ...] | None:
    """Returns the span of each word; None unless the words follow one another in the text with only blanks between."""
    spans, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            return None
        end = start + len(word)
        spans.append(CharSpan(start, end))
    return None if text[end:].strip() else tuple(spans)
