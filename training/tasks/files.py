"""What the readers share: lines with their numbers, languages from file names, and what a reader returns.

Files without labels are treated alike by all tasks. A reader flags each record without a label as `unlabelled`: a
question whose answers are blank, a sentence whose file holds words alone (or, as XML, no opinion at all), a pair with
no label. `evaluate` predicts them, and scores only with label files. Whatever teaches, judges or stores gold (finetune,
few-shot, score, convert) refuses the file (`refuse_unlabelled`). An unanswerable question has its label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from schemas.counts import RecordCounts
from schemas.errors import InputError
from schemas.mrc import MrcExample, PairExample, TaggingExample, labels_in

Record = MrcExample | TaggingExample | PairExample
R = TypeVar("R", bound=Record)

Flags = dict[str, list[str]]
"""What a reader of the records should know: reason → ids of the records that it concerns, in their order."""


class LeftOut(NamedTuple):
    """A record, or a label of one, that is in a file and not among the records that were read."""

    reason: str  # snake_case
    unit: Literal["record", "label"]
    lang: str
    id: str  # of the record
    place: int  # of the record in its file, from 1
    excerpt: str


@dataclass
class FileLedger:
    """What a file holds, counted while it is read: all of its records and labels, by language, and those left out.

    A label is an answer, an entity, a target of sentiment, or the label of a pair.
    """

    records: Counter[str] = field(default_factory=Counter)  # language → records
    labels: Counter[str] = field(default_factory=Counter)  # language → labels
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, lang: str, labels: int) -> int:
        """Counts a record and its labels; returns the record's place."""
        self.records[lang] += 1
        self.labels[lang] += labels
        return self.records.total()

    def counts(self, kept: Sequence[Record]) -> dict[str, RecordCounts]:
        """Language → all that was found = what the records hold + what was left out. Raises `ValueError` if the reader
        lost something without a reason."""
        examples, labels = Counter[str](), Counter[str]()
        for record in kept:
            examples[record.lang] += 1
            labels[record.lang] += labels_in(record)
        found = {}
        for lang in sorted(self.records):
            rejects = {
                unit: dict(Counter(each.reason for each in self.left_out if (each.unit, each.lang) == (unit, lang)))
                for unit in ("record", "label")
            }
            found[lang] = RecordCounts(
                self.records[lang], examples[lang], rejects["record"], self.labels[lang], labels[lang], rejects["label"]
            )
            found[lang].check()
        return found


FileRecords: TypeAlias = tuple[list[R], Flags, FileLedger]
"""What a reader makes of a file."""


def refuse_unlabelled(path: Path, unlabelled: int, records: int) -> None:
    """The rule for files without labels, wherever labels are needed."""
    if unlabelled:
        raise InputError(
            f"{path}: {unlabelled:,} of {records:,} records have no label. XTREME takes the labels out of its test "
            "files: give the file as the task's authors publish it or, to score, XTREME's label file"
        )


def without_labels(records: Sequence[Record]) -> Flags:
    return {"unlabelled": [record.id for record in records]} if records else {}


def half_surrogate(text: str) -> str | None:
    """Half of a surrogate pair in the text, spelt out. JSON can spell it, but it is no character: neither tokenizers
    nor Arrow files take it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):x}"
    return None


def text_of(path: Path, encodings: tuple[str, ...] = ("utf-8",)) -> str:
    """The file's text in the first of `encodings` that fits. Line ends stay as they are; a byte order mark goes."""
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
    """Lines with their numbers from 1, without LF or CR LF.

    Not `splitlines`: texts hold U+2028 and U+0085, which are characters, not ends of lines.
    """
    lines = text_of(path, encodings).split("\n")
    if not lines[-1]:
        lines.pop()
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, 1))


def lang_in(path: Path, *patterns: str, names: dict[str, str] | None = None) -> str | None:
    """The language that a file's name says, by the first pattern whose `lang` group matches; `names` translates it."""
    for pattern in patterns:
        if match := re.fullmatch(pattern, path.name):
            found = match["lang"]
            return names.get(found, found) if names else found
    return None


def require_lang(lang: str | None, found: str | None, path: Path) -> str:
    """The language to record: the one given, or else the one found. Raises `InputError` if there is neither."""
    if lang or found:
        return lang or found or ""
    raise InputError(f"{path}: its name does not say its language. Give it: --langs de")
