"""The anchor-MRC job's transforms. Each does one step for one chunk of pages, or for one part of a wiki's entities, and
keeps what it made in the work folder; Beam's elements only name these.

A part is a run of entities in the order of their titles' hashes. So an example's place, like all that is drawn, depends
on the wiki alone, not on how its dump is stored or cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from pipelines.runtime.job_context import FILES, JobContext
from pipelines.runtime.work_folder import WorkFolder, replace_file
from pipelines.steps.anchor_mrc.hash_draws import Ints
from pipelines.steps.anchor_mrc.mention_sampling import (
    cut_by_part,
    definitions_of,
    is_own_row,
    link_counts,
    link_rejects,
    linked_articles,
    links_of,
    locator,
    mentions_of,
    sample_mentions,
    wanted_texts,
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

PAGES, TITLES, LINKED, DEFINED, MENTIONS = "pages", "titles", "linked", "defined", "mentions"
SAMPLED, TALLIES, WANTED, TEXTS, EXAMPLES = "sampled", "tallies", "wanted", "texts", "examples"

ARTICLES_PER_PART = 2000  # bounds what a worker holds of examples


class Chunk(NamedTuple):
    """The pages that begin in one range of a dump file, or those of an extracted file. Keys sort in that order."""

    key: str
    lang: str
    corpus: str  # the file's name
    source: DumpRange | ExtractedFile


class Part(NamedTuple):
    """Entities `number * n / parts` to below `(number + 1) * n / parts` of a language's n."""

    lang: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.lang}-{self.number:06d}"


class Wiki(NamedTuple):
    """What is known of a language once all of its dump is read."""

    chunks: tuple[str, ...]
    parts: int


@lru_cache(maxsize=64)
def wiki_of(lang: str, work: WorkFolder) -> Wiki:
    summary = work.summary(TITLES, lang)
    return Wiki(tuple(summary["chunks"]), summary["parts"])


def titles_path(lang: str, job: JobContext) -> str:
    return job.work.file(TITLES, f"{lang}.titles")


@lru_cache(maxsize=2)
def load_titles(path: str) -> TitleTable:
    return TitleTable.load(path)


def titles_of(lang: str, job: JobContext) -> TitleTable:
    return load_titles(titles_path(lang, job))


# --- chunks of pages ------------------------------------------------------------------------------


@dataclass
class ReadDump(beam.PTransform):
    """Ranges of dump files → chunks of articles: plain text and anchors, with where they lead."""

    chunks: list[Chunk]
    sites: dict[str, Site]
    job: JobContext

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[Chunk]:
        return pipeline | beam.Create(self.chunks) | beam.Reshuffle() | beam.Map(read_chunk, self.sites, self.job)


def read_chunk(chunk: Chunk, sites: dict[str, Site], job: JobContext) -> Chunk:
    def make() -> tuple[pa.Table, dict[str, Any]]:
        source = chunk.source
        pages: Iterable[Page | ExtractedPage | Damage | BadLine]
        pages = read_pages(source) if isinstance(source, DumpRange) else read_extracted(read_lines(source.path))
        table, counts, rejects = pages_table(pages, sites[chunk.lang], chunk.corpus)
        ledger = job.ledger()
        ledger.add(chunk.lang, counts, rejects)
        return table, ledger.to_json()

    job.work.run_once(PAGES, chunk.key, make)
    return chunk


@dataclass
class DigestFiles(beam.PTransform):
    """Dump files → the same, once their sizes and checksums are known."""

    shown: Mapping[str, str]  # path → what the manifest says of it
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

    job.work.run_once(FILES, f"{number:05d}", make)
    return path


@dataclass
class ResolveLinks(beam.PTransform):
    """Chunks, once all titles are known → chunks whose mentions are found, sampled and parted by entity."""

    titles: beam.PCollection[str]
    config: TripletConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | beam.Map(resolve_links, beam.pvalue.AsList(self.titles), self.config.per_entity, self.job)


def resolve_links(chunk: Chunk, _: list[str], per_entity: int, job: JobContext) -> Chunk:
    def make() -> tuple[pa.Table, dict[str, Any]]:
        titles, wiki = titles_of(chunk.lang, job), wiki_of(chunk.lang, job.work)
        pages = job.work.table(PAGES, chunk.key)
        own_rows = is_own_row(pages, titles, wiki.chunks.index(chunk.key))
        links = links_of(pages, titles, own_rows)
        for stage, table in (
            (DEFINED, definitions_of(pages, titles, own_rows)),
            (MENTIONS, mentions_of(pages, links, job.seed, per_entity)),
        ):
            job.work.run_once(stage, chunk.key, partial(_parts, table, titles.counts.articles, wiki.parts))
        ledger = job.ledger()
        ledger.add(chunk.lang, link_counts(links), link_rejects(links, pages, chunk.lang, chunk.corpus))
        return linked_articles(links, pages.num_rows), ledger.to_json()

    job.work.run_once(LINKED, chunk.key, make)
    return chunk


def _parts(table: pa.Table, entities: int, parts: int) -> tuple[list[pa.Table], dict[str, Any]]:
    return cut_by_part(table, entities, parts), {}


@dataclass
class CutTexts(beam.PTransform):
    """Chunks, once all parts have said what they want → chunks whose queries and contexts are cut, by part."""

    wanted: beam.PCollection[Part]
    config: TripletConfig
    job: JobContext

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | beam.Map(cut_chunk, beam.pvalue.AsList(self.wanted), self.config, self.job)


def cut_chunk(chunk: Chunk, _: list[Part], config: TripletConfig, job: JobContext) -> Chunk:
    def make() -> tuple[list[pa.Table], dict[str, Any]]:
        wiki = wiki_of(chunk.lang, job.work)
        number = wiki.chunks.index(chunk.key)
        wanted = [job.work.part(WANTED, Part(chunk.lang, index).key, number) for index in range(wiki.parts)]
        pages, linked = (job.work.table(stage, chunk.key) for stage in (PAGES, LINKED))
        texts = cut_texts(pages, linked, wanted, chunk.lang, config)
        return _parts(texts, titles_of(chunk.lang, job).counts.articles, wiki.parts)

    job.work.run_once(TEXTS, chunk.key, make)
    return chunk


# --- titles ---------------------------------------------------------------------------------------


@dataclass
class BuildTitles(beam.PTransform):
    """All chunks → languages whose title tables are written."""

    job: JobContext

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[str]:
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
            pages = job.work.table(PAGES, key, ["title", "redirect", "kind"]).to_pydict()
            for row, (title, redirect, kind) in enumerate(zip(*pages.values(), strict=True)):
                yield TitleRecord(title, redirect, kind, locator(number, row))

    def make() -> tuple[None, dict[str, Any]]:
        table = build_titles(records())
        with replace_file(titles_path(lang, job)) as stream:
            table.save(stream)
        return None, {"chunks": chunks, "parts": max(1, -(-table.counts.articles // ARTICLES_PER_PART))}

    job.work.run_once(TITLES, lang, make)
    return lang


# --- parts of the entities ------------------------------------------------------------------------


@dataclass
class ForEachPart(beam.PTransform):
    """All chunks or parts of a stage → the parts, for each of which `step` is done once all of that stage is."""

    step: Callable[[Part], None]
    job: JobContext

    def expand(self, done: beam.PCollection[Chunk] | beam.PCollection[Part]) -> beam.PCollection[Part]:
        return (
            done
            | beam.Map(lambda element: (element.lang, None))
            | beam.GroupByKey()
            | beam.FlatMap(lambda group, job: parts_of(group[0], job), self.job)
            | beam.Reshuffle()
            | beam.Map(done_part, self.step)
        )


def parts_of(lang: str, job: JobContext) -> list[Part]:
    return [Part(lang, index) for index in range(wiki_of(lang, job.work).parts)]


def done_part(part: Part, step: Callable[[Part], None]) -> Part:
    step(part)
    return part


def sample_part(part: Part, config: TripletConfig, job: JobContext) -> None:
    """The mentions of the part's entities, of all chunks."""

    def make() -> tuple[pa.Table, dict[str, Any]]:
        wiki = wiki_of(part.lang, job.work)
        mentions, definitions = (
            [job.work.part(stage, key, part.number) for key in wiki.chunks] for stage in (MENTIONS, DEFINED)
        )
        least = config.least_mentions(part.lang)
        table, refused = sample_mentions(mentions, definitions, config.per_entity, least)
        ledger = job.ledger()
        ledger.add(part.lang, AnchorCounts(mention_rejects=refused))
        return table, ledger.to_json() | {"sampled": table.num_rows}

    job.work.run_once(SAMPLED, part.key, make)


def want_texts(part: Part, job: JobContext) -> None:
    """What the part's examples need of each chunk."""

    def make() -> tuple[list[pa.Table], dict[str, Any]]:
        sampled = job.work.table(SAMPLED, part.key)
        ends = sampled_ends(part.lang, job.work)
        chunks = len(wiki_of(part.lang, job.work).chunks)

        def places(numbers: Ints) -> tuple[Ints, Ints, Ints]:
            """Chunk, row and anchor of sampled mentions of the whole wiki, by their numbers."""
            which = np.searchsorted(ends, numbers, side="right")
            found = np.zeros((3, len(numbers)), np.int64)
            for index in np.unique(which).tolist():
                table = job.work.table(SAMPLED, Part(part.lang, index).key, ["chunk", "row", "anchor"])
                here = which == index
                rows = numbers[here] - (ends[index] - table.num_rows)
                found[:, here] = [column.to_numpy()[rows] for column in table.columns]
            return found[0], found[1], found[2]

        return wanted_texts(sampled, places, int(ends[-1]), chunks, job.seed), {}

    job.work.run_once(WANTED, part.key, make)


@lru_cache(maxsize=64)
def sampled_ends(lang: str, work: WorkFolder) -> Ints:
    """How many mentions are sampled up to the end of each part."""
    parts = range(wiki_of(lang, work).parts)
    return np.cumsum([work.summary(SAMPLED, Part(lang, index).key)["sampled"] for index in parts])


def make_examples(part: Part, job: JobContext) -> None:
    """The examples of the part's entities, out of the texts that all chunks gave."""

    def make() -> tuple[pa.Table, dict[str, Any]]:
        wiki = wiki_of(part.lang, job.work)
        texts = pa.concat_tables([job.work.part(TEXTS, key, part.number) for key in wiki.chunks])
        examples, counts, rejects = pair_texts(texts, part.lang)
        ledger = job.ledger()
        ledger.add(part.lang, counts, rejects)
        return pa.Table.from_pylist([example.to_row() for example in examples], schema=ARROW_SCHEMA), ledger.to_json()

    job.work.run_once(EXAMPLES, part.key, make)
