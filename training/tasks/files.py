"""What the readers of all tasks use: numbered lines, languages from file names, and what a reader returns.

All tasks treat files without labels in the same way. A reader flags each record without a label as `unlabelled`: a
question whose answers are blank, a sentence whose file has only words (or, as XML, no opinion), a pair with no label.
`evaluate` predicts these records, and scores them only with label files. Commands that use the labels (finetune,
few-shot, score, convert) refuse the file with `refuse_unlabelled`. An unanswerable question is labelled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from schemas.errors import InputError
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample, labels_in

Record = MrcExample | TaggingExample | PairExample
R = TypeVar("R", bound=Record)

Flags = dict[str, list[str]]
"""Peculiarities of records: reason → ids of the records, in the file's order."""


class LeftOut(NamedTuple):
    """A record, or a label of a record, that the file has and the reader left out."""

    reason: str  # snake_case
    unit: Literal["record", "label"]
    lang: str
    id: str  # of the record
    place: int  # of the record in its file, counted from 1
    excerpt: str


@dataclass
class FileLedger:
    """Counts all records and labels of a file while it is read, by language, and keeps those that are left out.

    A label is an answer, an entity, a target of sentiment, or the label of a pair.
    """

    records: Counter[str] = field(default_factory=Counter)  # language → records
    labels: Counter[str] = field(default_factory=Counter)  # language → labels
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, lang: str, labels: int) -> int:
        """Counts a record and its labels; returns the record's place in the file, from 1."""
        self.records[lang] += 1
        self.labels[lang] += labels
        return self.records.total()

    def counts(self, kept: Sequence[Record]) -> dict[str, RecordCounts]:
        """Returns the counts of each language. Raises `ValueError` unless the file's records and labels are all either
        in `kept` or left out with a reason."""
        examples, labels = Counter[str](), Counter[str]()
        for record in kept:
            examples[record.lang] += 1
            labels[record.lang] += labels_in(record)
        counts = {}
        for lang in sorted(self.records):
            rejects = {
                unit: dict(Counter(lost.reason for lost in self.left_out if (lost.unit, lost.lang) == (unit, lang)))
                for unit in ("record", "label")
            }
            counts[lang] = RecordCounts(
                self.records[lang], examples[lang], rejects["record"], self.labels[lang], labels[lang], rejects["label"]
            )
            counts[lang].check()
        return counts


FileRecords: TypeAlias = tuple[list[R], Flags, FileLedger]
"""What a reader returns: the records, their peculiarities, and the counts of all that the file has."""


def refuse_unlabelled(path: Path, unlabelled: int, records: int) -> None:
    """Raises `InputError` for a file without labels, where labels are needed."""
    if unlabelled:
        raise InputError(
            f"{path}: {unlabelled:,} of {records:,} records have no label. XTREME takes the labels out of its test "
            "files: give the file as the task's authors publish it or, to score, XTREME's label file"
        )


def without_labels(records: Sequence[Record]) -> Flags:
    """Returns the flags of a file whose records are all unlabelled; none if there are no records."""
    return {"unlabelled": [record.id for record in records]} if records else {}


def half_surrogate(text: str) -> str | None:
    """Returns the escape of the first half of a surrogate pair in the text, or None. JSON can contain such a half, but
    it is no character: tokenizers and Arrow files refuse it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):x}"
    return None


def text_of(path: Path, encodings: tuple[str, ...] = ("utf-8",)) -> str:
    """Returns the file's text, decoded by the first of `encodings` that fits. Keeps line ends and drops a byte order
    mark."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for encoding in encodings[:-1]:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    try:
        return content.decode(encodings[-1]).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: expected {encodings[-1]}, found byte 0x{content[error.start]:02x}") from None


def lines_of(path: Path, encodings: tuple[str, ...] = ("utf-8",)) -> Iterator[tuple[int, str]]:
    """Returns the lines with their numbers from 1, without LF or CR LF.

    `splitlines` would also split at U+2028 and U+0085, which are characters of some texts.
    """
    lines = text_of(path, encodings).split("\n")
    if not lines[-1]:
        lines.pop()
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, 1))


def lang_in(path: Path, *patterns: str, names: dict[str, str] | None = None) -> str | None:
    """Returns the `lang` group of the first pattern that matches the file's name, translated by `names`; None if none
    matches."""
    for pattern in patterns:
        if match := re.fullmatch(pattern, path.name):
            lang = match["lang"]
            return names.get(lang, lang) if names else lang
    return None


def require_lang(given: str | None, named: str | None, path: Path) -> str:
    """Returns the given language or, without one, that of the file's name. Raises `InputError` if there is neither."""
    if lang := given or named:
        return lang
    raise InputError(f"{path}: its name does not say its language. Give it: --langs de")
