"""The commands: each checks its options and files, then trains, links or scores."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from pipelines.align.config import AlignApplyConfig, AlignFileConfig, AlignScoreConfig, AlignTrainConfig
from pipelines.align.inputs import (
    LinesFile,
    check_input,
    check_read_twice,
    input_path,
    named_pair,
    read_texts,
    readable_twice,
    tokenizers_of,
)
from pipelines.align.links import number_of_threads, write_links
from pipelines.align.outputs import check_output, open_output, same_file
from pipelines.align.pharaoh import Agreement, Firsts, compare_files
from pipelines.align.training import adapted, trained_model
from pipelines.aligner import AlignmentModel
from pipelines.aligner.text import TrainingText, check_text
from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import expand_bitext
from pipelines.steps.common.aligner_models import load_aligner, training_text
from pipelines.steps.common.paths import path_of_each_pair
from schemas.errors import ConfigError
from schemas.languages import LANGUAGES, LanguagePair

logger = logging.getLogger(__name__)


def train(config: AlignTrainConfig) -> str:
    """Trains and saves a model for each language pair; returns the text to print.

    Raises `ConfigError` before anything is read.
    """
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
    texts = {pair: training_text(pair, tokenized=config.tokenized) for pair in pairs}
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
    lines = []
    for pair, text in texts.items():
        mine = [file for file in files if file.pair == pair]
        model, size, seconds = trained_model(text, mine, config, threads, priors.get(pair))
        with open_output(paths[pair]) as stream:
            model.save(stream)
        lines.append(
            f"Wrote {paths[pair]}, trained on {size:,} sentence pairs{' and a prior' if pair in priors else ''} in "
            f"{seconds:.0f} s (fingerprint {model.fingerprint()}).\n"
            f"Align with it:  polyspan-data align apply --model {paths[pair]} --source FILE --target FILE"
        )
        if all(lang in LANGUAGES for lang in pair):
            lines.append(f"In a job:       polyspan-data clism --aligner.model {paths[pair]} …")
    return "\n".join(lines)


def load_priors(path: str, texts: Mapping[LanguagePair, TrainingText]) -> dict[LanguagePair, AlignmentModel]:
    """Loads the older model of each language pair. Raises `ConfigError` for one that was trained on another pair."""
    priors = {}
    for pair, prior_path in path_of_each_pair("--prior", path, list(texts)).items():
        priors[pair] = load_aligner(prior_path)
        if trained := priors[pair].text:
            check_text(texts[pair], trained, prior_path)
    return priors


def file_paths(file: BitextFile | LinesFile) -> tuple[str, ...]:
    return (file.source_path, file.target_path) if isinstance(file, BitextFile) else (file.path,)


def apply(config: AlignApplyConfig) -> None:
    """Writes a line of links for each line of the input. Raises `ConfigError` before anything is read."""
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
    model = load_aligner(config.model, copy=True if config.copy else None)
    text = text_to_align(config, pair, model.text)
    if config.min_score >= 0.0:
        model = replace(model, config=replace(model.config, min_score=config.min_score))

    if config.adapt:
        model = adapted(model, config, text, threads)
    write_links(read_texts(config, text.pair), model, tokenizers_of(text), config)


def text_to_align(config: AlignApplyConfig, pair: LanguagePair | None, trained: TrainingText | None) -> TrainingText:
    """Returns how words are found: as the options say, otherwise as in the text that the model was trained on."""
    if trained is None:
        if not pair and not config.tokenized:
            raise ConfigError(
                f"{config.model} does not say which languages it is for. They are needed to find the words: "
                "--pair en-vi. If white space separates the words already: --tokenized"
            )
        return training_text(pair or LanguagePair("source", "target"), tokenized=config.tokenized)
    tokenized = config.tokenized or (trained.tokenized and not pair)
    text = training_text(pair or trained.pair, tokenized=tokenized)
    check_text(text, trained, config.model)
    return text


def align_file(config: AlignFileConfig) -> None:
    """Trains on a file's lines and writes a line of links for each. Raises `ConfigError` before anything is read."""
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
    text = training_text(pair, tokenized=config.tokenized or not config.pair)
    training = AlignTrainConfig(filters=config.filters, aligner=config.aligner)
    with readable_twice(config.input) as path:
        file = LinesFile(pair, path, config.format, config.input)
        model, _, _ = trained_model(text, [file], training, threads, None)
        if config.model:
            with open_output(config.model) as stream:
                (model if config.pair else replace(model, text=None)).save(stream)
        write_links(file.texts(), model, tokenizers_of(text), config)


def score(config: AlignScoreConfig) -> str:
    """Returns the line to print about the agreement of two files of links."""
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
    """Formats an agreement.

    >>> score_line(Agreement(sentences=2, found=4, found_possible=3, found_sure=2, sure=3, possible=5))
    'AER 0.2857  precision 0.7500  recall 0.6667  (2 sentences, 4 links; gold: 3 sure, 2 possible)'
    """
    return (
        f"AER {found.error_rate:.4f}  precision {found.precision:.4f}  recall {found.recall:.4f}  "
        f"({found.sentences:,} sentences, {found.found:,} links; "
        f"gold: {found.sure:,} sure, {found.possible - found.sure:,} possible)"
    )
