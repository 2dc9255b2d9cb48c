"""Reads sentence pairs from tab-separated lines: with a header as their authors publish them, or without as XTREME."""

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
    """Reads one file. `labels`: published label → ours; `columns`: published header → field of `PairExample`.

    A first line that names the columns of both sentences is a header. Without a header, the columns are sentence,
    sentence and label; XTREME's test files lack the label. Flags: `unlabelled`, also where a label is blank;
    `untranslated`: PAWS-X writes NS for a sentence that was not translated. Raises `InputError` naming file and line.
    """
    rows, fields, least = _columns(path, columns)
    examples: list[PairExample] = []
    flags: dict[str, list[str]] = {}
    ledger = FileLedger()
    for number, row in rows:
        if not least <= len(row) <= len(fields):
            expected = f"{least} to {len(fields)}" if least < len(fields) else least
            raise InputError(f"{path}:{number}: expected {expected} columns separated by tabs, found {len(row)}")
        values = dict(zip(fields, row, strict=False))
        label = values.get("label", "").strip() or None
        if label is not None and (label := labels.get(label)) is None:
            raise InputError(f"{path}:{number}: expected a label of {', '.join(labels)}; found {values['label']!r}")
        example = PairExample(
            values.get("id") or f"{path.name}:{number}",
            require_lang(values.get("lang") or None, lang, path),
            values["sentence1"],
            values["sentence2"],
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


def _columns(path: Path, columns: Mapping[str, str]) -> tuple[list[tuple[int, list[str]]], list[str], int]:
    """Reads the rows with their line numbers, the field of each column, and the least number of columns of a row."""
    rows = [(number, line.split("\t")) for number, line in lines_of(path) if line.strip()]
    if rows and {"sentence1", "sentence2"} <= {columns.get(name) for name in rows[0][1]}:
        fields = [columns.get(name, "") for name in rows.pop(0)[1]]
        return rows, fields, len(fields)
    return _unquoted(rows), ["sentence1", "sentence2", "label"], 2


def translated_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Reads the rows, with their line numbers, of a file that has both original sentences, both translated ones and
    perhaps a label, as XTREME publishes translations. Returns none for a file with another number of columns."""
    rows = [(number, line.split("\t")) for number, line in lines_of(path) if line.strip()]
    if not rows or len(rows[0][1]) not in (4, 5) or set(rows[0][1]) & {"sentence1", "premise", "gold_label"}:
        return []
    columns = len(rows[0][1])
    if wrong := next(((number, row) for number, row in rows if len(row) != columns), None):
        raise InputError(f"{path}:{wrong[0]}: expected {columns} columns separated by tabs, found {len(wrong[1])}")
    return _unquoted(rows)


def _unquoted(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Removes the quotation marks of CSV, as XTREME writes it: a field with quotation marks is quoted, and its own
    marks are doubled. If any field with marks is not quoted, the file is not CSV and stays as it is."""
    marked = [field for _, row in rows for field in row if '"' in field]
    if not all(_QUOTED.fullmatch(field) for field in marked):
        return rows
    return [
        (number, [field[1:-1].replace('""', '"') if '"' in field else field for field in row]) for number, row in rows
    ]


def read_labels(path: Path) -> list[tuple[int, str]]:
    """Reads a label from each line of predictions or of XTREME's label files; returns them with their line numbers."""
    return [(number, line.strip()) for number, line in lines_of(path) if line.strip()]
