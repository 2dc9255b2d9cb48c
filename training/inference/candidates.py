"""Makes the candidates of two-stage training: a baseline's best answers to the training records (two-stage,
Hard-Learning Algorithm), as a dataset of schema candidates/1.

The manifest identifies the baseline by the fingerprint of its weights, and the records by their checksum. It counts the
records with a true answer among the first 1, 3, 5 and 10 candidates (two-stage, table 2), and 20, the size of Z. Spans
are in code points, so that models with any tokenizer can be trained on them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import torch

from schemas import manifest
from schemas.candidates import Candidate, CandidateCounts, CandidateSet
from schemas.errors import ConfigError, InputError
from schemas.manifest import Manifest
from schemas.mrc import MrcExample
from schemas.runtime.shown_paths import shown_path
from schemas.shards import read_examples
from schemas.spans import CharSpan
from training.data.dataset_writer import write_dataset
from training.engine.run_setup import choose_device, fingerprint, log_line, resolve_precision
from training.inference.predictor import Predictor, load_predictor, predict
from training.inference.run_datasets import baseline_name, is_made_of
from training.methods.questions import PlainQuestions
from training.metrics.squad import normalize
from training.recipes.finetuning import FinetuneConfig
from training.recipes.methods import RunData, TwoStage
from training.runtime.distributed import barrier, process_group, rank
from training.runtime.outputs import fingerprint_of_dataset
from training.tasks.predictions import Span

SCHEMA = "candidates/1"
FEW = 50.0
"""Percentage of true answers among the candidates below which the user is warned."""
_DECIDING = ("baseline_sha256", "records_sha256", "size")  # of the manifest's configuration


def run_candidates(config: FinetuneConfig, records: Sequence[MrcExample]) -> RunData:
    """Returns the candidates as `TwoStageQuestions` takes them; none in a run that needs no baseline. Warns of settings
    and of a baseline from which little can be learnt."""
    if not config.baseline:
        return RunData({})
    candidates = baseline_candidates(config, records)
    method = config.recipe.method
    assert isinstance(method, TwoStage)
    if method.hard in ("mml", "hard_em") and not method.gold_first:
        log_line(
            f"  warning: without --gold-first, {method.hard} does not tell the true answer from the baseline's wrong "
            "ones: the model unlearns it"
        )
    check_recall(config, manifest.load(_folder_of(config)))
    return RunData({"candidates": candidates}, fingerprint_of_dataset(str(_folder_of(config))))


def _folder_of(config: FinetuneConfig) -> Path:
    return Path(config.output) / "candidates"


def baseline_candidates(config: FinetuneConfig, records: Sequence[MrcExample]) -> dict[MrcExample, list[CharSpan]]:
    """Returns the candidates of a run's records from `candidates/` in its folder. The first rank makes them if they do
    not exist.

    Raises `ConfigError` if the baseline does not answer questions, or if the candidates there are of another baseline
    or of other records.
    """
    assert isinstance(config.recipe.method, TwoStage)
    folder, size = _folder_of(config), config.recipe.method.candidates
    if rank() == 0:
        baseline = load_predictor(config.baseline, torch.device("cpu"))
        made_of = about(baseline_name(config), baseline, records, size)
        if not (folder.exists() and is_made_of(folder, made_of, _DECIDING, config.overwrite)):
            with process_group() as process_device:
                device = choose_device(config.device, process_device)
            baseline.model.to(device)
            log_line(f"The baseline {config.baseline} answers {len(records):,} questions")
            index = make_candidates(
                folder,
                records,
                baseline._replace(device=device),
                made_of,
                resolve_precision(config.recipe, device),
                overwrite=True,
            )
            log_line(f"True answers among the baseline's best: {_shares(index)}")
    barrier()
    return read_candidates(folder, records)


def about(name: str, baseline: Predictor, records: Sequence[MrcExample], size: int) -> dict[str, Any]:
    """Returns the manifest's description of what the candidates are made of. The baseline must be on the CPU."""
    if not isinstance(baseline.formulation, PlainQuestions):
        raise ConfigError(
            f"--baseline {name}: expected a model that answers questions with its start and end scores, found one of "
            f"{type(baseline.formulation).__name__}. Fine-tune one with recipe plain_qa, or leave --baseline out"
        )
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(record.to_row(), sort_keys=True).encode() + b"\n")
    return {
        "baseline": shown_path(name),
        "baseline_sha256": fingerprint(baseline.model),
        "records_sha256": digest.hexdigest(),
        "size": size,
        "reading": asdict(baseline.settings),
    }


def make_candidates(
    folder: str | Path,
    records: Sequence[MrcExample],
    baseline: Predictor,
    made_of: dict[str, Any],
    precision: Literal["bf16", "fp32"] = "fp32",
    overwrite: bool = False,
) -> Manifest:
    """Writes the baseline's best answers to the records, in their order. `made_of` is the result of `about`.

    The baseline predicts without the true answers, although it was trained on them.
    """
    assert isinstance(baseline.formulation, PlainQuestions)
    # Twice as many, since several spans of tokens may be one in the text: a "▁" without text precedes Chinese words.
    formulation = replace(baseline.formulation, best=2 * made_of["size"])
    predictions = predict(baseline.model, formulation, records, baseline.device, precision)
    counts: dict[str, CandidateCounts] = defaultdict(CandidateCounts)

    def counted() -> Iterator[CandidateSet]:
        for record, prediction in zip(records, predictions, strict=True):
            candidates = candidate_set(record, prediction.spans[: made_of["size"]])
            counts[candidates.lang] += candidates.counts
            yield candidates

    config = {**made_of, "precision": precision}
    return write_dataset(
        folder, SCHEMA, counted(), counts, config=config, versions={"torch": torch.__version__}, overwrite=overwrite
    )


def candidate_set(record: MrcExample, spans: Sequence[Span]) -> CandidateSet:
    """Returns a record's row. `spans`: best first. A span is true if it is SQuAD's exact match (two-stage, table 2)."""
    golds = {normalize(text) for text in record.answer_texts}
    true = [rank for rank, span in enumerate(spans, 1) if normalize(span.text) in golds]
    candidates = tuple(Candidate(span.start_char, span.end_char, span.score) for span in spans)
    return CandidateSet(record.id, record.lang, candidates, true[0] if true else None)


def read_candidates(folder: str | Path, records: Sequence[MrcExample]) -> dict[MrcExample, list[CharSpan]]:
    """Returns each record's candidates, best first. The keys are records, since several languages may share an id.

    Raises `DatasetError` if the folder is no sound dataset, `InputError` if its rows are not those of these records.
    """
    index = manifest.load(folder)
    if index.schema != SCHEMA:
        raise InputError(f"{folder}: expected a dataset of schema {SCHEMA}, found {index.schema}")
    spans: dict[MrcExample, list[CharSpan]] = {}
    for row, (record, candidates) in enumerate(zip_longest(records, read_examples(folder))):
        if not (record and candidates and (record.id, record.lang) == (candidates.id, candidates.lang)):
            expected, there = (f"{each.id} ({each.lang})" if each else "no more" for each in (record, candidates))
            raise InputError(
                f"{folder}, row {row}: expected question {expected}, found {there}: the candidates were made of other "
                "records. Repeat the command with --overwrite, or take another --output"
            )
        spans[record] = [CharSpan(span.start_char, span.end_char) for span in candidates.candidates]
    return spans


def recall(index: Manifest) -> dict[int, float]:
    """Returns k → percentage of questions with a true answer among their first k candidates (two-stage, table 2)."""
    counts = index.totals
    assert isinstance(counts, CandidateCounts)
    return {k: 100 * hits / max(1, counts.examples) for k, hits in counts.hits.items()}


def check_recall(config: FinetuneConfig, index: Manifest) -> None:
    """Warns if fewer than `FEW` percent of the true answers are candidates. Raises `InputError` if none is and the user
    named the baseline; a run of a few steps that trains its own goes on."""
    found = max(recall(index).values())
    name, advice = baseline_name(config), "Train it longer, or name a better one with --baseline"
    if not found and name == config.baseline:
        raise InputError(
            f"{name}: none of the {index.totals.examples:,} true answers is among the best answers of this baseline, "
            f"from which there is nothing to learn. {advice}"
        )
    if found < FEW:
        log_line(f"  warning: few true answers are among the best of {name} ({_shares(index)}). {advice}")


def _shares(index: Manifest) -> str:
    return ", ".join(f"{share:.1f}% in {k}" for k, share in recall(index).items())
