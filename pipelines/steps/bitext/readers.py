"""Parallel corpora: what `--bitext` names, and the sentence pairs in it.

A `--bitext` is one of

    text.en,text.vi                  two line-aligned files (Moses): line n translates line n
    corpus.tmx                       a translation memory; languages are found by their codes
    corpus.tsv                       tab-separated; the header names columns by language code
    corpus.tsv@english,vietnamese    … or these columns of the header
    corpus.tsv@1,2                   no header; columns by position, counted from 1

each also compressed (.gz .bz2 .xz .zst), on a local path or a file system that Beam knows (gs://, s3://, hdfs:// …).
`{pair}`, `{source}` and `{target}` stand for the language pair and its two codes. `en-vi=SPEC` reads a spec for that
pair only; without the prefix it is read for every pair. `*`, `?` and `[…]` match within one name, and the two sides of
a line-aligned spec go together where their stars match the same: `news-*.en,news-*.vi`. Paths hold no comma (`?`
matches one).

Text is UTF-8 (a TMX says its own encoding), lines end in `\\n` or `\\r\\n`, nothing is trimmed. TSV knows no quotes and
no escapes: every tab separates, and columns that nobody asked for are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Literal

from pipelines.steps.bitext.tmx import Unit, check_start, read_units
from pipelines.steps.common.files import BadText, FileDigest, read_chunks, read_lines, shell_text, without_compression
from pipelines.steps.common.paths import distinct_names, identity, match_paths
from pipelines.steps.common.sentence_pairs import LanguagePair, SentencePair, record_id
from schemas.errors import ConfigError, InputError
from schemas.rejects import MAX_EXCERPT_CHARS, Reject
from schemas.runtime.shown_paths import shown_path

FORMS = "text.en,text.vi | corpus.tmx | corpus.tsv | corpus.tsv@english,vietnamese | corpus.tsv@1,2"
COMPRESSIONS = ".gz .bz2 .xz .zst"

_PREFIX = re.compile(r"([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*(?:-[A-Za-z0-9_]+)+)=(.*)")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_TSV = re.compile(r"([^,]+\.tsv(?:\.gz|\.bz2|\.xz|\.zst)?)(?:@([^,]*),([^,]*))?", re.IGNORECASE)
_TMX = re.compile(r"[^,]+\.tmx(?:\.gz|\.bz2|\.xz|\.zst)?", re.IGNORECASE)
_NOT_LINES = re.compile(r".*\.(?:tsv(?:@.*)?|tmx|zip|tar|tgz|7z|rar|lz4|lzma|z)", re.IGNORECASE)
_ROWS_CHECKED = 100


@dataclass(frozen=True)
class BitextFile:
    """What is read in one go: two line-aligned files, one TSV or one TMX, for one language pair.

    >>> BitextFile(LanguagePair("en", "vi"), "news.en", "moses", "data/news.en.gz", "data/news.vi.gz")
    >>> BitextFile(LanguagePair("en", "vi"), "web.tsv", "tsv", "web.tsv", "web.tsv", "1", "2")

    `corpus` goes into the records' ids: the source file's name without compression, behind as many parent folders as
    tell it from the pair's other files.
    """

    pair: LanguagePair
    corpus: str
    format: Literal["moses", "tsv", "tmx"]
    source_path: str
    target_path: str  # the same as source_path for tsv and tmx
    source_column: str = ""  # tsv: a name in the header, or a position counted from 1 where there is no header
    target_column: str = ""


# --- Reading -------------------------------------------------------------------------------------------------------


def read_bitext(file: BitextFile, digests: list[FileDigest] | None = None) -> Iterator[SentencePair | Reject]:
    """Every pair of lines, row or `<tu>` of `file`, in order, as a sentence pair or as the reject that it became.

    `line` is the line, of a TSV with its header counted, or the `<tu>`, counted from 1. Reject reasons:
    `line_too_long`, `invalid_utf8`, `nul_character`, `missing_side`; a blank side is a sentence pair still. Once the
    iterator is exhausted every file was read to its last byte, and `digests` has its `FileDigest`. Raises
    `InputError`, possibly after the last pair, for a file that is wrong as a whole.
    """
    pair, corpus, pair_name = file.pair, file.corpus, str(file.pair)
    for line, (source, target) in _READERS[file.format](file, digests):
        id_ = record_id(pair, corpus, line)
        if isinstance(source, str) and isinstance(target, str):
            yield SentencePair(id_, pair, corpus, line, source, target)
        else:
            reason = next((side.reason for side in (source, target) if isinstance(side, BadText)), "missing_side")
            texts = (side.text if isinstance(side, BadText) else side or "" for side in (source, target))
            yield Reject(reason, "pair", id_, pair_name, corpus, line, excerpt(*texts))


def excerpt(source: str, target: str) -> str:
    """`source ||| target` in at most `MAX_EXCERPT_CHARS`, for a reject; `…` stands where a side was cut."""
    room = (MAX_EXCERPT_CHARS - len(" ||| ")) // 2
    return " ||| ".join(text if len(text) <= room else text[: room - 1] + "…" for text in (source, target))


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


def _read_tmx(file: BitextFile, digests: list[FileDigest] | None) -> Iterator[tuple[int, Unit]]:
    return enumerate(read_units(file.source_path, file.pair, digests), 1)


_READERS = {"moses": _read_moses, "tsv": _read_tsv, "tmx": _read_tmx}


def _column_indices(file: BitextFile, rows: Iterator[str | BadText]) -> tuple[int, int]:
    """Where the two columns stand, counted from 0. Takes the header from `rows` if the columns are named."""
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


# --- From --bitext to files ----------------------------------------------------------------------------------------


def expand_bitext(specs: Sequence[str], pairs: Sequence[LanguagePair]) -> list[BitextFile]:
    """The files that the `--bitext` arguments name: by pair, then in the arguments' order, a pattern's matches sorted.

    Reads the first bytes of every file. Raises `ConfigError` for a spec of no known form, one that names no file, half
    a pair of files, the wrong columns or the same file again, and for a pair that no spec serves; `InputError` for a
    file that cannot be read.
    """
    files = [file for spec in specs for file in _expand(spec, pairs)]
    for pair in pairs:
        if not any(file.pair == pair for file in files):
            raise ConfigError(f"{pair}: no --bitext is read for this pair. Add one: --bitext {pair}=SPEC ({FORMS})")
    seen = set()
    for file in files:
        paths = tuple(without_compression(identity(path)) for path in (file.source_path, file.target_path))
        key = (file.pair, paths, file.source_column, file.target_column)
        if key in seen:
            raise ConfigError(
                f"--bitext: {file.source_path} is given twice for {file.pair} (perhaps compressed and uncompressed); "
                "every sentence in it would count double. Leave one out"
            )
        seen.add(key)
    for file in files:
        _check_start(file)
    return [named for pair in dict.fromkeys(pairs) for named in _named([file for file in files if file.pair == pair])]


def shown_spec(spec: str) -> str:
    """How a `--bitext` is written to a manifest: `schemas.runtime.shown_paths.shown_path` of each of its paths."""
    prefix = _PREFIX.fullmatch(spec)
    text = prefix[2] if prefix else spec
    if tsv := _TSV.fullmatch(text):
        shown = shown_path(tsv[1]) + text[len(tsv[1]) :]
    else:
        shown = ",".join(map(shown_path, text.split(",")))
    return f"{prefix[1]}={shown}" if prefix else shown


def _expand(spec: str, pairs: Sequence[LanguagePair]) -> list[BitextFile]:
    text, wanted = spec, list(dict.fromkeys(pairs))
    if prefix := _PREFIX.fullmatch(spec):
        text, wanted = prefix[2], [pair for pair in wanted if str(pair) == prefix[1]]
        if not wanted:
            asked = ", ".join(map(str, pairs))
            raise ConfigError(f"--bitext {spec}: the job makes {asked}, not {prefix[1]}. Add that pair or leave it out")
    for placeholder in _PLACEHOLDER.findall(text):
        if placeholder not in ("{pair}", "{source}", "{target}"):
            raise ConfigError(
                f"--bitext {spec}: {placeholder} is unknown; there are {{pair}}, {{source}} and {{target}}"
            )
    tsv = _TSV.fullmatch(text)
    by_code = _TMX.fullmatch(text) or (tsv and tsv[2] is None)  # the file itself says which language is where
    filled = [
        text.replace("{pair}", str(pair)).replace("{source}", pair.source).replace("{target}", pair.target)
        for pair in wanted
    ]
    if not by_code and len(set(filled)) < len(filled):
        raise ConfigError(
            f"--bitext {spec}: names the same two texts for {' and '.join(map(str, wanted))}. Say for which pair they "
            f"are, --bitext {wanted[0]}={text}, or put {{pair}}, {{source}} or {{target}} into it"
        )
    return [file for pair, one in zip(wanted, filled, strict=True) for file in _expand_for(pair, spec, one)]


def _expand_for(pair: LanguagePair, spec: str, text: str) -> list[BitextFile]:
    if tsv := _TSV.fullmatch(text):
        source, target = (pair.source, pair.target) if tsv[2] is None else (tsv[2], tsv[3])
        positions = [column.isdecimal() and int(column) > 0 for column in (source, target)]
        if not source or not target or source == target or "0" in (source, target) or positions[0] != positions[1]:
            raise ConfigError(
                f"--bitext {spec}: expected two different columns, both by name (@english,vietnamese) or both by "
                f"position counted from 1 (@1,2), found @{source},{target}"
            )
        return [BitextFile(pair, "", "tsv", path, path, source, target) for path in match_paths(tsv[1]).values()]
    if _TMX.fullmatch(text):
        return [BitextFile(pair, "", "tmx", path, path) for path in match_paths(text).values()]
    sides = text.split(",")
    if len(sides) != 2 or any(not side or _NOT_LINES.fullmatch(without_compression(side)) for side in sides):
        raise ConfigError(
            f"--bitext {spec}: of no known form. Expected one of {FORMS}; each may end in {COMPRESSIONS}, and archives "
            "are to be unpacked first"
        )
    sources, targets = (match_paths(side) for side in sides)
    for ours, theirs, pattern in ((sources, targets, sides[1]), (targets, sources, sides[0])):
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


def _check_start(file: BitextFile) -> None:
    """Raises what `read_bitext` would raise within the first bytes, and `ConfigError` for columns beyond every row."""
    if file.format == "tmx":
        with closing(read_chunks(file.source_path)) as chunks:
            check_start(file.source_path, file.pair, next(chunks, b""))
        return
    for path in dict.fromkeys((file.source_path, file.target_path)):
        with closing(read_lines(path)) as lines:
            if file.format == "moses":
                next(lines, None)
                continue
            last = 1 + max(_column_indices(file, lines))
            widths = [row.count("\t") + 1 for row in islice(lines, _ROWS_CHECKED) if isinstance(row, str)]
            if widths and max(widths) < last:
                raise ConfigError(
                    f"{path}: there is no column {last}: its first {len(widths)} rows have at most {max(widths)}, "
                    "separated by tabs"
                )


def _named(files: list[BitextFile]) -> list[BitextFile]:
    """The files of one language pair, each with a corpus name of its own, the same from whatever folder it is run."""
    sources = [without_compression(identity(file.source_path)) for file in files]
    targets = [without_compression(identity(file.target_path)) for file in files]
    source_names, target_names, uses = distinct_names(sources), distinct_names(targets), Counter(sources)
    named = []
    for file, source, target in zip(files, sources, targets, strict=True):
        name = source_names[source]
        if uses[source] > 1:  # one source text with two translations
            columns = f"@{file.source_column},{file.target_column}"
            name += columns if file.format == "tsv" else f"+{target_names[target]}"
        named.append(replace(file, corpus=name))
    return named
