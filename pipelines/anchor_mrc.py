"""Wikipedia dumps → anchor-MRC triplets (mPMR, 2.2, A.1): the whole job on one screen, then how it is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from typing import Any

import apache_beam as beam
import pyarrow

import schemas.anchor_mrc
from pipelines.anchor_mrc_transforms import (
    BuildTitles,
    CutTexts,
    DigestFiles,
    ForEachPart,
    PageChunk,
    ReadDump,
    ResolveLinks,
    make_examples,
    sample_part,
    want_texts,
)
from pipelines.inputs import Inputs, anchor_mrc_inputs
from pipelines.recipes import AnchorMrcConfig
from pipelines.runtime.dataset_sink import WriteDataset
from pipelines.runtime.job_context import JobContext
from pipelines.runtime.job_output import Request, make_dataset
from pipelines.runtime.launch import launch, runner_options, sizes_and_times
from pipelines.runtime.work_folder import WorkFolder
from pipelines.steps.anchor_mrc.stage_tables import (
    EXAMPLES_STAGE,
    LINKED_STAGE,
    PAGES_STAGE,
    SAMPLED_STAGE,
    TEXTS_STAGE,
    TITLES_STAGE,
    WANTED_STAGE,
)
from pipelines.steps.common.paths import distinct_names
from pipelines.steps.common.tokenize import tokenizer_version
from pipelines.steps.wikipedia.dump import DumpRange, plan_ranges, read_siteinfo
from pipelines.steps.wikipedia.wikiextractor import ExtractedFile
from pipelines.steps.wikitext.site import Site, SiteInfo, site_of, siteinfo_problem
from schemas.anchor_mrc import AnchorCounts
from schemas.errors import ConfigError
from schemas.languages import LANGUAGES
from schemas.manifest import Manifest
from schemas.provenance import commit, polyspan_version
from schemas.runtime.shown_paths import shown_path, shown_paths

LEDGERS = (PAGES_STAGE, LINKED_STAGE, SAMPLED_STAGE, EXAMPLES_STAGE)
STAGES = {
    PAGES_STAGE: "read",
    LINKED_STAGE: "links resolved",
    SAMPLED_STAGE: "entities sampled",
    WANTED_STAGE: "contexts drawn",
    TEXTS_STAGE: "texts cut",
    EXAMPLES_STAGE: "paired",
}
STAGES_OF_PARTS = (SAMPLED_STAGE, WANTED_STAGE, EXAMPLES_STAGE)  # the other stages work on chunks
FILE_DAMAGE = ("corrupt_block", "unreadable_rest", "truncated")  # reasons of `Damage` that cost more than one page
WITHOUT_EFFECT = ("range_bytes", "tolerate_damage", "output", "overwrite", "workers")  # on the dataset's bytes


def build(
    pipeline: beam.Pipeline,
    config: AnchorMrcConfig,
    shown: Mapping[str, str],  # path of an input file → path as the manifest shows it
    chunks: list[PageChunk],
    sites: dict[str, Site],
    manifest: Manifest,
    job: JobContext,
) -> None:
    """Builds the graph. Its elements name chunks of pages and parts of the entities (`stage_tables.py`)."""
    pages = pipeline | "ReadDump" >> ReadDump(chunks, sites, job)
    titles = pages | "BuildTitles" >> BuildTitles(job)
    linked = pages | "ResolveLinks" >> ResolveLinks(titles, config.triplets, job)
    sampled = linked | "SampleMentions" >> ForEachPart(partial(sample_part, config=config.triplets, job=job), job)
    wanted = sampled | "DrawContexts" >> ForEachPart(partial(want_texts, job=job), job)
    texts = pages | "CutTexts" >> CutTexts(wanted, config.triplets, job)
    examples = texts | "PairTexts" >> ForEachPart(partial(make_examples, job=job), job)
    digests = pipeline | "DigestFiles" >> DigestFiles(shown, job)
    (
        examples
        | "Keys" >> beam.Map(lambda part, all_files_digested: part.key, beam.pvalue.AsList(digests))
        | "WriteDataset"
        >> WriteDataset(
            config.output,
            schemas.anchor_mrc.ARROW_SCHEMA,
            manifest,
            config.rows_per_shard,
            EXAMPLES_STAGE,
            LEDGERS,
            job,
        )
    )


def run(config: AnchorMrcConfig, runner_arguments: Sequence[str] = ()) -> dict[str, Manifest]:
    """Makes the dataset, or one for each language, and returns the manifests by folder.

    Raises `ConfigError` or `InputError` before any worker starts if the configuration or an input file cannot work.
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
    versions = versions_of(inputs)
    settings = _settings_with_effect(shown_config(config))
    manifest = Manifest.planned(f"{schemas.anchor_mrc.NAME}/{schemas.anchor_mrc.VERSION}", settings, versions, commit())
    identity = {
        "config": _settings_with_effect(config),
        "versions": versions,
        "commit": commit(),
        "inputs": sizes_and_times(paths),
        "range_bytes": config.range_bytes,  # decides the chunks of the work folder, but no byte of the dataset
    }

    def run_job(folder: str, work: WorkFolder) -> None:
        job = JobContext(work, config.seed, config.rejects_per_reason, AnchorCounts)
        into = replace(config, output=folder)
        launch(
            lambda pipeline: build(pipeline, into, shown_paths(paths), chunks, sites, manifest, job),
            lambda: progress_line(work, len(chunks)),
            options,
        )

    files_by_option = {
        "--dump": tuple(path for files in inputs.values() for path in files.dumps),
        "--extracted": tuple(path for files in inputs.values() for path in files.extracted),
    }
    return make_dataset(Request(config.output, config.overwrite, manifest, files_by_option, paths, identity), run_job)


def _settings_with_effect(config: AnchorMrcConfig) -> dict[str, Any]:
    return {name: value for name, value in asdict(config).items() if name not in WITHOUT_EFFECT}


def shown_config(config: AnchorMrcConfig) -> AnchorMrcConfig:
    """Returns the configuration as the manifest shows it, with paths that do not depend on the machine."""
    dump, extracted = (tuple(map(shown_spec, specs)) for specs in (config.dump, config.extracted))
    return replace(config, dump=dump, extracted=extracted)


def shown_spec(spec: str) -> str:
    prefix, equals, pattern = spec.partition("=")
    return f"{prefix}={shown_path(pattern)}" if equals and prefix in LANGUAGES else shown_path(spec)


def site_of_dumps(lang: str, paths: Sequence[str], any_siteinfo: bool) -> Site:
    """Returns the wiki's rules, from the first file of its dump. Raises `ConfigError` for a dump of another wiki."""
    infos = [read_siteinfo(path) for path in paths]
    for path, info in zip(paths, infos, strict=True):
        if not any_siteinfo and (problem := siteinfo_problem(lang, info)):
            raise ConfigError(
                f"--dump {path}: {problem}. Name the right --lang, or, if the texts are in {lang!r} all the same, "
                "add --any-siteinfo"
            )
    return site_of(lang, infos[0] if infos else SiteInfo("", "", "", True, ()))


def plan_chunks(inputs: dict[str, Inputs], names: dict[str, str], range_bytes: int) -> list[PageChunk]:
    """Cuts the input files into chunks. `names` maps a file's path to its name in the dataset."""
    chunks = []
    for lang, files in inputs.items():
        sources: list[DumpRange | ExtractedFile] = [
            dump_range for path in files.dumps for dump_range in plan_ranges(path, range_bytes)
        ]
        sources += map(ExtractedFile, files.extracted)
        for number, source in enumerate(sources):
            chunks.append(PageChunk(f"{lang}-{number:07d}", lang, names[source.path], source))
    return chunks


def versions_of(langs: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the programs that decide the dataset's bytes, the tokenizers' by language."""
    versions = {"polyspan": polyspan_version(), "pyarrow": pyarrow.__version__, "numpy": metadata.version("numpy")}
    for lang in langs:
        versions |= {f"{lang}.{name}": value for name, value in tokenizer_version(lang).items()}
    return versions


def progress_line(work: WorkFolder, chunks: int) -> str:
    """Returns how many chunks or parts each stage that has begun has finished."""
    parts = sum(work.summary(TITLES_STAGE, lang)["parts"] for lang in work.keys(TITLES_STAGE))
    totals = {stage: parts if stage in STAGES_OF_PARTS else chunks for stage in STAGES}
    done = {stage: len(work.keys(stage)) for stage in STAGES}
    steps = [f"{words} {done[stage]:,} of {totals[stage]:,}" for stage, words in STAGES.items() if done[stage]]
    return " · ".join(steps) or "starting"


def damage(manifest: Manifest) -> dict[str, int]:
    """Returns, by reason, how many files or blocks of dumps could not be read, so that their pages are missing."""
    count_of: dict[str, int] = {}
    for counts in manifest.counts.values():
        for reason, count in counts.rejects()["page"].items():
            if reason in FILE_DAMAGE:
                count_of[reason] = count_of.get(reason, 0) + count
    return count_of
