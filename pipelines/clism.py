"""The CLISM job: parallel corpora → `[QUE]` examples (CLISM, 3.1). First the graph, then how the job is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import metadata

import apache_beam as beam
import pyarrow
from apache_beam.io.filesystems import FileSystems

import schemas.clism
from pipelines.aligner import ALIGNERS, AlignmentModel, aligner_kind
from pipelines.aligner.text import check_text
from pipelines.clism_transforms import (
    AlignAndMask,
    ReadBitext,
    TokenizeAndTag,
    TrainAligners,
    keep_aligner,
)
from pipelines.inputs import clism_inputs
from pipelines.recipes import ClismConfig
from pipelines.runtime.dataset_sink import WriteDataset
from pipelines.runtime.job_context import JobContext
from pipelines.runtime.job_output import Request, make_dataset
from pipelines.runtime.launch import chunk_progress, launch, runner_options, sizes_and_times
from pipelines.runtime.work_folder import WorkFolder
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import shown_spec
from pipelines.steps.clism.stage_tables import MASKED_STAGE, READ_STAGE, TOKENIZED_STAGE
from pipelines.steps.common.aligner_models import load_aligner, training_text
from pipelines.steps.common.paths import path_of_each_pair
from pipelines.steps.common.tokenize import check_tokenizer, tokenizer_version
from pipelines.steps.ner.taggers import check_tagger, tagger_version
from schemas.clism import PairCounts
from schemas.did_you_mean import did_you_mean
from schemas.errors import ConfigError
from schemas.languages import LanguagePair
from schemas.manifest import Manifest
from schemas.provenance import commit, polyspan_version
from schemas.runtime.shown_paths import shown_path, shown_paths

STAGES = {READ_STAGE: "read", TOKENIZED_STAGE: "tokenised and tagged", MASKED_STAGE: "aligned and masked"}


def build(
    pipeline: beam.Pipeline,
    config: ClismConfig,
    files: list[BitextFile],
    shown: Mapping[str, str],  # path → how the manifest shows it
    model_paths: dict[str, str],  # empty: train
    manifest: Manifest,
    job: JobContext,
) -> None:
    """Builds the graph. Its elements refer to tables of some thousand sentence pairs (`stage_tables.py`)."""
    chunks = (
        pipeline
        | "ReadBitext" >> ReadBitext(files, shown, config.chunk_pairs, config.filters.drop_duplicates, job)
        | "TokenizeAndTag" >> TokenizeAndTag(config.filters, config.tagger, job)
    )
    if model_paths:
        aligners = pipeline | "GivenAligners" >> beam.Create(list(model_paths.items()))
    else:
        aligners = chunks | "TrainAligners" >> TrainAligners(config.aligner, job)
    (
        chunks
        | "AlignAndMask" >> AlignAndMask(aligners, config.aligner, config.masking, job)
        | "Keys" >> beam.Map(lambda chunk: chunk.key)
        | "WriteDataset"
        >> WriteDataset(
            config.output,
            schemas.clism.ARROW_SCHEMA,
            manifest,
            config.rows_per_shard,
            MASKED_STAGE,
            (MASKED_STAGE,),
            job,
        )
    )


def run(config: ClismConfig, runner_arguments: Sequence[str] = ()) -> Manifest:
    """Makes the dataset and returns its manifest. Raises `ConfigError` before any worker starts."""
    options = runner_options(runner_arguments, config.workers)
    pairs, files = clism_inputs(config)
    for lang in dict.fromkeys(lang for pair in pairs for lang in pair):
        check_tokenizer(lang)
    for lang in dict.fromkeys(pair.source for pair in pairs):
        check_tagger(config.tagger, lang)
    versions = {"polyspan": polyspan_version(), "pyarrow": pyarrow.__version__} | versions_of(config, pairs)
    given_models = given_aligners(config.aligner.model, pairs) if config.aligner.model not in ALIGNERS else {}
    versions |= {f"{pair}.aligner": model.fingerprint() for pair, (_, model) in given_models.items()}
    decides = asdict(config)
    for name in ("output", "overwrite", "workers"):
        del decides[name]
    shown = {name: value for name, value in asdict(shown_config(config)).items() if name in decides}
    paths = tuple(dict.fromkeys(path for file in files for path in (file.source_path, file.target_path)))
    identity = {"config": decides, "versions": versions, "commit": commit(), "inputs": sizes_and_times(paths)}
    manifest = Manifest.planned(f"{schemas.clism.NAME}/{schemas.clism.VERSION}", shown, versions, commit())

    def run_job(folder: str, work: WorkFolder) -> None:
        into, job = replace(config, output=folder), JobContext(work, config.seed, config.rejects_per_reason, PairCounts)
        model_paths = {pair: keep_aligner(pair, model, job) for pair, (_, model) in given_models.items()}
        launch(
            lambda pipeline: build(pipeline, into, files, shown_paths(paths), model_paths, manifest, job),
            lambda: chunk_progress(work, STAGES),
            options,
        )

    inputs = {"--bitext": paths, "--aligner.model": tuple(path for path, _ in given_models.values())}
    return make_dataset(Request(config.output, config.overwrite, manifest, inputs, paths, identity), run_job)


def shown_config(config: ClismConfig) -> ClismConfig:
    """Returns the configuration as the manifest holds it, with paths that reveal nothing of the machine."""
    return replace(
        config,
        bitext=tuple(map(shown_spec, config.bitext)),
        aligner=replace(config.aligner, model=shown_path(config.aligner.model)),
        tagger=replace(config.tagger, model=shown_path(config.tagger.model)),
    )


def given_aligners(model: str, pairs: list[LanguagePair]) -> dict[str, tuple[str, AlignmentModel]]:
    """Loads the saved model of each language pair; returns path and model. `{pair}` in the path is the language pair.

    Raises `ConfigError` for a model that was trained on another pair.
    """
    models = {}
    for pair, path in path_of_each_pair("--aligner.model", model, pairs).items():
        if not FileSystems.exists(path):
            hint = did_you_mean(path, filter(None, ALIGNERS))
            raise ConfigError(f"--aligner.model: no such file: {path}{hint and '.' + hint}")
        models[str(pair)] = path, load_aligner(path)
        if trained := models[str(pair)][1].text:
            check_text(training_text(pair), trained, path)
    return models


def versions_of(config: ClismConfig, pairs: list[LanguagePair]) -> dict[str, str]:
    """Returns the versions of everything that decides words, mentions and links."""
    versions = {"spacy": metadata.version("spacy")}  # of its stop words
    versions |= {f"aligner.{name}": version for name, version in aligner_kind(config.aligner).versions.items()}
    for lang in dict.fromkeys(lang for pair in pairs for lang in pair):
        versions |= {f"{lang}.{name}": version for name, version in tokenizer_version(lang).items()}
    for lang in dict.fromkeys(pair.source for pair in pairs):
        versions |= {f"{lang}.tagger.{name}": version for name, version in tagger_version(config.tagger, lang).items()}
    return versions
