"""Reads parallel corpora: the sentence pairs of the files that `--bitext` names.

`formats.py` has the known formats, each also compressed (.gz .bz2 .xz .zst), on a local path or a file system that Beam
knows (gs://, s3://, hdfs:// …). In a spec, `{pair}`, `{source}` and `{target}` are replaced by the language pair and
its two codes. `en-vi=SPEC` is read for that pair only; a spec without a prefix is read for every pair. `*`, `?` and
`[…]` match within one name, and the two sides of a line-aligned spec are paired where their wildcards match the same
text: `news-*.en,news-*.vi`. Paths hold no comma (`?` matches one).

Text is UTF-8 (a TMX declares its own encoding), lines end in `\\n` or `\\r\\n`, nothing is trimmed. TSV has no quotes
and no escapes: every tab separates two columns, and columns that nobody asked for are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipelines.steps.bitext.formats import FORMATS, BitextFile, example_specs, match_format
from pipelines.steps.common.files import COMPRESSIONS, BadText, FileDigest, without_compression
from pipelines.steps.common.paths import distinct_names, identity
from pipelines.steps.common.sentence_pairs import SentencePair, record_id
from schemas.errors import ConfigError
from schemas.languages import LanguagePair
from schemas.rejects import MAX_EXCERPT_CHARS, Reject
from schemas.runtime.shown_paths import shown_path

_PREFIX = re.compile(r"([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*(?:-[A-Za-z0-9_]+)+)=(.*)")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


# --- Reading -------------------------------------------------------------------------------------------------------


def read_bitext(file: BitextFile, digests: list[FileDigest] | None = None) -> Iterator[SentencePair | Reject]:
    """Yields every pair of lines, row or `<tu>` of `file`, in order, as a sentence pair or as a reject.

    `line` is the number of the line (the header of a TSV counts) or of the `<tu>`, from 1. Reject reasons are
    `line_too_long`, `invalid_utf8`, `nul_character` and `missing_side`; a blank side is no reject here. Once the
    iterator is exhausted, every file was read to its last byte and `digests` has its `FileDigest`. Raises
    `InputError`, possibly after the last pair, for a file that is wrong as a whole.
    """
    pair, corpus, pair_name = file.pair, file.corpus, str(file.pair)
    for line, (source, target) in FORMATS[file.format].read(file, digests):
        id_ = record_id(pair, corpus, line)
        if isinstance(source, str) and isinstance(target, str):
            yield SentencePair(id_, pair, corpus, line, source, target)
        else:
            reason = next((side.reason for side in (source, target) if isinstance(side, BadText)), "missing_side")
            texts = (side.text if isinstance(side, BadText) else side or "" for side in (source, target))
            yield Reject(reason, "pair", id_, pair_name, corpus, line, excerpt(*texts))


def excerpt(source: str, target: str) -> str:
    """Returns `source ||| target` in at most `MAX_EXCERPT_CHARS`, for a reject; a side that was cut ends in `…`."""
    room = (MAX_EXCERPT_CHARS - len(" ||| ")) // 2
    return " ||| ".join(text if len(text) <= room else text[: room - 1] + "…" for text in (source, target))


# --- From --bitext to files ----------------------------------------------------------------------------------------


def expand_bitext(specs: Sequence[str], pairs: Sequence[LanguagePair]) -> list[BitextFile]:
    """Lists the files that the `--bitext` arguments name, by pair, then in the arguments' order, then by path.

    Reads the first bytes of every file. Raises `ConfigError` for a spec of no known form, one that names no file, half
    a pair of files, the wrong columns or the same file again, and for a pair that no spec serves; `InputError` for a
    file that cannot be read.
    """
    files = [file for spec in specs for file in _expand(spec, pairs)]
    for pair in pairs:
        if not any(file.pair == pair for file in files):
            raise ConfigError(
                f"{pair}: no --bitext is read for this pair. Add one: --bitext {pair}=SPEC ({example_specs()})"
            )
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
        FORMATS[file.format].check(file)
    return [named for pair in dict.fromkeys(pairs) for named in _named([file for file in files if file.pair == pair])]


def shown_spec(spec: str) -> str:
    """Returns a `--bitext` as the manifest has it: each of its paths shortened by `shown_path`."""
    prefix = _PREFIX.fullmatch(spec)
    text = prefix[2] if prefix else spec
    if not (found := match_format(text)):
        return spec
    name, match = found
    shown, end = "", 0
    for group in range(1, FORMATS[name].paths + 1):
        shown += text[end : match.start(group)] + shown_path(match[group])
        end = match.end(group)
    shown += text[end:]
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
    name, match = _match(spec, text)
    filled = [
        text.replace("{pair}", str(pair)).replace("{source}", pair.source).replace("{target}", pair.target)
        for pair in wanted
    ]
    if not FORMATS[name].finds_languages(match) and len(set(filled)) < len(filled):
        raise ConfigError(
            f"--bitext {spec}: names the same two texts for {' and '.join(map(str, wanted))}. Say for which pair they "
            f"are, --bitext {wanted[0]}={text}, or put {{pair}}, {{source}} or {{target}} into it"
        )
    files: list[BitextFile] = []
    for pair, filled_text in zip(wanted, filled, strict=True):
        name, match = _match(spec, filled_text)
        files += FORMATS[name].expand(pair, spec, match)
    return files


def _match(spec: str, text: str) -> tuple[str, re.Match[str]]:
    found = match_format(text)
    if not found:
        raise ConfigError(
            f"--bitext {spec}: of no known form. Expected one of {example_specs()}; each may end in "
            f"{' '.join(COMPRESSIONS)}, and archives are to be unpacked first"
        )
    return found


def _named(files: list[BitextFile]) -> list[BitextFile]:
    """Gives each file of one language pair a corpus name of its own, which does not depend on the working folder."""
    sources = [without_compression(identity(file.source_path)) for file in files]
    targets = [without_compression(identity(file.target_path)) for file in files]
    source_names, target_names, uses = distinct_names(sources), distinct_names(targets), Counter(sources)
    named = []
    for file, source, target in zip(files, sources, targets, strict=True):
        name = source_names[source]
        if uses[source] > 1:  # one source text with two translations
            columns = f"@{file.source_column},{file.target_column}"
            name += columns if file.source_column else f"+{target_names[target]}"
        named.append(replace(file, corpus=name))
    return named
