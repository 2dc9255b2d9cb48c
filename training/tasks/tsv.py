"""Sentence pairs in tab-separated lines: with a header as their authors publish them, without one in XTREME."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import InputError
from schemas.mrc import PairExample
from training.tasks.files import FileLedger, FileRecords, lines_of, require_lang

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def read(
    path: Path, task: str, lang: str | None, labels: Mapping[str, str], columns: Mapping[str, str]
) -> FileRecords[PairExample]:
    """The pairs of one file. `labels`: published label → ours; `columns`: published header → field of `PairExample`.

    A first line that names both sentences' columns is a header. Without one, lines are sentence, sentence and label;
    XTREME's test files lack the label. Flags: `unlabelled`, also where a label is blank; `untranslated`: PAWS-X writes
    NS for a sentence that was not translated. Raises `InputError` naming file and line.
    """
    rows = [(number, line.split("\t")) for number, line in lines_of(path) if line.strip()]
    fields = ["sentence1", "sentence2", "label"]
    if rows and {"sentence1", "sentence2"} <= {columns.get(name) for name in rows[0][1]}:
        fields = [columns.get(name, "") for name in rows.pop(0)[1]]
        least = len(fields)
    else:
        rows, least = _unquoted(rows), 2
    examples: list[PairExample] = []
    flags: dict[str, list[str]] = {}
    ledger = FileLedger()
    for number, row in rows:
        if not least <= len(row) <= len(fields):
            expected = f"{least} to {len(fields)}" if least < len(fields) else least
            raise InputError(f"{path}:{number}: expected {expected} columns separated by tabs, found {len(row)}")
        of = dict(zip(fields, row, strict=False))
        label = of.get("label", "").strip() or None
        if label is not None and (label := labels.get(label)) is None:
            raise InputError(f"{path}:{number}: expected a label of {', '.join(labels)}; found {of['label']!r}")
        example = PairExample(
            of.get("id") or f"{path.name}:{number}",
            require_lang(of.get("lang") or None, lang, path),
            of["sentence1"],
            of["sentence2"],
            label,
            task,
        )
        examples.append(example)
        ledger.add(example.lang, int(label is not None))
        if label is None:
            flags.setdefault("unlabelled", []).append(example.id)
        if "NS" in (example.sentence1, example.sentence2):
            flags.setdefault("untranslated", []).append(example.id)
    return examples, flags, ledger


def _unquoted(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """XTREME's files are written as CSV: a field that holds a quotation mark is quoted, and its marks are doubled.

    A file in which any such field is not, was not written so, and stays as it is.
    """
    marked = [field for _, row in rows for field in row if '"' in field]
    if not all(_QUOTED.fullmatch(field) for field in marked):
        return rows
    return [
        (number, [field[1:-1].replace('""', '"') if '"' in field else field for field in row]) for number, row in rows
    ]


def read_labels(path: Path) -> list[tuple[int, str]]:
    """One label a line, each with its line: predictions, and XTREME's label files."""
    return [(number, line.strip()) for number, line in lines_of(path) if line.strip()]
