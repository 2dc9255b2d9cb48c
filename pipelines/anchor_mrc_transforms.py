"""The transforms of the anchor-MRC job. Each calls a step for one chunk of pages, or for one part of a wiki's entities,
and keeps the result in the work folder; Beam's elements only name chunks and parts.

The table of stages is in `pipelines/steps/anchor_mrc/stage_tables.py`. Parts are runs of entities in the order of their
titles' hashes. So an example's row, and all that is drawn for it, depends on the wiki alone, and not on how its dump is
stored or cut.

A step that reads files of all chunks or parts takes a side input that it does not use (`all_titles_built`). Beam starts
a step only when its side inputs are complete, so this is a barrier: the files are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from pipelines.runtime.job_context import FILES_STAGE, JobContext
from pipelines.runtime.work_folder import WorkFolder, replace_file
from pipelines.steps.anchor_mrc.hash_draws import Ints
from pipelines.steps.anchor_mrc.link_resolution import (
    definitions_of,
    is_own_row,
    link_counts,
    link_rejects,
    linked_articles,
    locator,
    resolve_links,
)
from pipelines.steps.anchor_mrc.mention_sampling import cut_by_part, mentions_of, sample_mentions, wanted_texts
from pipelines.steps.anchor_mrc.stage_tables import (
    DEFINED_STAGE,
    EXAMPLES_STAGE,
    LINKED_STAGE,
    MENTIONS_STAGE,
    PAGES_STAGE,
    SAMPLED_STAGE,
    TEXTS_STAGE,
    TITLES_STAGE,
    WANTED_STAGE,
)
from pipelines.steps.anchor_mrc.triplets import TripletConfig, cut_texts, pair_texts
from pipelines.steps.common.files import file_digest, read_lines
from pipelines.steps.wikipedia.dump import Damage, DumpRange, Page, read_pages
from pipelines.steps.wikipedia.pages import pages_table
from pipelines.steps.wikipedia.title_table import TitleRecord, TitleTable, build_titles
from pipelines.steps.wikipedia.wikiextractor import BadLine, ExtractedFile, ExtractedPage, read_extracted
from pipelines.steps.wikitext.site import Site
from schemas.anchor_mrc import ARROW_SCHEMA, AnchorCounts
from schemas.manifest import InputFile

ARTICLES_PER_PART = 2000  # limits the examples that a worker holds in memory


class PageChunk(NamedTuple):
    """The pages that begin in one range of a dump file, or the pages of an extracted file. Keys sort in this order."""

    key: str
    lang: str
    corpus: str  # the file's name
    source: DumpRange | ExtractedFile


class EntityPart(NamedTuple):
    """Part `number` holds a language's entities `number * n / parts` to below `(number + 1) * n / parts`, n in all."""

    lang: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.lang}-{self.number:06d}"


class Wiki(NamedTuple):
    """The cut of one language's wiki, known when its title table is built."""

    chunks: tuple[str, ...]  # keys, in order
    parts: int


@lru_cache(maxsize=64)
def wiki_of(lang: str, work: WorkFolder) -> Wiki:
    summary = work.summary(TITLES_STAGE, lang)
    return Wiki(tuple(summary["chunks"]), summary["parts"])


def titles_path(lang: str, job: JobContext) -> str:
    return job.work.file(TITLES_STAGE, f"{lang}.titles")


@lru_cache(maxsize=2)
def load_titles(path: str) -> TitleTable:
    return TitleTable.load(path)


def titles_of(lang: str, job: JobContext) -> TitleTable:
    return load_titles(titles_path(lang, job))


# --- chunks of pages ------------------------------------------------------------------------------


@dataclass
class ReadDump(beam.PTransform):
    """Ranges of dump files → chunks of pages: plain text, anchors and their targets."""

    chunks: list[PageChunk]
    sites: dict[str, Site]
    job: JobContext

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[PageChunk]:
        return pipeline | beam.Create(self.chunks) | beam.Reshuffle() | beam.Map(read_chunk, self.sites, self.job)


def read_chunk(chunk: PageChunk, sites: dict[str, Site], job: JobContext) -> PageChunk:
    def make() -> tuple[pa.Table, dict[str, Any]]:
        source = chunk.source
        pages: Iterable[Page | ExtractedPage | Damage | BadLine]
        pages = read_pages(source) if isinstance(source, DumpRange) else read_extracted(read_lines(source.path))
        table, counts, rejects = pages_table(pages, sites[chunk.lang], chunk.corpus)
        ledger = job.ledger()
        ledger.add(chunk.lang, counts, rejects)
        return table, ledger.to_json()

    job.work.run_once(PAGES_STAGE, chunk.key, make)
    return chunk


@dataclass
class DigestFiles(beam.PTransform):
    """Computes the input files' sizes and checksums, and returns their paths."""

    shown: Mapping[str, str]  # path → path as the manifest shows it
    job: JobContext

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[str]:
        return (
            pipeline
            | beam.Create(list(enumerate(self.shown.items())))
            | beam.Reshuffle()
            | beam.Map(digest_file, self.job)
        )


def digest_file(numbered: tuple[int, tuple[str, str]], job: JobContext) -> str:
    number, (path, shown) = numbered

    def make() -> tuple[None, dict[str, Any]]:
        digest = file_digest(path)
        return None, {"inputs": [InputFile(path.rsplit("/", 1)[-1], shown, digest.size_bytes, digest.sha256)._asdict()]}

    job.work.run_once(FILES_STAGE, f"{number:05d}", make)
    return path


@dataclass
class ResolveLinks(beam.PTransform):
    """Chunks → chunks whose links are resolved, when all title tables are built. Their mentions are cut by part."""

    titles: beam.PCollection[str]
    config: TripletConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[PageChunk]) -> beam.PCollection[PageChunk]:
        return chunks | beam.Map(resolve_chunk, beam.pvalue.AsList(self.titles), self.config.per_entity, self.job)


def resolve_chunk(chunk: PageChunk, all_titles_built: list[str], per_entity: int, job: JobContext) -> PageChunk:
    def make() -> tuple[pa.Table, dict[str, Any]]:
        titles, wiki = titles_of(chunk.lang, job), wiki_of(chunk.lang, job.work)
        pages = job.work.table(PAGES_STAGE, chunk.key)
        own_rows = is_own_row(pages, titles, wiki.chunks.index(chunk.key))
        links = resolve_links(pages, titles, own_rows)
        for stage, table in (
            (DEFINED_STAGE, definitions_of(pages, titles, own_rows)),
            (MENTIONS_STAGE, mentions_of(pages, links, job.seed, per_entity)),
        ):
            job.work.run_once(stage, chunk.key, partial(_parts, table, titles.counts.articles, wiki.parts))
        ledger = job.ledger()
        ledger.add(chunk.lang, link_counts(links), link_rejects(links, pages, chunk.lang, chunk.corpus))
        return linked_articles(links, pages.num_rows), ledger.to_json()

    job.work.run_once(LINKED_STAGE, chunk.key, make)
    return chunk


def _parts(table: pa.Table, entities: int, parts: int) -> tuple[list[pa.Table], dict[str, Any]]:
    return cut_by_part(table, entities, parts), {}


@dataclass
class CutTexts(beam.PTransform):
    """Chunks → chunks whose queries and contexts are cut, when all parts have listed the texts that they want."""

    wanted: beam.PCollection[EntityPart]
    config: TripletConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[PageChunk]) -> beam.PCollection[PageChunk]:
        return chunks | beam.Map(cut_chunk, beam.pvalue.AsList(self.wanted), self.config, self.job)


def cut_chunk(
    chunk: PageChunk, all_texts_wanted: list[EntityPart], config: TripletConfig, job: JobContext
) -> PageChunk:
    def make() -> tuple[list[pa.Table], dict[str, Any]]:
        wiki = wiki_of(chunk.lang, job.work)
        number = wiki.chunks.index(chunk.key)
        wanted = [job.work.part(WANTED_STAGE, EntityPart(chunk.lang, index).key, number) for index in range(wiki.parts)]
        pages, linked = (job.work.table(stage, chunk.key) for stage in (PAGES_STAGE, LINKED_STAGE))
        texts = cut_texts(pages, linked, wanted, chunk.lang, config)
        return _parts(texts, titles_of(chunk.lang, job).counts.articles, wiki.parts)

    job.work.run_once(TEXTS_STAGE, chunk.key, make)
    return chunk


# --- titles ---------------------------------------------------------------------------------------


@dataclass
class BuildTitles(beam.PTransform):
    """Builds each language's title table when all of its chunks are read, and returns the languages."""

    job: JobContext

    def expand(self, chunks: beam.PCollection[PageChunk]) -> beam.PCollection[str]:
        return (
            chunks
            | beam.Map(lambda chunk: (chunk.lang, chunk.key))
            | beam.GroupByKey()
            | beam.Map(build_title_table, self.job)
        )


def build_title_table(group: tuple[str, Iterable[str]], job: JobContext) -> str:
    lang, chunks = group[0], sorted(group[1])

    def records() -> Iterator[TitleRecord]:
        for number, key in enumerate(chunks):
            pages = job.work.table(PAGES_STAGE, key, ["title", "redirect", "kind"]).to_pydict()
            for row, (title, redirect, kind) in enumerate(zip(*pages.values(), strict=True)):
                yield TitleRecord(title, redirect, kind, locator(number, row))

    def make() -> tuple[None, dict[str, Any]]:
        table = build_titles(records())
        with replace_file(titles_path(lang, job)) as stream:
            table.save(stream)
        return None, {"chunks": chunks, "parts": max(1, -(-table.counts.articles // ARTICLES_PER_PART))}

    job.work.run_once(TITLES_STAGE, lang, make)
    return lang


# --- parts of the entities ------------------------------------------------------------------------


@dataclass
class ForEachPart(beam.PTransform):
    """Runs `step` for each part of a language when all of its chunks or parts of the stage before are done.

    The GroupByKey is the barrier.
    """

    step: Callable[[EntityPart], None]
    job: JobContext

    def expand(
        self, finished: beam.PCollection[PageChunk] | beam.PCollection[EntityPart]
    ) -> beam.PCollection[EntityPart]:
        return (
            finished
            | beam.Map(lambda element: (element.lang, None))
            | beam.GroupByKey()
            | beam.FlatMap(lambda group, job: parts_of(group[0], job), self.job)
            | beam.Reshuffle()
            | beam.Map(run_step, self.step)
        )


def parts_of(lang: str, job: JobContext) -> list[EntityPart]:
    return [EntityPart(lang, index) for index in range(wiki_of(lang, job.work).parts)]


def run_step(part: EntityPart, step: Callable[[EntityPart], None]) -> EntityPart:
    step(part)
    return part


def sample_part(part: EntityPart, config: TripletConfig, job: JobContext) -> None:
    """Samples the mentions of the part's entities from all chunks."""

    def make() -> tuple[pa.Table, dict[str, Any]]:
        wiki = wiki_of(part.lang, job.work)
        mentions, definitions = (
            [job.work.part(stage, key, part.number) for key in wiki.chunks] for stage in (MENTIONS_STAGE, DEFINED_STAGE)
        )
        least = config.least_mentions(part.lang)
        table, refused = sample_mentions(mentions, definitions, config.per_entity, least)
        ledger = job.ledger()
        ledger.add(part.lang, AnchorCounts(mention_rejects=refused))
        return table, ledger.to_json() | {"sampled": table.num_rows}

    job.work.run_once(SAMPLED_STAGE, part.key, make)


def want_texts(part: EntityPart, job: JobContext) -> None:
    """Lists for each chunk the texts that the part's examples need."""

    def make() -> tuple[list[pa.Table], dict[str, Any]]:
        sampled = job.work.table(SAMPLED_STAGE, part.key)
        chunks = len(wiki_of(part.lang, job.work).chunks)
        total = int(sampled_ends(part.lang, job.work)[-1])
        return wanted_texts(sampled, partial(locate_mentions, part.lang, job.work), total, chunks, job.seed), {}

    job.work.run_once(WANTED_STAGE, part.key, make)


def locate_mentions(lang: str, work: WorkFolder, number_D: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns chunk, row and anchor of sampled mentions; their numbers count over all parts of the wiki.

    part             0         1       2
    mention number   0  1  2   3  4    5  6  7  8
    sampled_ends           3      5             9
    """
    ends = sampled_ends(lang, work)
    part_D = np.searchsorted(ends, number_D, side="right")
    located = np.zeros((3, len(number_D)), np.int64)
    for index in np.unique(part_D).tolist():
        table = work.table(SAMPLED_STAGE, EntityPart(lang, index).key, ["chunk", "row", "anchor"])
        is_here_D = part_D == index
        rows = number_D[is_here_D] - (ends[index] - table.num_rows)
        located[:, is_here_D] = [column.to_numpy()[rows] for column in table.columns]
    return located[0], located[1], located[2]


@lru_cache(maxsize=64)
def sampled_ends(lang: str, work: WorkFolder) -> Ints:
    """Returns for each part how many mentions are sampled in it and the parts before it."""
    parts = range(wiki_of(lang, work).parts)
    return np.cumsum([work.summary(SAMPLED_STAGE, EntityPart(lang, index).key)["sampled"] for index in parts])


def make_examples(part: EntityPart, job: JobContext) -> None:
    """Makes the examples of the part's entities from the texts of all chunks."""

    def make() -> tuple[pa.Table, dict[str, Any]]:
        wiki = wiki_of(part.lang, job.work)
        texts = pa.concat_tables([job.work.part(TEXTS_STAGE, key, part.number) for key in wiki.chunks])
        examples, counts, rejects = pair_texts(texts, part.lang)
        ledger = job.ledger()
        ledger.add(part.lang, counts, rejects)
        return pa.Table.from_pylist([example.to_row() for example in examples], schema=ARROW_SCHEMA), ledger.to_json()

    job.work.run_once(EXAMPLES_STAGE, part.key, make)
