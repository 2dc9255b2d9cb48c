"""`polyspan-train compare-languages`: how similar are a model's representations of the same records in several
languages?

N records, T tokens of a packed batch, D hidden size.
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from transformers import AutoModel, PreTrainedModel

from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import locked
from schemas.runtime.shown_paths import shown_path
from schemas.translations import texts_of
from training.checks.language_comparison import check_comparison
from training.data.batches import pack
from training.data.split_long_text import longest_first
from training.data.tokens import TextEncoder
from training.inference.predictor import MOST_TOKENS, Progress, batches, device_of, precision_of
from training.methods.base import seeded
from training.metrics.language_similarity import Similarity, similarity
from training.metrics.tables import Table, text
from training.models.encoder import Encoder
from training.models.files import model_in
from training.models.folder import load_model
from training.objectives.consistency import sequence_means
from training.recipes.language_comparison import LanguageComparisonConfig
from training.reports import plots
from training.reports.html_page import Section, page
from training.reports.plots import Bar
from training.runtime import atomic_write
from training.runtime.outputs import COMPARISON, REPORT, comparison_files
from training.tasks.records import Record, Records, read_records

TITLE = "Languages compared"
RANDOM = ", random weights"
CAPTION = (
    "Centroids of the languages in two principal components. A unit is the root mean square distance of records to "
    "their language's centroid, so that models can be compared."
)


class Compared(NamedTuple):
    """A model, or one of its kind with random weights, and how similar its languages are."""

    name: str
    found: Similarity


def run(config: LanguageComparisonConfig) -> str:
    """Writes `config.output` and returns the table. Raises `ConfigError` or `InputError` for what cannot work."""
    check_comparison(config)
    by_lang, read = parallel_records(config)
    compared = compare(by_lang, config)
    tables = tables_of(compared, by_lang, config.source_lang)
    about = about_of(config, read, compared, len(by_lang[config.source_lang]))
    output = Path(config.output)
    with locked(output), atomic_write.folder(output, comparison_files) as beside:
        atomic_write.text(beside / COMPARISON, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        printed = "\n\n".join(text(table) for table in tables.values()) + "\n"
        atomic_write.text(beside / "comparison.txt", printed)
        atomic_write.text(beside / REPORT, page(sections_of(compared, tables, config.source_lang), [], TITLE))
    print(f"Written: {output}", file=sys.stderr)
    return printed


# --- the same records in each language --------------------------------------------------------------------------------


def parallel_records(config: LanguageComparisonConfig) -> tuple[dict[str, list[Record]], Records]:
    """Returns language → the records that all files have, in the same order, and what was read. Of several records with
    an id, the first is taken.

    Raises `InputError` if fewer than two records are in all files, or if two files have the same language.
    """
    read = read_records(config.files, config.task, config.langs)
    by_id: dict[str, dict[str, Record]] = {}
    records = iter(read.records)
    for source in read.sources:
        own = [next(records) for _ in range(source.records)]
        lang = own[0].lang
        if lang in by_id:
            raise InputError(f"{source.path}: a second file of language {lang!r}. Expected one file for each language")
        by_id[lang] = {}
        for record in own:
            by_id[lang].setdefault(_published_id(record, source.path), record)
    if config.source_lang not in by_id:
        raise ConfigError(f"--source-lang {config.source_lang}: the files are of {', '.join(by_id)}")
    shared = set.intersection(*(set(of_lang) for of_lang in by_id.values()))
    if len(shared) < 2:
        some = ", ".join(f"{next(iter(of_lang))} ({lang})" for lang, of_lang in by_id.items())
        raise InputError(
            f"{len(shared)} records are in all {len(config.files)} files; expected 2 or more with the same id. First "
            f"ids: {some}"
        )
    chosen = sorted(shared, key=lambda id_: _hash(config.seed, id_))[: config.records]
    return {lang: [of_lang[id_] for id_ in chosen] for lang, of_lang in by_id.items()}, read


def _published_id(record: Record, path: Path) -> str:
    """Returns the id that a record has in every language. The readers name a record without id by its file and line."""
    id_ = getattr(record, "source_id", None) or record.id
    if id_.startswith(f"{path.name}:"):
        raise InputError(f"{path}: its records have no ids, and records are not joined by their order")
    return id_


def _hash(seed: int, id_: str) -> bytes:
    return hashlib.sha256(f"{seed} {id_}".encode()).digest()


# --- representations --------------------------------------------------------------------------------------------------


def compare(by_lang: Mapping[str, Sequence[Record]], config: LanguageComparisonConfig) -> list[Compared]:
    """Returns how similar the languages are to each model, and to random weights: once for models that have the same
    architecture and tokenizer."""
    compared, random = [], {}
    for name in config.models:
        start = load_model(model_in(name), config.seed, mlm=False)
        text_encoder, model = TextEncoder(start.tokenizer), cast(PreTrainedModel, start.language_model.base_model)
        shown = shown_path(name)
        compared.append(Compared(shown, _similarity(shown, Encoder(model), text_encoder, by_lang, config)))
        architecture = (text_encoder.fingerprint, type(model).__name__, _sizes(model))
        if architecture not in random:
            encoder, label = Encoder(_random_like(model, config.seed)), f"{shown}{RANDOM}"
            random[architecture] = Compared(label, _similarity(label, encoder, text_encoder, by_lang, config))
    return [*compared, *random.values()]


def _sizes(model: PreTrainedModel) -> tuple[int, ...]:
    config: Any = model.config
    return config.vocab_size, config.hidden_size, config.num_hidden_layers, config.num_attention_heads


def _random_like(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    with seeded(seed):
        config = copy.deepcopy(model.config)
        random: PreTrainedModel = cast(Any, AutoModel).from_config(config, add_pooling_layer=False)
    return random


def _similarity(
    name: str,
    encoder: Encoder,
    text_encoder: TextEncoder,
    by_lang: Mapping[str, Sequence[Record]],
    config: LanguageComparisonConfig,
) -> Similarity:
    device = device_of(config.computing)
    encoder.to(device).eval()
    found = {}
    with Progress(name, sum(map(len, by_lang.values()))) as progress:
        for lang, records in by_lang.items():
            before = progress.done
            ids = [token_ids(record, text_encoder, min(config.max_tokens, encoder.max_tokens)) for record in records]
            rows: list[Any] = [None] * len(ids)
            for indices in batches(
                [len(each) for each in ids], config.computing.batch_tokens or MOST_TOKENS[device.type]
            ):
                means_ND = means_of(encoder, [ids[index] for index in indices], text_encoder, config, device)
                for index, row_D in zip(indices, means_ND, strict=True):
                    rows[index] = row_D
                before += len(indices)
                progress(before)
            found[lang] = np.stack(rows)
    return similarity(found, config.source_lang)


def token_ids(record: Record, encoder: TextEncoder, max_tokens: int) -> Sequence[int]:
    """Returns `<s> text </s>`, or `<s> first </s></s> second </s>`; the longer text is cut first."""
    texts = [encoder.ids(text) for text in texts_of(record)]
    if len(texts) == 1:
        return encoder.single(texts[0][: max_tokens - len(encoder.single(()))])
    first, second = longest_first(len(texts[0]), len(texts[1]), max_tokens - len(encoder.pair((), ())[0]))
    return encoder.pair(texts[0][:first], texts[1][:second])[0]


def means_of(
    encoder: Encoder,
    ids: Sequence[Sequence[int]],
    text_encoder: TextEncoder,
    config: LanguageComparisonConfig,
    device: torch.device,
) -> np.ndarray:
    """Returns the mean of each record's last layer without special tokens, (N, D)."""
    is_bf16 = precision_of(config.computing, device) == "bf16"
    inputs = pack(ids).to(device)
    special = torch.tensor(sorted(text_encoder.special_ids), device=device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=is_bf16):
        hidden_TD = encoder(inputs)
    return sequence_means(hidden_TD, inputs.bounds_N1, ~torch.isin(inputs.ids_T, special)).cpu().numpy()


# --- tables and pictures ----------------------------------------------------------------------------------------------


def tables_of(compared: Sequence[Compared], langs: Sequence[str] | Mapping[str, Any], source: str) -> dict[str, Table]:
    """Returns title → table: CKA, and distances of centroids. The last column is the mean over the other languages."""
    others = [lang for lang in langs if lang != source]
    tables = {}
    for title, field in (("CKA", "cka"), ("distance of centroids", "distance")):
        rows = []
        for each in compared:
            values = [getattr(each.found, field)[lang] for lang in others]
            rows.append([each.name, *(f"{value:.3f}" for value in values), f"{_mean(values):.3f}"])
        tables[f"{title} with {source}"] = Table([f"{title} with {source}", *others, "mean"], rows)
    return tables


def sections_of(compared: Sequence[Compared], tables: Mapping[str, Table], source: str) -> list[Section]:
    """Returns the parts of the page: each table with its picture."""
    bars = {
        each.name: {lang: Bar(value, None) for lang, value in each.found.cka.items() if lang != source}
        for each in compared
    }
    trained = [each for each in compared if not each.name.endswith(RANDOM)]
    points = {each.name: each.found.centroids for each in trained}
    shares = ", ".join(f"{each.name} {each.found.explained:.0%}" for each in trained)
    pictures = [
        {f"CKA with {source}.": plots.as_svg(plots.language_bars(bars, f"CKA with {source}", ylabel="CKA"))},
        {f"{CAPTION} Share of the centroids' variance: {shares}.": plots.as_svg(plots.language_points(points))},
    ]
    return [
        Section(title, table, set(), picture) for (title, table), picture in zip(tables.items(), pictures, strict=True)
    ]


def about_of(
    config: LanguageComparisonConfig, read: Records, compared: Sequence[Compared], records: int
) -> dict[str, Any]:
    """Returns the content of comparison.json."""
    return {
        "task": config.task,
        "files": read.files,
        "source_lang": config.source_lang,
        "records": records,
        "max_tokens": config.max_tokens,
        "seed": config.seed,
        "models": [
            {
                "name": each.name,
                "cka": each.found.cka,
                "cka_mean": _mean([value for lang, value in each.found.cka.items() if lang != config.source_lang]),
                "centroid_distance": each.found.distance,
                "centroids": each.found.centroids,
                "explained_variance": each.found.explained,
            }
            for each in compared
        ],
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
