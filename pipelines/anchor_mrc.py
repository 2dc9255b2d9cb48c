"""Wikipedia dumps → anchor-MRC triplets (mPMR, 2.2, A.1): the whole job on one screen, then how it is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata

import apache_beam as beam
import pyarrow

import schemas.anchor_mrc
from pipelines.anchor_mrc_transforms import (
    EXAMPLES,
    LINKED,
    PAGES,
    SAMPLED,
    TEXTS,
    TITLES,
    WANTED,
    BuildTitles,
    Chunk,
    CutTexts,
    DigestFiles,
    ForEachPart,
    ReadDump,
    ResolveLinks,
    make_examples,
    sample_part,
    want_texts,
)
from pipelines.inputs import Inputs, anchor_mrc_inputs
from pipelines.inputs import expand_specs as expand_specs
from pipelines.recipes import AnchorMrcConfig
from pipelines.runtime.dataset_sink import WriteDataset
from pipelines.runtime.job_context import JobContext
from pipelines.runtime.job_output import Request, make_dataset
from pipelines.runtime.launch import launch, runner_options, sizes_and_times
from pipelines.runtime.work_folder import WorkFolder
from pipelines.steps.common.paths import distinct_names
from pipelines.steps.common.tokenize import tokenizer_version
from pipelines.steps.wikipedia.dump import DumpRange, SiteInfo, plan_ranges, read_siteinfo
from pipelines.steps.wikipedia.wikiextractor import ExtractedFile
from pipelines.steps.wikitext.site import Site, site_of, siteinfo_problem
from schemas.anchor_mrc import AnchorCounts
from schemas.errors import ConfigError
from schemas.languages import LANGUAGES
from schemas.manifest import Manifest
from schemas.provenance import commit, polyspan_version
from schemas.runtime.shown_paths import shown_path, shown_paths

LEDGERS = (PAGES, LINKED, SAMPLED, EXAMPLES)
FILE_DAMAGE = ("corrupt_block", "unreadable_rest", "truncated")  # of `Damage.reason`: more than a page is missing


def build(
    pipeline: beam.Pipeline,
    config: AnchorMrcConfig,
    paths: Mapping[str, str],  # of the dumps, and what the manifest says of them
    chunks: list[Chunk],
    sites: dict[str, Site],
    manifest: Manifest,
    job: JobContext,
) -> None:
    """The graph. Its elements name chunks of pages and parts of the entities (`anchor_transforms.py`)."""
    pages = pipeline | "ReadDump" >> ReadDump(chunks, sites, job)
    titles = pages | "BuildTitles" >> BuildTitles(job)
    linked = pages | "ResolveLinks" >> ResolveLinks(titles, config.triplets, job)
    sampled = linked | "SampleMentions" >> ForEachPart(partial(sample_part, config=config.triplets, job=job), job)
    wanted = sampled | "DrawContexts" >> ForEachPart(partial(want_texts, job=job), job)
    texts = pages | "CutTexts" >> CutTexts(wanted, config.triplets, job)
    examples = texts | "PairTexts" >> ForEachPart(partial(make_examples, job=job), job)
    digests = pipeline | "DigestFiles" >> DigestFiles(paths, job)
    (
        examples
        | "Keys" >> beam.Map(lambda part, _: part.key, beam.pvalue.AsList(digests))
        | "WriteDataset"
        >> WriteDataset(
            config.output, schemas.anchor_mrc.ARROW_SCHEMA, manifest, config.rows_per_shard, EXAMPLES, LEDGERS, job
        )
    )


def run(config: AnchorMrcConfig, runner_arguments: Sequence[str] = ()) -> dict[str, Manifest]:
    """Makes the dataset, or one for each language, and returns their manifests by folder.

    What cannot work raises `ConfigError` or `InputError` before any worker starts.
    """
    runner_options(runner_arguments, config.workers)
    inputs = anchor_mrc_inputs(config)
    if "{lang}" not in config.output:
        return {config.output: _run(config, inputs, runner_arguments)}
    return {
        output: _run(replace(config, output=output, lang=(lang,)), {lang: inputs[lang]}, runner_arguments)
        for lang in inputs
        for output in [config.output.replace("{lang}", lang)]
    }


def _run(config: AnchorMrcConfig, inputs: dict[str, Inputs], runner_arguments: Sequence[str]) -> Manifest:
    options = runner_options(runner_arguments, config.workers)
    sites = {lang: site_of_dumps(lang, files.dumps, config.any_siteinfo) for lang, files in inputs.items()}
    paths = [path for files in inputs.values() for path in (*files.dumps, *files.extracted)]
    chunks = plan_chunks(inputs, distinct_names(paths), config.range_bytes)
    versions = {"polyspan": polyspan_version(), "pyarrow": pyarrow.__version__, "numpy": metadata.version("numpy")}
    for lang in inputs:
        versions |= {f"{lang}.{name}": found for name, found in tokenizer_version(lang).items()}
    decides = asdict(config)
    for name in ("range_bytes", "tolerate_damage", "output", "overwrite", "workers"):
        del decides[name]
    told = {name: value for name, value in asdict(shown_config(config)).items() if name in decides}
    # `range_bytes` decides what the work folder's chunks are, but no byte of the dataset.
    identity = {
        "config": decides,
        "versions": versions,
        "commit": commit(),
        "inputs": sizes_and_times(paths),
        "range_bytes": config.range_bytes,
    }
    manifest = Manifest.planned(f"{schemas.anchor_mrc.NAME}/{schemas.anchor_mrc.VERSION}", told, versions, commit())

    def run_job(folder: str, work: WorkFolder) -> None:
        into, job = (
            replace(config, output=folder),
            JobContext(work, config.seed, config.rejects_per_reason, AnchorCounts),
        )
        launch(
            lambda pipeline: build(pipeline, into, shown_paths(paths), chunks, sites, manifest, job),
            lambda: progress_line(job, len(chunks)),
            options,
        )

    read = {
        "--dump": tuple(path for files in inputs.values() for path in files.dumps),
        "--extracted": tuple(path for files in inputs.values() for path in files.extracted),
    }
    return make_dataset(Request(config.output, config.overwrite, manifest, read, paths, identity), run_job)


def shown_config(config: AnchorMrcConfig) -> AnchorMrcConfig:
    """The configuration as the manifest holds it: paths say nothing of the machine."""
    dump, extracted = (tuple(map(shown_spec, specs)) for specs in (config.dump, config.extracted))
    return replace(config, dump=dump, extracted=extracted)


def shown_spec(spec: str) -> str:
    prefix, equals, pattern = spec.partition("=")
    return f"{prefix}={shown_path(pattern)}" if equals and prefix in LANGUAGES else shown_path(spec)


def site_of_dumps(lang: str, paths: Sequence[str], any_siteinfo: bool) -> Site:
    """The wiki's rules, as the first of its dump's files tells them. `ConfigError` for a dump of another wiki."""
    infos = [read_siteinfo(path) for path in paths]
    for path, info in zip(paths, infos, strict=True):
        if not any_siteinfo and (problem := siteinfo_problem(lang, info)):
            raise ConfigError(
                f"--dump {path}: {problem}. Name the right --lang, or, if the texts are in {lang!r} all the same, "
                "add --any-siteinfo"
            )
    return site_of(lang, infos[0] if infos else SiteInfo("", "", "", True, ()))


def plan_chunks(inputs: dict[str, Inputs], names: dict[str, str], range_bytes: int) -> list[Chunk]:
    chunks = []
    for lang, files in inputs.items():
        sources: list[DumpRange | ExtractedFile] = [
            part for path in files.dumps for part in plan_ranges(path, range_bytes)
        ]
        sources += map(ExtractedFile, files.extracted)
        chunks += [Chunk(f"{lang}-{at:07d}", lang, names[source.path], source) for at, source in enumerate(sources)]
    return chunks


def progress_line(job: JobContext, chunks: int) -> str:
    work = job.work
    langs = work.keys(TITLES)
    parts = sum(work.summary(TITLES, lang)["parts"] for lang in langs)
    steps = [(PAGES, "read", chunks), (LINKED, "links resolved", chunks), (SAMPLED, "entities sampled", parts)]
    steps += [(WANTED, "contexts drawn", parts), (TEXTS, "texts cut", chunks), (EXAMPLES, "paired", parts)]
    told = [(words, len(work.keys(stage)), total) for stage, words, total in steps]
    return " · ".join(f"{words} {done:,} of {total:,}" for words, done, total in told if done) or "starting"


def damage(manifest: Manifest) -> dict[str, int]:
    """Reason → how many dumps or blocks of them could not be read, and their pages are missing."""
    found: dict[str, int] = {}
    for counts in manifest.counts.values():
        for reason, count in counts.rejects()["page"].items():
            if reason in FILE_DAMAGE:
                found[reason] = found.get(reason, 0) + count
    return found
