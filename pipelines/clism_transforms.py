"""Transforms that make up the graph of the CLISM job.

Each calls the steps for one chunk, stores the result in the work folder and passes on a reference (`stage_tables.py`
lists the stages). The steps decide everything except this: the first of several equal pairs, in input order, is the one
that stays; and a pair without a mention (`no_mention`) or without a question (`no_answer`) is refused.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from pipelines.aligner import Aligner, AlignerConfig, AlignmentModel, aligner_kind
from pipelines.aligner.aligners import TrainingPairs
from pipelines.runtime.job_context import FILES_STAGE, JobContext
from pipelines.runtime.work_folder import WorkFolder, replace_file
from pipelines.steps.bitext.filters import FilterConfig, filter_pair
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import excerpt, read_bitext
from pipelines.steps.clism.masking import MaskingConfig, TokenizedPair, mask_mentions
from pipelines.steps.clism.stage_tables import (
    MASKED_STAGE,
    MODELS_STAGE,
    READ_STAGE,
    TOKENIZED_STAGE,
    Chunk,
    pairs_to_table,
    table_to_pairs,
    table_to_tokenized,
    tokenized_to_table,
)
from pipelines.steps.common.aligner_models import training_text
from pipelines.steps.common.files import FileDigest, open_raw
from pipelines.steps.common.hash_sample import sample_by_hash
from pipelines.steps.common.ledger import Ledger
from pipelines.steps.common.paths import is_remote
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair
from pipelines.steps.common.tokenize import token_texts, tokenizer_for
from pipelines.steps.ner.config import TaggerConfig
from pipelines.steps.ner.taggers import load_tagger
from schemas.clism import ARROW_SCHEMA, PairCounts
from schemas.manifest import InputFile
from schemas.rejects import MAX_EXCERPT_CHARS, Reject

DIGEST_PARTITIONS = 64

logger = logging.getLogger(__name__)


# --- reading --------------------------------------------------------------------------------------


@dataclass
class ReadBitext(beam.PTransform):
    """Parallel corpora → chunks, each with its rows whose texts occurred earlier in the input."""

    files: list[BitextFile]
    shown: Mapping[str, str]  # path → how the manifest shows it
    chunk_pairs: int
    find_duplicates: bool
    job: JobContext

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[tuple[Chunk, tuple[int, ...]]]:
        chunks = (
            pipeline
            | "Files" >> beam.Create([(n, file, shown_of(file, self.shown)) for n, file in enumerate(self.files)])
            | "Spread" >> beam.Reshuffle()
            | "Cut" >> beam.FlatMap(read_chunks, self.job, self.chunk_pairs)
        )
        if not self.find_duplicates:
            return chunks | "Balance" >> beam.Reshuffle() | beam.Map(lambda chunk: (chunk, ()))
        duplicates = (
            chunks
            | "Digests" >> beam.FlatMap(digests_by_partition, self.job.work)
            | "SamePartition" >> beam.GroupByKey()
            | "Repeated" >> beam.FlatMap(repeated_rows)
        )
        return (
            {"chunk": chunks | beam.Map(lambda chunk: (chunk.key, chunk)), "rows": duplicates}
            | "DuplicatesOfChunk" >> beam.CoGroupByKey()
            | beam.Map(lambda item: (item[1]["chunk"][0], tuple(sorted(itertools.chain(*item[1]["rows"])))))
        )


def shown_of(file: BitextFile, shown: Mapping[str, str]) -> dict[str, str]:
    return {path: shown[path] for path in (file.source_path, file.target_path)}


def read_chunks(
    numbered: tuple[int, BitextFile, Mapping[str, str]], job: JobContext, chunk_pairs: int
) -> Iterator[Chunk]:
    """Cuts one file into chunks of `chunk_pairs` records, reading it once from start to end."""
    index, file, shown = numbered
    pair = str(file.pair)

    def read() -> tuple[None, dict[str, Any]]:
        digests: list[FileDigest] = []
        records = read_bitext(file, digests)
        keys: list[str] = []
        while block := list(itertools.islice(records, chunk_pairs)):
            keys.append(f"{index:05d}-{len(keys):07d}")
            kept = [record for record in block if isinstance(record, SentencePair)]
            ledger = job.ledger()
            rejects = [record for record in block if isinstance(record, Reject)]
            ledger.add(pair, PairCounts(pairs_read=len(block)), rejects)
            job.work.run_once(READ_STAGE, keys[-1], functools.partial(_read_chunk, kept, ledger))
        inputs = [InputFile(file.corpus, shown[path], size, sha256)._asdict() for path, size, sha256 in digests]
        return None, {"chunks": keys, "inputs": inputs}

    for key in job.work.run_once(FILES_STAGE, f"{index:05d}", read)["chunks"]:
        yield Chunk(key, pair, file.corpus)


def _read_chunk(pairs: list[SentencePair], ledger: Ledger) -> tuple[pa.Table, dict[str, Any]]:
    return pairs_to_table(pairs), ledger.to_json()


def digests_by_partition(chunk: Chunk, work: WorkFolder) -> Iterator[tuple[str, tuple[str, list[tuple[int, bytes]]]]]:
    """Partitions the chunk's text digests, so that equal texts of a language pair are in one partition."""
    parts: dict[int, list[tuple[int, bytes]]] = {}
    for row, digest in enumerate(work.table(READ_STAGE, chunk.key, ["digest"])["digest"].to_pylist()):
        parts.setdefault(digest[0] % DIGEST_PARTITIONS, []).append((row, digest))
    for part, rows in parts.items():
        yield f"{chunk.pair} {part}", (chunk.key, rows)


def repeated_rows(
    group: tuple[str, Iterable[tuple[str, list[tuple[int, bytes]]]]],
) -> Iterator[tuple[str, list[int]]]:
    """Yields (chunk key, rows) of the texts that occurred earlier in the input."""
    seen: set[bytes] = set()
    for key, rows in sorted(group[1]):
        repeated = []
        for row, digest in rows:
            if digest in seen:
                repeated.append(row)
            seen.add(digest)
        if repeated:
            yield key, repeated


# --- words and mentions ---------------------------------------------------------------------------


@dataclass
class TokenizeAndTag(beam.PTransform):
    """Chunks → the same chunks, whose pairs are filtered and have words and source mentions."""

    filters: FilterConfig
    tagger: TaggerConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[tuple[Chunk, tuple[int, ...]]]) -> beam.PCollection[Chunk]:
        return chunks | beam.Map(tokenize_and_tag, self.job, self.filters, self.tagger)


def tokenize_and_tag(
    item: tuple[Chunk, tuple[int, ...]], job: JobContext, filters: FilterConfig, tagger: TaggerConfig
) -> Chunk:
    """Filters the sentence pairs of one chunk, splits them into words, and tags the source sides."""
    chunk, duplicate_rows = item
    languages = chunk.languages

    def make() -> tuple[pa.Table, dict[str, Any]]:
        tokenizers = tokenizer_for(languages.source), tokenizer_for(languages.target)
        duplicates = set(duplicate_rows)
        rejects: list[Reject] = []
        kept: list[TokenizedPair] = []
        for row, sentences in enumerate(table_to_pairs(job.work.table(READ_STAGE, chunk.key), chunk)):
            words = filter_pair(sentences, row in duplicates, tokenizers, filters)
            if isinstance(words, str):
                rejects.append(pair_reject(words, sentences))
            else:
                kept.append(TokenizedPair(sentences, *words, ()))
        mentions = load_tagger(tagger, languages.source).tag([row.sentences.source_text for row in kept])
        ledger = job.ledger_of(READ_STAGE, chunk.key)
        ledger.add(chunk.pair, PairCounts(), rejects)
        tagged = (row._replace(mentions=tags) for row, tags in zip(kept, mentions, strict=True))
        return tokenized_to_table(tagged), ledger.to_json()

    job.work.run_once(TOKENIZED_STAGE, chunk.key, make)
    return chunk


# --- alignment ------------------------------------------------------------------------------------


@dataclass
class TrainAligners(beam.PTransform):
    """Chunks → (language pair, path of its aligner's model), trained on the corpus or on a sample of it."""

    config: AlignerConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[tuple[str, str]]:
        return (
            chunks
            | beam.Map(lambda chunk: (chunk.pair, chunk))
            | "SamePair" >> beam.GroupByKey()
            | "Train" >> beam.Map(train_aligner, self.job, self.config)
        )


def train_aligner(group: tuple[str, Iterable[Chunk]], job: JobContext, config: AlignerConfig) -> tuple[str, str]:
    """Trains and stores the aligner of one language pair; returns the pair and the path of the model."""
    pair, chunks = group[0], sorted(group[1])
    path = job.work.file(MODELS_STAGE, f"{pair}.model")

    def make() -> tuple[None, dict[str, Any]]:
        corpus = sample_for_training(chunks, job, config)
        size = len(corpus)
        logger.info("%s: training the word aligner on %s sentence pairs", pair, f"{size:,}")
        started = time.monotonic()
        # Nothing else of this language pair can run meanwhile, and the number of threads decides no byte.
        text, threads = training_text(chunks[0].languages), os.cpu_count() or 1
        model = aligner_kind(config).train(
            corpus, config, text, lambda line: logger.info("%s: %s", pair, line), threads
        )
        logger.info("%s: trained in %.0f s", pair, time.monotonic() - started)
        with replace_file(path) as stream:
            model.save(stream)
        return None, {"training_pairs": size}

    job.work.run_once(MODELS_STAGE, pair, make)
    return pair, path


def keep_aligner(pair: str, model: AlignmentModel, job: JobContext) -> str:
    """Copies a given model to the work folder, where nobody overwrites it while workers share it; returns the path."""
    path = job.work.file(MODELS_STAGE, f"{pair}.model")

    def make() -> tuple[None, dict[str, Any]]:
        with replace_file(path) as stream:
            model.save(stream)
        return None, {"fingerprint": model.fingerprint()}

    job.work.run_once(MODELS_STAGE, pair, make)
    return path


def sample_for_training(chunks: list[Chunk], job: JobContext, config: AlignerConfig) -> TrainingPairs:
    """Samples at most `training_pairs` sentence pairs, those with the smallest hash of (seed, id), in input order."""
    rows = (row for chunk in chunks for row in table_to_tokenized(job.work.table(TOKENIZED_STAGE, chunk.key), chunk))
    corpus: TrainingPairs = aligner_kind(config).pairs()

    def add(row: TokenizedPair) -> bool:
        corpus.append(*_words(row))
        return True

    sample_by_hash(rows, config.training_pairs, job.seed, lambda row: row.sentences.id, add, corpus.keep)
    return corpus


def _words(row: TokenizedPair) -> tuple[list[str], list[str]]:
    return (
        token_texts(row.sentences.source_text, row.source_tokens),
        token_texts(row.sentences.target_text, row.target_tokens),
    )


# --- masking --------------------------------------------------------------------------------------


@dataclass
class AlignAndMask(beam.PTransform):
    """Chunks → the same chunks, made into examples with the links of their language pair's aligner."""

    models: beam.PCollection[tuple[str, str]]
    aligner: AlignerConfig
    masking: MaskingConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        models = beam.pvalue.AsDict(self.models)
        return chunks | beam.Map(align_and_mask, models, self.aligner, self.masking, self.job)


def align_and_mask(
    chunk: Chunk, models: dict[str, str], aligner: AlignerConfig, masking: MaskingConfig, job: JobContext
) -> Chunk:
    """Links the words of one chunk and makes the examples."""

    def make() -> tuple[pa.Table, dict[str, Any]]:
        ledger = job.ledger_of(TOKENIZED_STAGE, chunk.key)
        rejects, examples, with_mentions = [], [], []
        for row in table_to_tokenized(job.work.table(TOKENIZED_STAGE, chunk.key), chunk):
            if row.mentions:
                with_mentions.append(row)
            else:
                rejects.append(pair_reject("no_mention", row.sentences))
        links = load_aligner(models[chunk.pair], aligner).align_batch([_words(row) for row in with_mentions])
        for row, row_links in zip(with_mentions, links, strict=True):
            example, refused = mask_mentions(row, row_links, masking)
            rejects += [mention_reject(reason, row.sentences, mention) for reason, mention in refused]
            if example is None:
                rejects.append(pair_reject("no_answer", row.sentences))
            else:
                examples.append(example)
        counts = PairCounts(
            examples=len(examples),
            mentions_found=sum(len(row.mentions) for row in with_mentions),
            questions=sum(len(example.questions) for example in examples),
        )
        ledger.add(chunk.pair, counts, rejects)
        return pa.Table.from_pylist([example.to_row() for example in examples], schema=ARROW_SCHEMA), ledger.to_json()

    job.work.run_once(MASKED_STAGE, chunk.key, make)
    return chunk


@functools.lru_cache(maxsize=2)
def load_aligner(path: str, config: AlignerConfig) -> Aligner:
    """Loads an aligner from the work folder, once per process."""
    if not is_remote(path):
        return aligner_kind(config).load(path, config)
    with open_raw(path) as remote, tempfile.NamedTemporaryFile() as local:
        shutil.copyfileobj(remote, local)
        local.flush()
        return aligner_kind(config).load(local.name, config)


def pair_reject(reason: str, sentences: SentencePair) -> Reject:
    return _make_reject("pair", reason, sentences, excerpt(sentences.source_text, sentences.target_text))


def mention_reject(reason: str, sentences: SentencePair, mention: EntityMention) -> Reject:
    texts = excerpt(sentences.source_text, sentences.target_text)
    return _make_reject("mention", reason, sentences, f"{mention.span.of(sentences.source_text)} ⟵ {texts}")


def _make_reject(unit: str, reason: str, sentences: SentencePair, text: str) -> Reject:
    languages, corpus, line = str(sentences.languages), sentences.corpus, sentences.line
    return Reject(reason, unit, sentences.id, languages, corpus, line, text[:MAX_EXCERPT_CHARS])
