"""Defines each format of parallel corpora as a `Format` in `FORMATS`. To add one, add an entry and its functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, zip_longest

from pipelines.steps.bitext.tmx import Unit, check_start, read_units
from pipelines.steps.common.files import COMPRESSIONS, BadText, FileDigest, read_chunks, read_lines, shell_text
from pipelines.steps.common.paths import identity, match_paths
from schemas.errors import ConfigError, InputError
from schemas.languages import LanguagePair
from schemas.rejects import MAX_EXCERPT_CHARS

_COMPRESSION = f"(?:{'|'.join(map(re.escape, COMPRESSIONS))})?"
_MOSES = re.compile("([^,]+),([^,]+)")
_TMX = re.compile(rf"([^,]+\.tmx{_COMPRESSION})", re.IGNORECASE)
_TSV = re.compile(rf"([^,]+\.tsv{_COMPRESSION})(?:@([^,]*),([^,]*))?", re.IGNORECASE)
_ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar", ".lz4", ".lzma", ".z")
_ROWS_CHECKED = 100


@dataclass(frozen=True)
class BitextFile:
    """What is read in one go: two line-aligned files, one TSV or one TMX, for one language pair.

    >>> file = BitextFile(LanguagePair("en", "vi"), "news.en", "moses", "data/news.en.gz", "data/news.vi.gz")
    >>> file = BitextFile(LanguagePair("en", "vi"), "web.tsv", "tsv", "web.tsv", "web.tsv", "1", "2")

    `corpus` goes into the records' ids: the source file's name without compression, preceded by as many parent folders
    as distinguish it from the pair's other files.
    """

    pair: LanguagePair
    corpus: str
    format: str  # a key of FORMATS
    source_path: str
    target_path: str  # the same as source_path where one file has both sides
    source_column: str = ""  # tsv: a name in the header, or a position counted from 1 where there is no header
    target_column: str = ""


@dataclass(frozen=True)
class Format:
    """All that the toolkit knows about one format of parallel corpora.

    A *spec* is what a user writes after `--bitext`, here without its prefix (`en-vi=`).
    """

    examples: Mapping[str, str]
    """Specs and what they mean, listed by `--help` and by error messages."""
    suffix: str
    """The suffix of the format's files before compression, such as `.tmx`; "" if they have none of their own."""
    match: Callable[[str], re.Match[str] | None]
    """Matches a whole spec, or returns None for a spec of another format."""
    paths: int
    """How many of the match's groups, from the first on, are paths or patterns of paths."""
    finds_languages: Callable[[re.Match[str]], bool]
    """Whether the file says which text is in which language. If not, a spec serves one language pair only."""
    expand: Callable[[LanguagePair, str, re.Match[str]], list[BitextFile]]
    """Finds the files of a language pair, given the spec as the user wrote it and its match with placeholders filled.
    The files have no corpus name yet. Raises `ConfigError`."""
    check: Callable[[BitextFile], None]
    """Reads a file's first bytes. Raises the `ConfigError` or `InputError` that `read` would raise for them."""
    read: Callable[[BitextFile, list[FileDigest] | None], Iterator[tuple[int, Unit]]]
    """Yields line numbers, counted from 1, and the two texts: None for one that is missing, a `BadText` with a reason
    of `schemas.clism.REJECT_REASONS` for one that is damaged. Appends each file's digest once it is read to its end.
    Raises `InputError`, possibly after the last pair, for a file that is wrong as a whole."""


def match_format(spec: str) -> tuple[str, re.Match[str]] | None:
    """Returns the name in `FORMATS` of the spec's format, and its match; None for a spec of no known format."""
    matches = ((name, format_.match(spec)) for name, format_ in FORMATS.items())
    return next(((name, match) for name, match in matches if match), None)


def example_specs() -> str:
    """Returns the formats' examples, as error messages list them."""
    return " | ".join(example for format_ in FORMATS.values() for example in format_.examples)


def example_help() -> str:
    """Returns the formats' examples with their meanings, as `--help` lists them."""
    pairs = [item for format_ in FORMATS.values() for item in format_.examples.items()]
    return "; ".join(f"{example} ({meaning})" for example, meaning in pairs)


# --- two line-aligned files (Moses) --------------------------------------------------------------------------------


def _match_moses(spec: str) -> re.Match[str] | None:
    match = _MOSES.fullmatch(spec)
    others = [format_.suffix for format_ in FORMATS.values() if format_.suffix]
    suffixes = "|".join(map(re.escape, [*others, *_ARCHIVES]))
    not_lines = re.compile(rf".*(?:{suffixes}){_COMPRESSION}(?:@.*)?", re.IGNORECASE)
    return match if match and not any(map(not_lines.fullmatch, match.groups())) else None


def _expand_moses(pair: LanguagePair, spec: str, match: re.Match[str]) -> list[BitextFile]:
    patterns = match.groups()
    sources, targets = map(match_paths, patterns)
    for ours, theirs, pattern in ((sources, targets, patterns[1]), (targets, sources, patterns[0])):
        for matched in sorted(ours.keys() - theirs.keys()):
            stars = ", ".join(map(repr, matched)) or "nothing"
            raise ConfigError(
                f"--bitext {spec}: {ours[matched]} has no counterpart: no file is {pattern} with {stars} for its "
                "stars. Both sides need the same stars and the same files"
            )
    for matched, path in sources.items():
        if identity(path) == identity(targets[matched]):
            raise ConfigError(f"--bitext {spec}: {path} is both sides of the pair; expected two files")
    return [BitextFile(pair, "", "moses", path, targets[matched]) for matched, path in sources.items()]


def _check_moses(file: BitextFile) -> None:
    for path in (file.source_path, file.target_path):
        with closing(read_lines(path)) as lines:
            next(lines, None)


def _read_moses(file: BitextFile, digests: list[FileDigest] | None) -> Iterator[tuple[int, Unit]]:
    line = 0
    sources, targets = read_lines(file.source_path, digests), read_lines(file.target_path, digests)
    with closing(sources), closing(targets):
        for line, (source, target) in enumerate(zip_longest(sources, targets), 1):
            if source is None or target is None:
                longer = line + sum(1 for _ in (targets if source is None else sources))
                counts = (line - 1, longer) if source is None else (longer, line - 1)
                raise InputError(
                    f"{file.source_path} has {counts[0]} lines and {file.target_path} has {counts[1]}; line-aligned "
                    "files have equally many. Likely one was cut short, or a sentence has a line break in it. Which "
                    "lines belong together is unknown, so nothing is written. Compare: "
                    f"{shell_text(file.source_path)} | wc -l; {shell_text(file.target_path)} | wc -l"
                )
            yield line, (source, target)
    if not line:
        raise InputError(f"{file.source_path} and {file.target_path}: the files have no line")


# --- tab-separated values ------------------------------------------------------------------------------------------


def _expand_tsv(pair: LanguagePair, spec: str, match: re.Match[str]) -> list[BitextFile]:
    source, target = (pair.source, pair.target) if match[2] is None else (match[2], match[3])
    positions = [column.isdecimal() and int(column) > 0 for column in (source, target)]
    if not source or not target or source == target or "0" in (source, target) or positions[0] != positions[1]:
        raise ConfigError(
            f"--bitext {spec}: expected two different columns, both by name (@english,vietnamese) or both by "
            f"position counted from 1 (@1,2), found @{source},{target}"
        )
    return [BitextFile(pair, "", "tsv", path, path, source, target) for path in match_paths(match[1]).values()]


def _check_tsv(file: BitextFile) -> None:
    """Raises `ConfigError` also where the first rows all lack a column."""
    with closing(read_lines(file.source_path)) as lines:
        last = 1 + max(_column_indices(file, lines))
        widths = [row.count("\t") + 1 for row in islice(lines, _ROWS_CHECKED) if isinstance(row, str)]
        if widths and max(widths) < last:
            raise ConfigError(
                f"{file.source_path}: there is no column {last}: its first {len(widths)} rows have at most "
                f"{max(widths)}, separated by tabs"
            )


def _read_tsv(file: BitextFile, digests: list[FileDigest] | None) -> Iterator[tuple[int, Unit]]:
    with closing(read_lines(file.source_path, digests)) as rows:
        source, target = _column_indices(file, rows)
        header_lines = 0 if file.source_column.isdecimal() else 1
        line = header_lines
        for line, row in enumerate(rows, header_lines + 1):
            columns: list[str | None] = [*(row if isinstance(row, str) else row.text).split("\t")]
            columns += [None] * (1 + max(source, target) - len(columns))
            unit: Unit = (columns[source], columns[target])
            if isinstance(row, BadText):  # wherever in the row the damage is
                unit = (BadText(row.reason, columns[source] or ""), BadText(row.reason, columns[target] or ""))
            yield line, unit
    if line == header_lines:
        raise InputError(f"{file.source_path}: the file has no row{' below its header' * header_lines}")


def _column_indices(file: BitextFile, rows: Iterator[str | BadText]) -> tuple[int, int]:
    """Returns the two columns' indices, counted from 0. Takes the header from `rows` if the columns are named."""
    if file.source_column.isdecimal():
        return int(file.source_column) - 1, int(file.target_column) - 1
    header = next(rows, "")
    names = [name.strip() for name in (header if isinstance(header, str) else header.text).split("\t")]
    for wanted in (file.source_column, file.target_column):
        if wanted not in names:
            shown = ", ".join(map(repr, names))
            raise ConfigError(
                f"{file.source_path}: the header has no column {wanted!r}. Its columns: "
                f"{shown if len(shown) <= MAX_EXCERPT_CHARS else shown[:MAX_EXCERPT_CHARS] + '…'}. Name two of them, "
                f"{file.source_path}@NAME,NAME, or where the file has no header give positions: {file.source_path}@1,2"
            )
    return names.index(file.source_column), names.index(file.target_column)


# --- translation memories ------------------------------------------------------------------------------------------


def _expand_tmx(pair: LanguagePair, spec: str, match: re.Match[str]) -> list[BitextFile]:
    return [BitextFile(pair, "", "tmx", path, path) for path in match_paths(match[1]).values()]


def _check_tmx(file: BitextFile) -> None:
    with closing(read_chunks(file.source_path)) as chunks:
        check_start(file.source_path, file.pair, next(chunks, b""))


def _read_tmx(file: BitextFile, digests: list[FileDigest] | None) -> Iterator[tuple[int, Unit]]:
    return enumerate(read_units(file.source_path, file.pair, digests), 1)


# --- all of them ---------------------------------------------------------------------------------------------------

FORMATS = {
    "moses": Format(
        examples={"text.en,text.vi": "two line-aligned files, as Moses has them: line n translates line n"},
        suffix="",
        match=_match_moses,
        paths=2,
        finds_languages=lambda match: False,
        expand=_expand_moses,
        check=_check_moses,
        read=_read_moses,
    ),
    "tmx": Format(
        examples={"corpus.tmx": "a translation memory, in which language codes mark the texts"},
        suffix=".tmx",
        match=_TMX.fullmatch,
        paths=1,
        finds_languages=lambda match: True,
        expand=_expand_tmx,
        check=_check_tmx,
        read=_read_tmx,
    ),
    "tsv": Format(
        examples={
            "corpus.tsv": "tab-separated columns, which the header names by language code",
            "corpus.tsv@english,vietnamese": "columns of other names",
            "corpus.tsv@1,2": "columns by position, counted from 1, without a header",
        },
        suffix=".tsv",
        match=_TSV.fullmatch,
        paths=1,
        finds_languages=lambda match: match[2] is None,
        expand=_expand_tsv,
        check=_check_tsv,
        read=_read_tsv,
    ),
}
