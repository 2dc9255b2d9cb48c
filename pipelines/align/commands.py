"""Word alignment by itself: a model from parallel corpora, links of any sentence pairs, their agreement with gold."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Annotated, BinaryIO, Literal, NamedTuple

import tyro

from pipelines.aligner import AlignerConfig, AlignmentModel, NumberedPairs
from pipelines.aligner import train as train_model
from pipelines.aligner.pharaoh import Agreement, Firsts, compare_files, format_links
from pipelines.aligner.symmetrize import align_symmetrized
from pipelines.aligner.text import TrainingText, check_text
from pipelines.recipes import BitextSpecs
from pipelines.steps.bitext.filters import FilterConfig, SeenTexts, filter_pair, text_digest
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import expand_bitext, read_bitext
from pipelines.steps.common.files import (
    BadText,
    compression_suffix,
    open_raw,
    read_lines,
    replacing,
    without_compression,
)
from pipelines.steps.common.hash_sample import sample_by_hash
from pipelines.steps.common.paths import identity, is_remote, match_paths, path_of_each_pair
from pipelines.steps.common.sentence_pairs import (
    LanguagePair,
    Link,
    SentencePair,
    is_language_code,
    language_pair,
    record_id,
)
from pipelines.steps.common.tokenize import token_texts, tokenizer_for
from schemas.errors import ConfigError, InputError, OutputError
from schemas.languages import LANGUAGES
from schemas.rejects import Reject
from schemas.runtime.interrupts import cleaned_up

BLOCK_PAIRS = 2000  # aligned at once: bounds the memory, and is enough for full speed
PROGRESS_S = 10.0

Words = list[str]
WordPair = tuple[Words, Words]
Tokenize = Callable[[str], Words]

Format = Literal["|||", "tsv"]
Symmetrize = Literal["posterior", "intersect", "union", "grow-diag-final-and"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AlignTrainConfig:
    """Learn a word aligner from parallel corpora: the one that `polyspan-data clism` would train on them."""

    bitext: BitextSpecs = ()
    pair: tuple[str, ...] = ()
    """Language pairs, source first, such as en-vi. One model is trained for each, one after another. With --tokenized
    they may be of any languages: en-sl, eng_Latn-slv_Latn."""
    model: str = ""
    """The model file to write; {pair} stands for the language pair."""
    input: str = ""
    """Instead of --bitext: a file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input."""
    format: Format = "|||"
    """What parts the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    prior: str = ""
    """A model file that `align train` wrote from other text: its words and counts (--aligner.prior-weight) are kept.
    {pair} stands for the language pair."""
    tokenized: bool = False
    """White space separates the words already; otherwise the languages' tokenizers find them."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    seed: int = 0
    """Decides which pairs train the model where there are more than --aligner.training-pairs."""
    threads: int = 0
    """Threads that train at once; 0: as many as there are cores. The model is the same for any number."""
    overwrite: bool = False
    """Replace the model file if it is there."""


@dataclass(frozen=True)
class AlignApplyConfig:
    """Link the words of sentence pairs: a line `0-0 1-2` (source-target, counted from 0) for each line read."""

    model: str = ""
    """The model file that `align train` wrote."""
    input: str = "-"
    """A file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input."""
    format: Format = "|||"
    """What parts the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    source: str = ""
    """Instead of --input: the source side of two line-aligned files (Moses) …"""
    target: str = ""
    """… and the target side."""
    pair: str = ""
    """The language pair, such as en-vi: its tokenizers find the words. Empty: the pair that the model was trained on,
    whose words are found as they were then."""
    tokenized: bool = False
    """White space separates the words already; the languages are any then."""
    copy: bool = False
    """Read the model into memory of this process instead of sharing the file's: it may be written over meanwhile. So
    is always read a file that another user owns or may write."""
    adapt: bool = False
    """Let the model learn from the input before it links it: fewer errors where it does not know the text's words.
    The input is read twice. Of more pairs than the model was to be trained on, it learns from a sample by hash."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds a threshold, or what Moses makes of both directions' links."""
    min_score: float = -1.0
    """The threshold of `posterior`; higher keeps fewer and surer links. Negative: the one that the model has."""
    scores: bool = False
    """Write each link's score: 0-0:0.9812, the mean of both directions' posterior probabilities."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    threads: int = 0
    """Threads that align at once; 0: as many as there are cores. The links are the same for any number."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file if it is there."""


@dataclass(frozen=True)
class AlignFileConfig:
    """Train on the lines of a file and link the words of the same lines, in one step: a line `0-0 1-2` (source-target,
    counted from 0) for each line read. The links are those of `align train` and `align apply` with the same --pair."""

    input: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input, of which a copy is kept
    in the folder for temporary files meanwhile."""
    format: Format = "|||"
    """What parts the sides on a line: `source ||| target`, or a tab between the first two columns."""
    pair: str = ""
    """The language pair, such as en-vi: its tokenizers find the words. Empty: white space separates them already."""
    tokenized: bool = False
    """White space separates the words already, although --pair is given; the languages are any then."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds --aligner.min-score, or what Moses makes of both directions'
    links."""
    scores: bool = False
    """Write each link's score: 0-0:0.9812, the mean of both directions' posterior probabilities."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    model: str = ""
    """Keep the trained model in this file, for `align apply`."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    """Which lines train; all are linked."""
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    threads: int = 0
    """Threads that work at once; 0: as many as there are cores. The links are the same for any number."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file, and the model's, if they are there."""


Writing = AlignApplyConfig | AlignFileConfig


@dataclass(frozen=True)
class AlignScoreConfig:
    """Compare links with gold ones: alignment error rate, precision and recall (Och and Ney 2003)."""

    gold: str = ""
    """Gold links: a line `0-0 1?2` for each sentence pair, `?` for possible ones; or, a link a line and counted from
    1, the NAACL form `SENTENCE SOURCE TARGET [S|P]`."""
    links: str = ""
    """The links to judge, as `align apply` writes them."""
    one_based: bool = False
    """The gold links are counted from 1, although they are not in the NAACL form, which always is."""
    one_based_links: bool = False
    """The links to judge are counted from 1."""


# --- lines with both sides ------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line of input that cannot be used: it gets an empty line of links."""

    reason: str


Texts = Generator[tuple[str, str] | BadLine, None, None]


class LinesFile(NamedTuple):
    """A file with both sides of a sentence pair on each line."""

    pair: LanguagePair
    path: str  # - for the standard input
    format: Format
    told: str = ""  # the path that messages name, where it is another

    @property
    def corpus(self) -> str:
        """A name that goes into the records' ids, the same wherever the file lies."""
        return os.path.basename(without_compression(self.told or self.path))

    def texts(self) -> Texts:
        """Both sides of each line. A blank line is an empty pair, one that has no separator an `InputError`."""
        separator, path = ("\t" if self.format == "tsv" else "|||"), input_path(self.path)
        for number, line in enumerate(read_lines(path), 1):
            if isinstance(line, BadText):
                yield BadLine(line.reason)
                continue
            source, found, target = line.partition(separator)
            if self.format == "tsv":
                target = target.partition("\t")[0]
            if (not found and line.strip()) or separator in target:
                expected = "two columns separated by a tab" if self.format == "tsv" else "source ||| target"
                raise InputError(
                    f"{self.told or path}:{number}: expected {expected} (--format {self.format}), found {line[:80]!r}."
                )
            yield source.strip(), target.strip()

    def records(self) -> Iterator[SentencePair | Reject]:
        """Each line as it trains a model."""
        for line, texts in enumerate(self.texts(), 1):
            id_ = record_id(self.pair, self.corpus, line)
            if isinstance(texts, BadLine):
                yield Reject(texts.reason, "pair", id_, str(self.pair), self.corpus, line, "")
            else:
                yield SentencePair(id_, self.pair, self.corpus, line, *texts)


# --- training -------------------------------------------------------------------------------------


def train(config: AlignTrainConfig) -> str:
    """Trains and saves a model for each language pair; returns what to tell the user. `ConfigError` before anything is
    read."""
    pairs = list(dict.fromkeys(named_pair(name, config.tokenized) for name in config.pair))
    if not pairs:
        raise ConfigError("No language pair. Name one or more, source first: --pair en-vi")
    if not config.bitext and not config.input:
        raise ConfigError(
            "No corpus. Name one or more, for instance: --bitext news.en,news.vi; or, with `source ||| target` on a "
            "line: --input FILE (- is the standard input)"
        )
    if config.bitext and config.input:
        raise ConfigError("Name either --bitext or --input, not both.")
    if config.input and len(pairs) > 1:
        raise ConfigError(f"--input {config.input} is of one language pair, not of {len(pairs)}. For several: --bitext")
    if config.aligner.model:
        raise ConfigError("--aligner.model is a model to align with; to name the one to write: --model FILE")
    if not config.model:
        raise ConfigError("No model file to write. Name one: --model FILE")
    threads = number_of_threads(config.threads)
    paths = path_of_each_pair("--model", config.model, pairs)
    for path in paths.values():
        check_output("--model", path, config.overwrite)
    texts = {pair: TrainingText.of(pair, tokenized=config.tokenized) for pair in pairs}
    for path in path_of_each_pair("--prior", config.prior, pairs).values() if config.prior else ():
        check_input("--prior", path)
    if config.input:
        check_input("--input", config.input)
        files: list[BitextFile | LinesFile] = [LinesFile(pairs[0], config.input, config.format)]
    else:
        files = [*expand_bitext(config.bitext, pairs)]
    inputs = [path for file in files for path in file_paths(file)]
    for path in paths.values():
        check_output("--model", path, config.overwrite, inputs)
    priors = load_priors(config.prior, texts) if config.prior else {}
    told = []
    for pair, text in texts.items():
        mine = [file for file in files if file.pair == pair]
        model, size, seconds = trained_model(text, mine, config, threads, priors.get(pair))
        with open_output(paths[pair]) as stream:
            model.save(stream)
        told.append(
            f"Wrote {paths[pair]}, trained on {size:,} sentence pairs{' and a prior' if pair in priors else ''} in "
            f"{seconds:.0f} s (fingerprint {model.fingerprint()}).\n"
            f"Align with it:  polyspan-data align apply --model {paths[pair]} --source FILE --target FILE"
        )
        if all(lang in LANGUAGES for lang in pair):
            told.append(f"In a job:       polyspan-data clism --aligner.model {paths[pair]} …")
    return "\n".join(told)


def file_paths(file: BitextFile | LinesFile) -> tuple[str, ...]:
    return (file.source_path, file.target_path) if isinstance(file, BitextFile) else (file.path,)


def load_priors(path: str, texts: Mapping[LanguagePair, TrainingText]) -> dict[LanguagePair, AlignmentModel]:
    """`ConfigError` where one was trained on another language pair."""
    found = {}
    for pair, prior_path in path_of_each_pair("--prior", path, list(texts)).items():
        found[pair] = AlignmentModel.load(prior_path)
        if trained := found[pair].text:
            check_text(texts[pair], trained, prior_path)
    return found


def trained_model(
    text: TrainingText,
    files: Sequence[BitextFile | LinesFile],
    config: AlignTrainConfig,
    threads: int,
    prior: AlignmentModel | None,
) -> tuple[AlignmentModel, int, float]:
    """The model of one language pair, how many sentence pairs trained it, and the seconds that it took."""
    pair = text.pair
    rejects: Counter[str] = Counter()
    corpus = training_corpus(files, tokenizers_of(text), config, rejects)
    size = len(corpus)
    refused = ", ".join(f"{reason} {number:,}" for reason, number in sorted(rejects.items())) or "none"
    if not size:
        raise InputError(
            f"{pair}: no sentence pair of {', '.join(file.corpus for file in files)} is left to train on. "
            f"Refused: {refused}."
        )
    logger.info("%s: training on %s sentence pairs (refused: %s)", pair, f"{size:,}", refused)
    started = time.monotonic()
    model = train_model(corpus, config.aligner, _tell_since(started), prior=prior, threads=threads)
    return replace(model, text=text), size, _since(started)


def training_corpus(
    files: Iterable[BitextFile | LinesFile],
    tokenizers: tuple[Tokenize, Tokenize],
    config: AlignTrainConfig,
    rejects: Counter[str],
) -> NumberedPairs:
    """The words of the sentence pairs that the CLISM job would train on, of which `rejects` counts the others.

    Of a corpus that is larger than `training_pairs`, most pairs are not examined, nor counted. Memory: four bytes a
    word of the sample, and at most eighteen for every pair of texts read if duplicates are to be dropped.
    """
    corpus = NumberedPairs()
    seen = SeenTexts()

    def records() -> Iterator[tuple[SentencePair, bool]]:
        """Each pair, and whether the same texts stood earlier."""
        read, started = 0, time.monotonic()
        told = started
        for file in files:
            for record in read_bitext(file) if isinstance(file, BitextFile) else file.records():
                read += 1
                if time.monotonic() - told > PROGRESS_S:
                    told = time.monotonic()
                    logger.info("[%5.0f s] read %s sentence pairs", told - started, f"{read:,}")
                if isinstance(record, Reject):
                    rejects[record.reason] += 1
                    continue
                yield record, config.filters.drop_duplicates and not seen.add(text_digest(record))

    def add(item: tuple[SentencePair, bool]) -> bool:
        record, is_duplicate = item
        words = filter_pair(record, is_duplicate, tokenizers, config.filters)
        if isinstance(words, str):
            rejects[words] += 1
            return False
        corpus.append(*words)
        return True

    sample_by_hash(records(), config.aligner.training_pairs, config.seed, lambda item: item[0].id, add, corpus.keep)
    return corpus


# --- alignment ------------------------------------------------------------------------------------


def apply(config: AlignApplyConfig) -> None:
    """Writes a line of links for each line of the input, in blocks; says on the way how many and how fast."""
    if not config.model:
        raise ConfigError("No model. Train one with `polyspan-data align train`, then name it: --model FILE")
    if config.min_score >= 1.0:
        raise ConfigError(f"--min-score {config.min_score}: expected less than 1; scores are probabilities.")
    if config.min_score >= 0.0 and config.symmetrize != "posterior":
        raise ConfigError(f"--min-score goes with --symmetrize posterior, not with {config.symmetrize}.")
    if bool(config.source) != bool(config.target) or (config.source and config.input != "-"):
        raise ConfigError("Name either --source FILE and --target FILE, or one --input FILE with both sides on a line.")
    if config.source and config.source == config.target:
        raise ConfigError(f"--source and --target are the same, {config.source}: expected two line-aligned files.")
    pair = named_pair(config.pair, config.tokenized) if config.pair else None
    threads = number_of_threads(config.threads)
    for option in ("model", "source", "target") if config.source else ("model", "input"):
        check_input(f"--{option}", getattr(config, option))
    if config.adapt:
        check_read_twice(config)
    if config.output != "-":
        inputs = [config.model, *((config.source, config.target) if config.source else (config.input,))]
        check_output("--output", config.output, config.overwrite, inputs)
    model = AlignmentModel.load(config.model, copy=True if config.copy else None)
    text = text_to_align(config, pair, model.text)
    if config.min_score >= 0.0:
        model = replace(model, config=replace(model.config, min_score=config.min_score))

    if config.adapt:
        model = adapted(model, config, text, threads)
    write_links(read_texts(config, text.pair), model, tokenizers_of(text), config)


def write_links(texts: Texts, model: AlignmentModel, tokenizers: tuple[Tokenize, Tokenize], config: Writing) -> None:
    """Aligns block by block; says on the way how many lines there were and how fast."""
    bad: Counter[str] = Counter()
    with closing(texts), open_output(config.output) as stream:
        started = told = time.monotonic()
        lines = 0
        while block := list(islice(texts, BLOCK_PAIRS)):
            stream.writelines(line.encode() + b"\n" for line in align_block(block, model, tokenizers, config, bad))
            lines += len(block)
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                logger.info("[%5.0f s] %s", told - started, _rate(lines, told - started))
        stream.flush()
    logger.info("Aligned %s", _rate(lines, _since(started)))
    if bad:
        counts = ", ".join(f"{reason} {number:,}" for reason, number in sorted(bad.items()))
        logger.info("Lines that got no link because they are unfit: %s", counts)


def text_to_align(config: AlignApplyConfig, pair: LanguagePair | None, trained: TrainingText | None) -> TrainingText:
    """How words are found: as asked for, otherwise as in the text that the model was trained on."""
    if trained is None:
        if not pair and not config.tokenized:
            raise ConfigError(
                f"{config.model} does not say which languages it is for. They are needed to find the words: "
                "--pair en-vi. If white space separates the words already: --tokenized"
            )
        return TrainingText.of(pair or LanguagePair("source", "target"), tokenized=config.tokenized)
    tokenized = config.tokenized or (trained.tokenized and not pair)
    text = TrainingText.of(pair or trained.pair, tokenized=tokenized)
    check_text(text, trained, config.model)
    return text


def check_read_twice(config: AlignApplyConfig) -> None:
    """`ConfigError` where what is read is gone then."""
    for path in (config.source, config.target) if config.source else (config.input,):
        if path == "-" or (not is_remote(path) and os.path.exists(path) and not os.path.isfile(path)):
            raise ConfigError(f"--adapt reads the input twice, which {path} does not allow: expected a file.")


def adapted(model: AlignmentModel, config: AlignApplyConfig, text: TrainingText, threads: int) -> AlignmentModel:
    """The model after training on the input too. Memory: the sample, and what training takes."""
    tokenizers = tokenizers_of(text)
    sample = NumberedPairs()

    def add(texts: tuple[str, str] | BadLine) -> bool:
        if isinstance(texts, BadLine):
            return False
        source, target = tokenizers[0](texts[0]), tokenizers[1](texts[1])
        lengths = len(source), len(target)
        if min(lengths) == 0 or max(lengths) > model.config.max_words:
            return False
        sample.append(source, target)
        return True

    with closing(read_texts(config, text.pair)) as lines:
        sample_by_hash(lines, model.config.training_pairs, 0, "\0".join, add, sample.keep)
    logger.info("Adapting to %s sentence pairs", f"{len(sample):,}")
    return train_model(sample, model.config, _tell_since(time.monotonic()), prior=model, threads=threads)


def align_block(
    block: Sequence[tuple[str, str] | BadLine],
    model: AlignmentModel,
    tokenizers: tuple[Tokenize, Tokenize],
    config: Writing,
    bad: Counter[str],
) -> Iterator[str]:
    """What is written for each line of a block; `bad` counts those that are unfit."""
    pairs: list[WordPair] = []
    for texts in block:
        words: WordPair = ([], [])
        if isinstance(texts, BadLine):
            bad[texts.reason] += 1
        else:
            words = tokenizers[0](texts[0]), tokenizers[1](texts[1])
            bad.update(["too_long"] * (max(map(len, words)) > model.config.max_words))
        pairs.append(words)
    threads = number_of_threads(config.threads)
    links: list[list[Link]]
    try:
        if config.symmetrize == "posterior":
            links = model.align_batch(pairs, threads=threads)
        else:
            links = align_symmetrized(model, pairs, config.symmetrize, threads=threads)
    except MemoryError:
        longest = max(max(map(len, words)) for words in pairs)
        raise InputError(
            f"Too little memory to link lines of up to {longest:,} words with {threads} threads. Try --threads 1, or a "
            "model of fewer --aligner.max-words."
        ) from None
    for (source, target), found in zip(pairs, links, strict=True):
        text = format_links(found, config.scores)
        yield f"{' '.join(source)} ||| {' '.join(target)} ||| {text}".rstrip(" ") if config.words else text


def read_texts(config: AlignApplyConfig, pair: LanguagePair) -> Texts:
    """Both sides of each line of the input."""
    return read_two_files(config, pair) if config.source else LinesFile(pair, config.input, config.format).texts()


def read_two_files(config: AlignApplyConfig, pair: LanguagePair) -> Texts:
    """Both sides of each line of two line-aligned files."""
    for record in read_bitext(BitextFile(pair, "", "moses", input_path(config.source), input_path(config.target))):
        if isinstance(record, Reject):
            yield BadLine(record.reason)
        else:
            yield record.source_text, record.target_text


# --- both in one step -----------------------------------------------------------------------------


def align_file(config: AlignFileConfig) -> None:
    """Trains on a file's lines and writes a line of links for each. `ConfigError` before anything is read."""
    pair = named_pair(config.pair, config.tokenized) if config.pair else LanguagePair("source", "target")
    if config.aligner.model:
        raise ConfigError("--aligner.model is a model to align with: polyspan-data align apply --model FILE")
    threads = number_of_threads(config.threads)
    check_input("the input", config.input)
    written = [option for option in ("output", "model") if getattr(config, option) not in ("", "-")]
    for option in written:
        check_output(f"--{option}", getattr(config, option), config.overwrite, [config.input])
    if len(written) == 2 and same_file(config.output, config.model):
        raise ConfigError(f"--output and --model are the same, {config.output}: expected two files.")
    text = TrainingText.of(pair, tokenized=config.tokenized or not config.pair)
    training = AlignTrainConfig(filters=config.filters, aligner=config.aligner)
    with readable_twice(config.input) as path:
        file = LinesFile(pair, path, config.format, config.input)
        model, _, _ = trained_model(text, [file], training, threads, None)
        if config.model:
            with open_output(config.model) as stream:
                (model if config.pair else replace(model, text=None)).save(stream)
        write_links(file.texts(), model, tokenizers_of(text), config)


@contextmanager
def readable_twice(path: str) -> Iterator[str]:
    """The path of a file that holds what `path` does: a copy of what is gone once it is read."""
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


# --- agreement ------------------------------------------------------------------------------------


def score(config: AlignScoreConfig) -> str:
    """What to tell the user of the agreement of two files."""
    for name in ("gold", "links"):
        if not getattr(config, name):
            raise ConfigError(f"No file of {name}. Name one: --{name} FILE")
    for name in ("gold", "links"):
        check_input(f"--{name}", getattr(config, name))
    if config.gold == config.links:
        raise ConfigError(f"--gold and --links are the same, {config.gold}: expected two files.")
    first = Firsts(int(config.one_based), int(config.one_based_links))
    return score_line(compare_files(input_path(config.gold), input_path(config.links), first, logger.warning))


def score_line(found: Agreement) -> str:
    """
    >>> score_line(Agreement(sentences=2, found=4, found_possible=3, found_sure=2, sure=3, possible=5))
    'AER 0.2857  precision 0.7500  recall 0.6667  (2 sentences, 4 links; gold: 3 sure, 2 possible)'
    """
    return (
        f"AER {found.error_rate:.4f}  precision {found.precision:.4f}  recall {found.recall:.4f}  "
        f"({found.sentences:,} sentences, {found.found:,} links; "
        f"gold: {found.sure:,} sure, {found.possible - found.sure:,} possible)"
    )


# --- files and words ------------------------------------------------------------------------------


def named_pair(name: str, tokenized: bool) -> LanguagePair:
    """`language_pair`, whose refusal of an unknown language says how to align it all the same."""
    try:
        return language_pair(name, tokenized=tokenized)
    except ConfigError as error:
        if tokenized or any(not is_language_code(code) for code in name.split("-")):
            raise
        raise ConfigError(
            f"{error} If white space separates the words already, any language goes: --tokenized"
        ) from None


def tokenizers_of(text: TrainingText) -> tuple[Tokenize, Tokenize]:
    if text.tokenized:
        return str.split, str.split
    return _words_in(text.pair.source), _words_in(text.pair.target)


def _words_in(lang: str) -> Tokenize:
    tokenize = tokenizer_for(lang)
    return lambda text: token_texts(text, tokenize(text))


def number_of_threads(wanted: int) -> int:
    if wanted < 0:
        raise ConfigError(f"--threads {wanted}: expected 1 or more, or 0 for as many as there are cores.")
    return wanted or os.cpu_count() or 1


def input_path(path: str) -> str:
    return "/dev/stdin" if path == "-" else path


def check_input(option: str, path: str) -> None:
    """`ConfigError` where there is no such file."""
    if path == "-" or (os.path.exists(path) and not os.path.isdir(path)):
        return
    if () not in match_paths(path):
        raise ConfigError(f"{option} {path}: a pattern, expected one file.")


def same_file(one: str, other: str) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return identity(one) == identity(other)


def check_output(option: str, path: str, overwrite: bool, inputs: Iterable[str] = ()) -> None:
    """`ConfigError` where a file could not be written, or one is there that must not be replaced: an input never."""
    if read := [each for each in inputs if same_file(each, path)]:
        raise ConfigError(f"{option} {path}: the command reads {read[0]}, which is that file. Name another.")
    if is_remote(path):
        from apache_beam.io.filesystems import FileSystems

        exists = FileSystems.exists(path)
    else:
        exists, folder = os.path.exists(path), os.path.dirname(path) or "."
        if exists and not os.path.isdir(path) and not os.path.isfile(path):
            return  # a pipe, /dev/null: written to
        if os.path.isdir(path):
            raise ConfigError(f"{option} {path}: a folder, expected a file to write.")
        if not os.path.isdir(folder):
            raise ConfigError(f"{option} {path}: there is no folder {folder}. Make it with: mkdir -p {folder}")
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"{option} {path}: nothing can be written to the folder {folder}.")
    if exists and not overwrite:
        raise ConfigError(f"{option} {path}: the file is there already. Name another, or replace it with: --overwrite")


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """The standard output, or a file that appears under its name when it is complete."""
    if path == "-":
        yield sys.stdout.buffer
    elif is_remote(path):
        from pipelines.runtime.work_folder import (
            replace_file,  # Beam, which takes time and memory, where a path needs it
        )

        with replace_file(path) as stream:
            yield stream
    else:
        with replacing(path) as stream:
            yield stream


def _tell_since(started: float) -> Callable[[str], None]:
    return lambda line: logger.info("[%5.0f s] %s", _since(started), line)


def _since(started: float) -> float:
    return time.monotonic() - started


def _rate(lines: int, seconds: float) -> str:
    return f"{lines:,} lines, {lines / max(seconds, 1e-3):,.0f} a second"
