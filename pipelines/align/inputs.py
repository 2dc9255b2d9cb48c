"""Reads the text to train on or to link: languages, tokenizers, lines with both sides, line-aligned files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from pipelines.align.config import AlignApplyConfig, LineFormat
from pipelines.aligner.text import TrainingText
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import read_bitext
from pipelines.steps.common.files import BadText, compression_suffix, open_raw, read_lines, without_compression
from pipelines.steps.common.paths import is_remote, match_paths
from pipelines.steps.common.sentence_pairs import SentencePair, language_pair, record_id
from pipelines.steps.common.tokenize import token_texts, tokenizer_for
from schemas.errors import ConfigError, InputError, OutputError
from schemas.languages import LanguagePair, is_language_code
from schemas.rejects import Reject
from schemas.runtime.interrupts import cleaned_up

Words = list[str]
Tokenize = Callable[[str], Words]

# --- languages and words --------------------------------------------------------------------------


def named_pair(name: str, tokenized: bool) -> LanguagePair:
    """Calls `language_pair`; the error for an unknown language says how to align it all the same."""
    try:
        return language_pair(name, tokenized=tokenized)
    except ConfigError as error:
        if tokenized or any(not is_language_code(code) for code in name.split("-")):
            raise
        raise ConfigError(
            f"{error} If white space separates the words already, any language goes: --tokenized"
        ) from None


def tokenizers_of(text: TrainingText) -> tuple[Tokenize, Tokenize]:
    """Returns the functions that split the texts of the source and of the target language into words."""
    if text.tokenized:
        return str.split, str.split
    return _words_in(text.pair.source), _words_in(text.pair.target)


def _words_in(lang: str) -> Tokenize:
    tokenize = tokenizer_for(lang)
    return lambda text: token_texts(text, tokenize(text))


# --- files ----------------------------------------------------------------------------------------


def input_path(path: str) -> str:
    return "/dev/stdin" if path == "-" else path


def check_input(option: str, path: str) -> None:
    """Raises `ConfigError` if there is no such file."""
    if path == "-" or (os.path.exists(path) and not os.path.isdir(path)):
        return
    if () not in match_paths(path):
        raise ConfigError(f"{option} {path}: a pattern, expected one file.")


def check_read_twice(config: AlignApplyConfig) -> None:
    """Raises `ConfigError` if an input cannot be read twice, such as a pipe."""
    for path in (config.source, config.target) if config.source else (config.input,):
        if path == "-" or (not is_remote(path) and os.path.exists(path) and not os.path.isfile(path)):
            raise ConfigError(f"--adapt reads the input twice, which {path} does not allow: expected a file.")


@contextmanager
def readable_twice(path: str) -> Iterator[str]:
    """Yields `path` itself, or the path of a temporary copy if it can be read only once, such as a pipe."""
    if is_remote(path) or os.path.isfile(path):
        yield path
        return
    with (
        tempfile.NamedTemporaryFile(prefix="polyspan-lines-", suffix=compression_suffix(path)) as copy,
        cleaned_up(partial(os.unlink, copy.name)),
    ):
        try:
            with open_raw(input_path(path)) as stream:
                shutil.copyfileobj(stream, copy)
            copy.flush()
        except OSError as error:
            raise OutputError(
                f"{path}: it is read twice, but cannot be copied to {tempfile.gettempdir()}: {error.strerror}. Name a "
                "file, or another folder for temporary files: TMPDIR=FOLDER"
            ) from None
        if not copy.tell():
            raise InputError(f"{path}: expected lines, found nothing. Was what writes them cut short?")
        yield copy.name


# --- texts ----------------------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line of input that cannot be used. It gets an empty line of links."""

    reason: str


Texts = Generator[tuple[str, str] | BadLine, None, None]


class LinesFile(NamedTuple):
    """A file that has both sides of a sentence pair on each line."""

    pair: LanguagePair
    path: str  # - for the standard input
    format: LineFormat
    shown_path: str = ""  # the path that messages name, if it differs

    @property
    def corpus(self) -> str:
        """Returns the name that goes into the records' ids. It does not depend on the file's folder."""
        return os.path.basename(without_compression(self.shown_path or self.path))

    def texts(self) -> Texts:
        """Yields both sides of each line; a blank line is an empty pair. `InputError` for a line without separator."""
        separator, path = ("\t" if self.format == "tsv" else "|||"), input_path(self.path)
        for number, line in enumerate(read_lines(path), 1):
            if isinstance(line, BadText):
                yield BadLine(line.reason)
                continue
            source, has_separator, target = line.partition(separator)
            if self.format == "tsv":
                target = target.partition("\t")[0]
            if (not has_separator and line.strip()) or separator in target:
                expected = "two columns separated by a tab" if self.format == "tsv" else "source ||| target"
                where = f"{self.shown_path or path}:{number}"
                raise InputError(f"{where}: expected {expected} (--format {self.format}), found {line[:80]!r}.")
            yield source.strip(), target.strip()

    def records(self) -> Iterator[SentencePair | Reject]:
        """Yields each line as a sentence pair to train on, or as a reject."""
        for line, texts in enumerate(self.texts(), 1):
            id_ = record_id(self.pair, self.corpus, line)
            if isinstance(texts, BadLine):
                yield Reject(texts.reason, "pair", id_, str(self.pair), self.corpus, line, "")
            else:
                yield SentencePair(id_, self.pair, self.corpus, line, *texts)


def read_texts(config: AlignApplyConfig, pair: LanguagePair) -> Texts:
    """Yields both sides of each line of the input."""
    return read_two_files(config, pair) if config.source else LinesFile(pair, config.input, config.format).texts()


def read_two_files(config: AlignApplyConfig, pair: LanguagePair) -> Texts:
    """Yields both sides of each line of two line-aligned files."""
    for record in read_bitext(BitextFile(pair, "", "moses", input_path(config.source), input_path(config.target))):
        if isinstance(record, Reject):
            yield BadLine(record.reason)
        else:
            yield record.source_text, record.target_text
