from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from schemas.candidates import Candidate, CandidateCounts
from schemas.errors import ConfigError, InputError
from schemas.manifest import Manifest, load
from schemas.mrc import MrcExample
from schemas.runtime.shown_paths import shown_path
from schemas.shards import read_examples
from schemas.spans import CharSpan
from tests.training.methods.fitting import fit, predict_all
from tests.training.methods.two_stage_step import READING, RECORDS
from training.data.tokens import TextEncoder
from training.inference import candidates
from training.inference.candidates import (
    baseline_candidates,
    candidate_set,
    check_recall,
    read_candidates,
    recall,
    run_candidates,
)
from training.methods.questions import PlainQuestions
from training.methods.two_stage import TwoStageQuestions
from training.models.finetuned import save_finetuned
from training.models.folder import Provenance, load_model
from training.recipes.finetuning import TWO_STAGE, FinetuneConfig, InferenceSettings
from training.recipes.methods import Plain, TwoStage
from training.tasks.predictions import Span

BASELINE = replace(READING, method=Plain())
ANSWERED = RECORDS[:-1]


@pytest.fixture(scope="module")
def baseline(xlmr_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It knows the answers to the first three questions."""
    return fine_tuned(xlmr_folder, tmp_path_factory.mktemp("baseline") / "model", RECORDS[:3])


def fine_tuned(start_folder: Path, folder: Path, records: Sequence[MrcExample]) -> Path:
    start = load_model(start_folder)
    model = fit(PlainQuestions(BASELINE, TextEncoder(start.tokenizer)), records, start)
    about = Provenance("xlmr", {}, {}, 1)
    save_finetuned(folder, start.language_model, start.tokenizer, dict(model.heads.items()), BASELINE, about, {})
    return folder


def config(baseline: Path, output: Path, size: int = 8, **fields: object) -> FinetuneConfig:
    recipe = replace(TWO_STAGE, method=TwoStage(candidates=size))
    return FinetuneConfig(recipe, baseline=str(baseline), output=str(output), device="cpu", **fields)


def test_are_what_the_baseline_predicts_best_first(baseline: Path, tmp_path: Path) -> None:
    found = baseline_candidates(config(baseline, tmp_path), RECORDS)
    start = load_model(baseline)
    formulation = PlainQuestions(BASELINE, TextEncoder(start.tokenizer), best=16)
    from training.inference.predictor import load_predictor

    model = load_predictor(baseline, torch.device("cpu")).model
    predicted = predict_all(model, formulation, RECORDS)
    assert list(found) == RECORDS
    assert list(found.values()) == [[CharSpan(*span[:2]) for span in each.spans[:8]] for each in predicted]
    assert {len(spans) for spans in found.values()} == {8}
    rows = list(read_examples(tmp_path / "candidates"))
    for row, record in zip(rows[:3], RECORDS, strict=False):
        assert row.candidates[row.gold_rank - 1][:2] == record.answers[0]
    assert [row.gold_rank for row in rows[:3]] == [1, 1, 1] and rows[-1].gold_rank is None
    for row, prediction in zip(rows, predicted, strict=True):
        scores = [span.score for span in prediction.spans[:8]]
        assert [each.score for each in row.candidates] == pytest.approx(scores, rel=1e-5)


def test_the_manifest_says_of_what_they_were_made_and_how_often_they_hold_the_answer(
    baseline: Path, tmp_path: Path
) -> None:
    baseline_candidates(config(baseline, tmp_path), RECORDS)
    index = load(tmp_path / "candidates")
    assert index.config["baseline"] == shown_path(baseline) and index.config["size"] == 8
    assert len(index.config["baseline_sha256"]) == len(index.config["records_sha256"]) == 64
    assert {lang: counts.examples for lang, counts in index.counts.items()} == {"en": 3, "de": 2, "zh": 1}
    ranks = [row.gold_rank or math.inf for row in read_examples(tmp_path / "candidates")]
    assert recall(index) == {k: 100 * sum(rank <= k for rank in ranks) / 6 for k in (1, 3, 5, 10, 20)}
    assert 50 <= recall(index)[1] < 100


def test_the_true_answer_is_found_as_squad_scores_it() -> None:
    record = replace(RECORDS[0], answer_texts=("school", "1999"))
    texts = ["Anna", "The  school.", "1999"]
    spans = [Span(0, 1, text, 0.5) for text in texts]
    assert candidate_set(record, spans).gold_rank == 2
    assert candidate_set(record, spans).candidates == (Candidate(0, 1, 0.5),) * 3
    assert candidate_set(replace(record, answer_texts=("school in",)), spans).gold_rank is None
    assert candidate_set(replace(record, answer_texts=()), spans).gold_rank is None


def test_where_answers_are_does_not_show(baseline: Path, tmp_path: Path) -> None:
    """An answer that windows would be cut around must not tell the baseline where to look."""
    long = replace(RECORDS[0], context=" ".join([RECORDS[0].context] * 4))
    at = [replace(long, answers=(CharSpan(start, start + 30),), answer_texts=("x",)) for start in (0, 20, 40, 60)]
    settings = replace(BASELINE, max_tokens=48, stride=2)
    start = load_model(baseline)
    formulation = PlainQuestions(settings, TextEncoder(start.tokenizer))
    assert len({len(formulation.features([each])) for each in at}) > 1  # here they would
    predictor = candidates.load_predictor(baseline, torch.device("cpu"))
    predictor = predictor._replace(formulation=formulation, settings=settings)
    made_of = candidates.about("x", predictor, at, 8)
    candidates.make_candidates(tmp_path / "c", at, predictor, made_of)
    first, *others = read_candidates(tmp_path / "c", at).values()
    assert others == [first] * 3


def test_z_of_training_is_made_of_them_and_holds_the_gold(baseline: Path, tmp_path: Path) -> None:
    found = baseline_candidates(config(baseline, tmp_path), RECORDS)
    start = load_model(baseline)
    formulation = TwoStageQuestions(READING, TextEncoder(start.tokenizer), candidates=found)
    for window, record in zip(formulation.features(RECORDS), RECORDS, strict=True):
        offset = window.context[0]
        in_text = [
            CharSpan(int(window.starts[first - offset]), int(window.ends[last - offset]))
            for first, last in window.candidates
        ]
        if record.answers:
            gold = record.answers[0]
            assert in_text[0] == gold and gold not in in_text[1:]
            others = [each for each in found[record] if each != gold]
            assert in_text[1:] == others[: len(in_text) - 1]
            assert len(in_text) - len(found[record]) in (0, 1)  # Z may hold 20
        else:
            assert window.candidates == ((0, 0),)


def test_are_made_once(baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = baseline_candidates(config(baseline, tmp_path), RECORDS)
    written = (tmp_path / "candidates" / "manifest.json").read_bytes()
    monkeypatch.setattr(candidates, "predict", None)
    assert baseline_candidates(config(baseline, tmp_path), RECORDS) == first
    monkeypatch.undo()
    baseline_candidates(config(baseline, tmp_path, overwrite=True), RECORDS)
    assert (tmp_path / "candidates" / "manifest.json").read_bytes() == written


@pytest.mark.parametrize("changed", ["baseline", "records", "size"])
def test_those_of_another_run_are_refused_and_replaced_on_demand(
    changed: str, baseline: Path, xlmr_folder: Path, tmp_path: Path
) -> None:
    before = baseline_candidates(config(baseline, tmp_path), ANSWERED)
    other = fine_tuned(xlmr_folder, tmp_path / "other", RECORDS[3:]) if changed == "baseline" else baseline
    records = ANSWERED[1:] if changed == "records" else ANSWERED
    now = config(other, tmp_path, size=5 if changed == "size" else 8)
    with pytest.raises(ConfigError, match=rf"candidates: made for another run \({changed}.*--overwrite"):
        baseline_candidates(now, records)
    assert baseline_candidates(replace(now, overwrite=True), records) != before


def test_rows_of_other_records_are_refused(baseline: Path, tmp_path: Path) -> None:
    baseline_candidates(config(baseline, tmp_path), ANSWERED)
    folder = tmp_path / "candidates"
    translated = [ANSWERED[0], replace(ANSWERED[1], lang="de"), *ANSWERED[2:]]
    with pytest.raises(InputError, match=r"row 1: expected question When was it founded\? \(de\), found .* \(en\)"):
        read_candidates(folder, translated)
    with pytest.raises(InputError, match=r"row 5: expected question When.*, found no more"):
        read_candidates(folder, RECORDS)
    with pytest.raises(InputError, match="row 4: expected question no more, found Wer verlor"):
        read_candidates(folder, ANSWERED[:-1])


def test_one_id_in_two_languages_is_two_questions(baseline: Path, tmp_path: Path) -> None:
    pair = [ANSWERED[0], replace(ANSWERED[2], id=ANSWERED[0].id)]
    found = baseline_candidates(config(baseline, tmp_path), pair)
    assert len(found) == 2 and found[pair[0]] != found[pair[1]]


def index_of(hits: int) -> Manifest:
    return cast(Manifest, SimpleNamespace(totals=CandidateCounts(200, 200, *[0] * 3, hits_at_10=hits, hits_at_20=hits)))


@pytest.mark.parametrize("hits, warned", [(100, False), (99, True), (1, True)])
def test_a_baseline_that_finds_few_answers_is_told_with_its_figures(
    hits: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_recall(config(tmp_path / "baseline", tmp_path), index_of(hits))
    told = f"few true answers are among the best of baseline (0.0% in 1, 0.0% in 3, 0.0% in 5, {hits / 2:.1f}% in 10,"
    assert (told in capsys.readouterr().err) == warned


def test_a_baseline_that_finds_no_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="baseline: none of the 200 true answers is among the best answers of this"):
        check_recall(config(tmp_path / "baseline", tmp_path / "run"), index_of(0))


def test_a_run_goes_on_with_the_baseline_that_it_trained_in_a_few_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_recall(config(tmp_path / "baseline", tmp_path), index_of(0))
    assert "few true answers are among the best of baseline (0.0% in 1," in capsys.readouterr().err


@pytest.mark.parametrize(
    "method, warned",
    [(TwoStage("mml", False, 8), True), (TwoStage("hard_em", False, 8), True), (TwoStage("mml", candidates=8), False)],
)
def test_what_cannot_learn_the_answer_is_told(
    method: TwoStage, warned: bool, baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = config(baseline, tmp_path)
    run_candidates(replace(given, recipe=replace(given.recipe, method=method)), RECORDS)
    assert (f"without --gold-first, {method.hard} does not tell the true answer" in capsys.readouterr().err) == warned


def test_a_baseline_that_answers_no_questions_is_refused(xlmr_folder: Path, tmp_path: Path) -> None:
    start = load_model(xlmr_folder)
    from training.methods.tags import PlainTags

    settings = InferenceSettings(Plain(), "tagging", ("LOC",))
    heads = PlainTags(settings, TextEncoder(start.tokenizer)).heads(start, seed=0)
    about = Provenance("xlmr", {}, {}, 1)
    save_finetuned(tmp_path / "tagger", start.language_model, start.tokenizer, heads, settings, about, {})
    with pytest.raises(ConfigError, match=r"expected a model that answers questions.*found one of PlainTags.*plain_qa"):
        baseline_candidates(config(tmp_path / "tagger", tmp_path / "run"), RECORDS)
    assert not (tmp_path / "run").exists()
    assert json.loads((tmp_path / "tagger" / "config.json").read_text())["architectures"]
