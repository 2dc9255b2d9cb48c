"""Tests suites with fake training and predictions, which the real scorer scores; and once with the real ones."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import training
from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import NEW
from tests.training.end_to_end.published import columns, pairs, squad, tagged, written
from training import benchmark
from training.checks.benchmark import check_plan, evaluations, finetuning, plan_lines, plan_of
from training.checks.inference import checked, output_of
from training.engine.run_setup import RunOutcome
from training.evaluate import list_files, read_golds, write_report
from training.metrics import aggregates
from training.metrics.tables import text
from training.recipes.finetuning import FinetuneConfig
from training.recipes.inference import EvaluateConfig
from training.recipes.suites import SUITES, BenchmarkConfig, Cell, cells_of, suite_of
from training.reports import suite_results
from training.reports.plots import mean_sd
from training.reports.suite_results import State, read_state, tables_of
from training.runtime.errors import TrainingError
from training.score import report_of
from training.tasks.catalog import TASKS

LANGS = ("en", "de", "th")
MINE = """
seeds = [1, 2]

[[methods]]
name = "plain"
recipe = "plain_qa"
options = { steps = 3, learning_rate = 1 }

[[methods]]
name = "que"
recipe = "clism_qa"

[[trainings]]
task = "squad"

[[trainings.tests]]
task = "xquad"
langs = ["en", "de", "th"]

[[trainings.tests]]
task = "mlqa"
langs = ["en", "de"]
all_pairs = true
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """SQuAD, three languages of XQuAD, and all pairs of two languages of MLQA."""
    folder = tmp_path / "data"
    squad(folder / "squad/train-v1.1.json", "en")
    for lang in LANGS:
        squad(folder / f"xquad/xquad.{lang}.json", lang, lang)
    for context in ("en", "de"):
        for question in ("en", "de"):
            squad(folder / f"MLQA_V1/test/test-context-{context}-question-{question}.json", context, question)
    return folder


@pytest.fixture
def config(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchmarkConfig:
    monkeypatch.setattr(benchmark, "as_page", lambda results, notes: "no pictures, which take seconds")
    (tmp_path / "mine.toml").write_text(MINE)
    return BenchmarkConfig(
        str(tmp_path / "mine.toml"), data, ("tiny",), output=str(tmp_path / "out"), resamples=50, device="cpu"
    )


class Trainer:
    """Replaces finetune and evaluate: a model answers its first `right` records of each file, and the rest with "-"."""

    def __init__(self, fails: Callable[[FinetuneConfig], bool] = lambda config: False) -> None:
        self.trained: list[FinetuneConfig] = []
        self.evaluated: list[str] = []
        self.fails = fails
        self.stops_at = 0
        self.dies_at = ""

    def right(self, model: str) -> int:
        return int(Path(model).name.split("-")[1]) + 2 * ("que" in Path(model).parts)  # the seed, 2 more for que

    def finetune(self, config: FinetuneConfig) -> RunOutcome:
        self.trained.append(config)
        if len(self.trained) == self.stops_at:
            return RunOutcome(3, signal.SIGTERM, True)
        if self.fails(config):
            raise TrainingError("the loss is no number")
        (Path(config.output) / "model").mkdir(parents=True, exist_ok=True)
        about = {"format_version": 1, "recipe": {}, "versions": {}}
        (Path(config.output) / "run.json").write_text(json.dumps(about))
        (Path(config.output) / "metrics.jsonl").write_text("{}\n")
        return RunOutcome(3, None, True)

    def evaluate(self, configs: Sequence[EvaluateConfig]) -> list[Any]:
        return [self.evaluate_one(config) for config in configs]

    def evaluate_one(self, config: EvaluateConfig) -> Any:
        if config.task == self.dies_at:
            raise KeyboardInterrupt
        self.evaluated.append(f"{Path(config.model).parent.parent.name} {Path(config.model).name} {config.task}")
        output = output_of(config)
        scoring, task = checked(config, output)
        golds = read_golds(config, scoring, task)
        (output / "predictions").mkdir(parents=True)
        list_files(output, config.task, scoring.predictions)
        for gold, path in zip(golds, scoring.predictions, strict=True):
            answers = [record.answer_texts[0] if record.answer_texts else "-" for record in gold.records]
            known = [*answers[: self.right(config.model)], *["-"] * len(answers)]
            ids = [record.id for record in gold.records]
            path.write_text(json.dumps(dict(zip(ids, known, strict=False))))
        if any("unlabelled" in gold.flags for gold in golds) and not config.labels:
            return InputError("has no labels")
        write_report(output, report := report_of(scoring), {})
        return report

    def run(self, config: BenchmarkConfig) -> State:
        return benchmark.benchmark(config, self.finetune, self.evaluate)[0]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def results(config: BenchmarkConfig) -> Any:
    return json.loads((Path(config.output) / "results.json").read_text(encoding="utf-8"))


# --- the runs ---------------------------------------------------------------------------------------------------------


def test_every_method_is_trained_with_every_seed_and_evaluated_on_every_test_set(config: BenchmarkConfig) -> None:
    trainer = Trainer()
    state = trainer.run(config)
    assert [(each.recipe.name, each.recipe.seed) for each in trainer.trained] == [
        *(("plain_qa", 1), ("plain_qa", 2), ("clism_qa", 1), ("clism_qa", 2))
    ]
    plain = trainer.trained[0].recipe
    assert (plain.steps, plain.learning_rate, plain.model, plain.task) == (3, 1.0, "tiny", "squad")
    assert trainer.trained[-1].output == f"{config.output}/que/squad/seed-2"
    assert trainer.evaluated[:2] == ["plain seed-1 xquad", "plain seed-1 mlqa"] and len(trainer.evaluated) == 8
    scores = state.done[Cell("que", "squad", 0, 2, 1)].scores
    assert list(scores) == ["xquad", "mlqa"]
    assert scores["xquad"]["avg"]["exact_match"] == pytest.approx(100 * 4 / 6)
    assert {"de-en", "en-de", "XLT", "G-XLT"} <= scores["mlqa"].keys()


def test_the_tables_are_those_of_papers(config: BenchmarkConfig) -> None:
    state = Trainer().run(config)
    tables = tables_of(benchmark.results_of(config, plan_of(config), state))
    assert list(tables["xquad"].header) == ["xquad, F1 / EM", "runs", "en", "de", "th", "avg", "gap, F1"]
    mean, sd = mean_sd([100 / 6, 200 / 6])  # one of six right with seed 1, two with seed 2
    row = tables["xquad"].rows[0]
    assert row[:2] == ["plain", "2"] and row[5].endswith(f"{mean:.1f} ± {sd:.1f}")
    assert list(tables["mlqa"].header) == ["mlqa, F1 / EM", "runs", "en", "de", "XLT", "G-XLT", "gap, F1"]
    matrix = tables["mlqa, all pairs of languages: que"]
    assert [cells[0] for cells in matrix.rows] == ["en", "de"] and list(matrix.header[1:]) == ["en", "de"]
    assert "XTREME's averages" not in tables  # languages are missing
    (first, second) = tables["Differences between methods"].rows
    assert first[0] == "xquad, F1: que − plain" and float(first[1]) == pytest.approx(100 * 2 / 6, abs=0.01)
    assert second[0] == "mlqa, F1: que − plain"
    written_text = (Path(config.output) / "results.txt").read_text(encoding="utf-8")
    assert text(matrix) in written_text


def test_every_format_and_the_page_are_written(config: BenchmarkConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "as_page", suite_results.as_page)
    Trainer().run(config)
    output = Path(config.output)
    assert r"\toprule" in (output / "results.tex").read_text(encoding="utf-8")
    assert "| plain | 2 |" in (output / "results.md").read_text(encoding="utf-8")
    page = (output / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 * 2 + 2 * 2 and ">context</text>" in page
    found = results(config)["tasks"]["xquad"]["rows"]["plain"]["avg"]["exact_match"]
    assert found["values"] == [pytest.approx(100 / 6), pytest.approx(200 / 6)]
    assert results(config)["differences"][0]["p"] >= 1 / 51


@pytest.mark.parametrize(
    "sizes, caption", [((2,), "xquad, F1. Lines:"), ((0, 2, 4), "xquad over the number of examples")]
)
def test_a_page_draws_languages_for_one_size_of_training_sets_and_curves_for_several(
    config: BenchmarkConfig, sizes: tuple[int, ...], caption: str
) -> None:
    Path(config.suite).write_text(MINE.partition('[[trainings.tests]]\ntask = "mlqa"')[0])
    Path(config.suite).write_text(f"examples = {list(sizes)}\n" + Path(config.suite).read_text())
    state = Trainer().run(replace(config, methods=("plain",)))
    page = suite_results.as_page(benchmark.results_of(config, plan_of(config), state), [])
    assert caption in page and "<h1>Suite mine</h1>" in page


def test_xtremes_averages_are_over_complete_tasks_only(data: Path, config: BenchmarkConfig) -> None:
    for lang in TASKS["xquad"].langs:
        squad(data / f"xquad/xquad.{lang}.json", "de", "de", name=lang)
    mine = Path(config.suite)
    mine.write_text(mine.read_text().replace('langs = ["en", "de", "th"]', ""))
    state = Trainer().run(config)
    suite = benchmark.results_of(config, plan_of(config), state)
    table = tables_of(suite)["XTREME's averages"]
    assert list(table.header) == ["XTREME", "xquad", "mlqa", "mean of 2 tasks"]
    scores = [state.done[Cell("plain", "squad", 0, seed, 1)].scores["xquad"]["avg"] for seed in (1, 2)]
    mean, sd = mean_sd([aggregates.xtreme_qa(each["exact_match"], each["f1"]) for each in scores])
    assert table.rows[0] == ["plain", f"{mean:.1f} ± {sd:.1f}", "–", "–"]  # MLQA has two of seven languages


def test_submissions_have_the_names_that_xtreme_expects(config: BenchmarkConfig) -> None:
    Trainer().run(config)
    folder = Path(config.output) / "submission/que/seed-2"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    assert names == [f"mlqa/test-{lang}.json" for lang in ("de", "en")] + [
        f"xquad/test-{lang}.json" for lang in ("de", "en", "th")
    ]
    from_run = Path(config.output) / "que/squad/seed-2/results/mlqa/predictions/test-context-de-question-de.json"
    assert (folder / "mlqa/test-de.json").read_bytes() == from_run.read_bytes()


def test_models_are_deleted_once_they_are_evaluated_unless_they_are_wanted(config: BenchmarkConfig) -> None:
    Trainer().run(config)
    assert not list(Path(config.output).glob("*/*/seed-*/model"))
    Trainer().run(replace(config, output=config.output + "-kept", keep_models=True))
    assert len(list(Path(config.output + "-kept").glob("*/*/seed-*/model"))) == 4


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_stopped_suite_goes_on_where_it_was_and_ends_with_the_same_bytes(config: BenchmarkConfig) -> None:
    Trainer().run(whole := replace(config, output=config.output + "-whole"))
    first = Trainer()
    first.stops_at = 3
    state, stopped_by = benchmark.benchmark(config, first.finetune, first.evaluate)
    assert (len(state.done), stopped_by) == (2, signal.SIGTERM)
    again = Trainer()
    again.run(config)
    assert [each.recipe.name for each in again.trained] == ["clism_qa", "clism_qa"]
    for name in (*benchmark.RESULTS, "suite.json"):
        assert (Path(config.output) / name).read_bytes() == (Path(whole.output) / name).read_bytes()


def test_an_evaluation_that_was_complete_is_not_repeated(config: BenchmarkConfig) -> None:
    killed = Trainer()
    killed.dies_at = "mlqa"
    with pytest.raises(KeyboardInterrupt):
        killed.run(config)
    evaluation = Path(config.output) / "plain/squad/seed-1/results/xquad"
    (evaluation / NEW).touch()  # as a process leaves it that is killed after it has put the folder in its place
    again = Trainer()
    again.run(config)
    assert again.evaluated[:2] == ["plain seed-1 mlqa", "plain seed-2 xquad"]
    assert not (evaluation / NEW).exists()


def test_a_run_that_fails_is_named_and_tried_again(config: BenchmarkConfig, capsys: pytest.CaptureFixture[str]) -> None:
    state = Trainer(lambda each: (each.recipe.name, each.recipe.seed) == ("plain_qa", 2)).run(config)
    assert list(map(str, state.failed)) == ["plain on squad, seed 2"] and len(state.done) == 3
    assert "failed: plain on squad, seed 2: the loss is no number" in capsys.readouterr().err
    assert results(config)["notes"] == ["failed: plain on squad, seed 2"]
    again = Trainer()
    again.run(config)
    assert len(again.trained) == 1 and results(config)["notes"] == []


def test_methods_and_seeds_may_be_added_and_changes_are_refused(config: BenchmarkConfig, data: Path) -> None:
    Trainer().run(config)
    more = Trainer()
    more.run(replace(config, seeds=(1, 2, 3)))
    assert [each.recipe.seed for each in more.trained] == [3, 3]
    with pytest.raises(
        ConfigError, match="another recipe, model, training file or translation of plain on squad, seed 1"
    ):
        Trainer().run(replace(config, set=("batch_size=9",)))
    squad(data / "xquad/xquad.de.json", "es", "es")
    with pytest.raises(ConfigError, match="another test set xquad"):
        Trainer().run(config)
    anew = Trainer()
    anew.run(replace(config, overwrite=True))
    assert len(anew.trained) == 4
    (Path(config.output) / "suite.json").write_text("[]")
    with pytest.raises(InputError, match="not what benchmark writes"):
        benchmark.run(config)


def test_an_old_suite_stays_until_all_runs_of_the_new_one_are_done(config: BenchmarkConfig) -> None:
    Trainer().run(config)
    before = files(Path(config.output))
    other = replace(config, set=("batch_size=9",), overwrite=True)
    Trainer(lambda each: each.recipe.seed == 2).run(other)
    assert files(Path(config.output)) == before
    again = Trainer()
    again.run(other)
    assert {each.recipe.seed for each in again.trained} == {2}
    assert not Path(config.output).with_name(".out.new").exists()


def test_a_complete_suite_has_nothing_to_do(
    config: BenchmarkConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Trainer().run(config)
    before = files(Path(config.output))
    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(benchmark, "benchmark", None)
        for format, part in (("text", "xquad, F1 / EM"), ("latex", r"\midrule"), ("json", '"tasks"')):
            assert benchmark.run(replace(config, format=format)) == 0  # type: ignore[arg-type]
            printed = capsys.readouterr()
            assert "complete, nothing to do" in printed.err and part in printed.out
    assert files(Path(config.output)) == before
    fewer = Trainer()
    fewer.run(replace(config, seeds=(1,)))  # other tables of the same runs
    assert not fewer.trained and len(results(config)["tasks"]["xquad"]["rows"]["plain"]["avg"]["f1"]["values"]) == 1


# --- files ------------------------------------------------------------------------------------------------------------


def test_missing_files_are_listed_with_their_names_and_left_out_only_if_that_is_allowed(
    config: BenchmarkConfig, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "xquad/xquad.th.json").unlink()
    (data / "MLQA_V1/test/test-context-de-question-en.json").unlink()
    trainer = Trainer()
    with pytest.raises(
        ConfigError, match=r"(?s)xquad th, expected as xquad.th.json.*mlqa de-en, expected as test-cont"
    ):
        trainer.run(config)
    assert not trainer.trained and not Path(config.output).exists()
    assert benchmark.run(replace(config, dry_run=True, allow_missing=True)) == 0
    printed = capsys.readouterr().out
    assert "xquad: 2 of 3 languages" in printed and "mlqa: 3 of 4 pairs" in printed
    with_less = replace(config, allow_missing=True)
    tables = tables_of(benchmark.results_of(with_less, plan_of(with_less), trainer.run(with_less)))
    assert list(tables["xquad"].header[2:5]) == ["en", "de", "avg of 2/3"]
    assert list(tables["mlqa"].header[4:6]) == ["XLT", "G-XLT of 3/4"]
    assert results(config)["notes"][0].startswith("missing: xquad th")


def test_a_training_set_without_training_file_is_left_out(config: BenchmarkConfig, data: Path) -> None:
    (data / "squad/train-v1.1.json").rename(data / "squad/train.json")
    plan = plan_of(config)
    assert not plan.cells and "  training set squad (no training file), runs: 0" in plan_lines(plan)
    with pytest.raises(ConfigError, match="every training set lacks files"):
        check_plan(replace(config, allow_missing=True), plan)


def test_files_without_labels_are_predicted_for_a_submission_and_not_scored(
    config: BenchmarkConfig, data: Path
) -> None:
    squad(data / "xquad/xquad.de.json", "de", "de", blank=True)
    state = Trainer().run(config)
    assert {tuple(done.scores) for done in state.done.values()} == {("mlqa",)}
    assert results(config)["notes"] == ["xquad: without labels, so predicted and not scored"]
    assert (Path(config.output) / "submission/plain/seed-1/xquad/test-de.json").is_file()
    squad(data / "labels/xquad/test-de.json", "de", "de")
    state = Trainer().run(replace(config, overwrite=True))
    assert {tuple(done.scores) for done in state.done.values()} == {("xquad", "mlqa")}


def test_the_built_in_suites_find_xtremes_layout(tmp_path: Path) -> None:
    for lang in TASKS["paws_x"].langs:
        for part in ("train", "dev", "test"):
            written(
                tmp_path / f"pawsx/{part}-{lang}.tsv", "".join("\t".join(each) + "\n" for each in pairs("de", "10"))
            )
    for name in ("train-en", "dev-en", *(f"test-{lang}" for lang in TASKS["wikiann"].langs)):
        written(tmp_path / f"panx/{name}.tsv", columns(tagged("de"), lambda at, word, tag: f"{word}\t{tag}"))
    written(tmp_path / "multinli.train.en.tsv", "")
    written(tmp_path / "xnli/dev-en.tsv", "")
    written(tmp_path / "XNLI-1.0/xnli.test.tsv", "")
    for name, tests in (("xtreme-ner", {"wikiann": 40}), ("xtreme-pairs", {"paws_x": 7, "xnli": 1})):
        plan = plan_of(BenchmarkConfig(name, tmp_path, ("tiny",)))
        assert plan.missing == []
        assert {test.task: len(plan.found[training.name].tests[test.task]) for training, test in plan.tests} == tests
    assert plan.found["paws_x"].dev == (tmp_path / "pawsx/dev-en.tsv",)
    assert len(plan_of(BenchmarkConfig("xtreme", tmp_path, ("tiny",))).found) == 5
    few = suite_of(BenchmarkConfig("mlqa-few-shot", tmp_path, ("tiny",)))
    assert len(list(cells_of(few))) == 5 * 5


def test_a_file_of_several_languages_is_divided_for_a_submission(tmp_path: Path, config: BenchmarkConfig) -> None:
    lines = [f"{lang}\tneutral\tA.\tB.\t{at}\n" for lang in ("de", "ar") for at in range(2)]
    written(tmp_path / "d/xnli.test.tsv", "language\tgold_label\tsentence1\tsentence2\tpairID\n" + "".join(lines))
    written(tmp_path / "d/multinli.train.en.tsv", "premise\thypo\tlabel\nA.\tB.\tneutral\n")
    tables = (
        '[[methods]]\nrecipe = "plain_pairs"',
        '[[trainings]]\ntask = "xnli"',
        '[[trainings.tests]]\ntask = "xnli"',
    )
    (tmp_path / "pairs.toml").write_text("\n".join(tables))
    config = replace(config, suite=str(tmp_path / "pairs.toml"), data=tmp_path / "d")
    plan = plan_of(config)
    (cell,) = plan.cells
    written(
        Path(config.output) / cell.folder / "results/xnli/predictions/xnli.test.txt",
        "neutral\nentailment\ncontradiction\nneutral\n",
    )
    benchmark.write_submission(config, plan, cell)
    folder = Path(config.output) / "submission/plain_pairs/seed-1/xnli"
    assert (folder / "test-ar.tsv").read_text() == "contradiction\nneutral\n"
    assert (folder / "test-de.tsv").read_text() == "neutral\nentailment\n"


# --- translations -----------------------------------------------------------------------------------------------------


@pytest.fixture
def translated(config: BenchmarkConfig, data: Path) -> BenchmarkConfig:
    """X-Mixup beside the plain model, with XTREME's translations of SQuAD and XQuAD."""
    table = '[[methods]]\nname = "mixup"\nrecipe = "x_mixup_qa"\n\n[[trainings]]'
    mine = MINE.replace("[[trainings]]", table, 1).rpartition("[[trainings.tests]]")[0]
    Path(config.suite).write_text(mine)
    for lang in ("de", "th"):
        squad(data / f"squad/squad.translate.train.en-{lang}.json", lang, lang)
        squad(data / f"xquad/xquad.translate.test.{lang}-en.json", "en")
    return config


def test_translations_are_found_for_the_methods_that_read_them(
    translated: BenchmarkConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(translated)
    assert plan.missing == [] and benchmark.run(replace(translated, dry_run=True)) == 0
    listed = capsys.readouterr().out
    assert "squad.translate.train.en-th.json" in listed and "xquad.translate.test.de-en.json" in listed
    for cell in plan.cells:
        used = [path.name for path in finetuning(translated, plan, cell).translations]
        (evaluated,) = evaluations(translated, plan, cell)
        with_test = [path.name for path in evaluated.translations]
        if cell.method == "mixup":
            assert used == [f"squad.translate.train.en-{lang}.json" for lang in ("de", "th")]
            assert with_test == [f"xquad.translate.test.{lang}-en.json" for lang in ("de", "th")]
        else:
            assert used == with_test == []
    alone = replace(translated, methods=("plain",))
    assert not plan_of(alone).found["squad"].translations


def test_missing_translations_are_listed_and_leave_out_only_what_needs_them(
    translated: BenchmarkConfig, data: Path
) -> None:
    (data / "xquad/xquad.translate.test.th-en.json").unlink()
    shutil.move(data / "squad/squad.translate.train.en-de.json", data / "elsewhere.json")
    with pytest.raises(ConfigError) as refused:
        check_plan(translated, plan_of(translated))
    said = str(refused.value)
    assert "translations of the training file of squad (de), expected as translations/squad-train or squad.tr" in said
    assert "translations of xquad (th), expected as translations/xquad-test or xquad.translate.test.th-en.json" in said
    (data / "squad/squad.translate.train.en-th.json").unlink()
    plan = plan_of(replace(translated, allow_missing=True))
    assert {cell.method for cell in plan.cells} == {"plain", "que"}  # without translations there is nothing to mix
    assert plan_of(replace(translated, methods=("plain",))).missing == []


def test_a_changed_translation_is_refused_and_a_method_that_reads_them_may_be_added(
    translated: BenchmarkConfig, data: Path
) -> None:
    Trainer().run(replace(translated, methods=("plain_qa",)))
    Trainer().run(replace(translated, methods=("plain_qa", "x_mixup_qa")))
    squad(data / "xquad/xquad.translate.test.de-en.json", "es")
    Trainer().run(replace(translated, methods=("plain_qa",)))  # it does not read them
    with pytest.raises(ConfigError, match=r"another .* translation of x_mixup_qa on squad, seed 1"):
        Trainer().run(replace(translated, methods=("plain_qa", "x_mixup_qa")))


def test_a_suite_names_its_own_translations_as_files_and_as_folders(translated: BenchmarkConfig, data: Path) -> None:
    written(data / "tr/xquad/manifest.json", "{}")
    shutil.move(data / "squad/squad.translate.train.en-de.json", data / "tr/other.en-de.json")
    mine = Path(translated.suite)
    text = mine.read_text().replace('task = "squad"', 'task = "squad"\ntranslations = ["tr/other.en-{lang}.json"]')
    mine.write_text(text.replace('langs = ["en", "de", "th"]', 'langs = ["en", "de"]\ntranslations = ["tr/xquad"]'))
    plan = plan_of(translated)
    assert plan.missing == []
    assert plan.found["squad"].translations == (data / "tr/other.en-de.json",)
    assert plan.found["squad"].test_translations == {"xquad": (data / "tr/xquad",)}


@pytest.mark.parametrize("family", ["filter", "x_mixup", "translate_train"])
def test_families_of_methods_that_read_translations_name_what_the_built_in_suites_need(
    family: str, tmp_path: Path
) -> None:
    plan = plan_of(BenchmarkConfig("xtreme", tmp_path, ("tiny",), methods=(family,)))
    missing = [line for line in plan.missing if line.startswith("translations")]
    assert len(missing) == 5 + 6  # MLQA and XQuAD are both tests of SQuAD
    assert any("en-ar-translated.tsv" in line and "xnli" in line for line in missing)
    assert any(line.endswith("expected as translations/wikiann-train") for line in missing)
    assert "all 49 files of mlqa, expected as test-context-en-question-en.json …" in plan.missing


# --- what cannot work -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"suite": "xtreme-qaa"}, "no such suite or TOML file. Did you mean xtreme-qa?"),
        ({"suite": "mine.tml"}, "mine.tml: no such suite or TOML file"),
        ({"model": ()}, "no model: name the one that method plain starts from with --model"),
        ({"methods": ("plian",)}, "there is no method 'plian'. Did you mean plain?"),
        ({"methods": ("mpmr_xnli",)}, "method mpmr_xnli has no recipe for squad, which is qa"),
        ({"set": ("stepps=3",)}, "recipe plain_qa has no 'stepps'. Did you mean steps?"),
        ({"set": ("steps=many",)}, "steps: expected int, found 'many'"),
        ({"set": ("seed=3",)}, "the suite decides 'seed'"),
        ({"set": ("steps",)}, "expected NAME=VALUE"),
        ({"seeds": (1, 1)}, "expected each seed once"),
        ({"data": None}, "no data: name the folder"),
        ({"data": Path("no")}, "--data no: no such folder"),
        ({"output": ""}, "no output"),
        ({"resamples": -1}, "--resamples: expected 0 or more"),
        ({"set": ("batch_size=0",)}, "--batch-size: expected 1 or more"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_run(
    config: BenchmarkConfig, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        benchmark.run(replace(config, **changes))
    assert message in str(refused.value)
    assert not Path(config.output).exists()


@pytest.mark.parametrize(
    "before, after, message",
    [
        ("seeds = [1, 2]", "seeds = 1", "suite: seeds: expected tuple[int, ...], found 1"),
        ("seeds = [1, 2]", "seds = [1, 2]", "suite: unknown key 'seds'. Did you mean seeds?"),
        ("seeds = [1, 2]", "seeds = [1, 2", "no TOML"),
        ('recipe = "plain_qa"', 'recipe = "plain_q"', "there is no recipe 'plain_q'. Did you mean plain_qa?"),
        ('recipe = "plain_qa"', "", "[[methods]]: recipes is missing"),
        ('task = "squad"', "", "task is missing"),
        ('task = "squad"', 'task = "sqad"', "unknown task 'sqad'. Did you mean squad?"),
        ('task = "squad"', 'task = "xnli"', "xquad is another kind of task than xnli"),
        ('task = "squad"', 'task = "xquad"', "say which are its training files"),
        ('task = "mlqa"', 'task = "tydiqa"', "all_pairs is for mlqa"),
        ('name = "que"', 'name = "../que"', "expected letters, digits"),
    ],
)
def test_a_toml_file_that_cannot_work_is_refused(
    config: BenchmarkConfig, before: str, after: str, message: str
) -> None:
    Path(config.suite).write_text(MINE.replace(before, after, 1))
    with pytest.raises((ConfigError, InputError)) as refused:
        suite_of(config)
    assert message in str(refused.value)


def test_one_process_does_it(config: BenchmarkConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="without torchrun"):
        benchmark.run(config)


def test_several_models_have_rows_of_their_own(config: BenchmarkConfig) -> None:
    suite = suite_of(replace(config, model=("runs/a/model", "xlm-roberta-base"), methods=("plain",)))
    assert [(each.name, each.model) for each in suite.methods] == [
        ("plain-a", "runs/a/model"),
        ("plain-xlm-roberta-base", "xlm-roberta-base"),
    ]
    assert {training.name for training in SUITES["xtreme-qa"].trainings} == {"squad", "tydiqa"}


# --- for real ---------------------------------------------------------------------------------------------------------


def test_a_suite_of_the_packaged_sample_trains_and_evaluates(
    config: BenchmarkConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = """
    seeds = [1, 2]
    [[methods]]
    recipe = "plain_qa"
    options = { steps = 2, batch_size = 2, max_tokens = 64, stride = 8, max_query_tokens = 16 }
    [[trainings]]
    task = "squad"
    train = ["questions.en.json"]
    [[trainings.tests]]
    task = "xquad"
    files = ["questions.{lang}.json"]
    langs = ["en", "vi"]
    """
    Path(config.suite).write_text(mine)
    sample = replace(config, data=Path(training.__file__).parent / "sample")
    assert benchmark.run(sample) == 0
    printed = capsys.readouterr()
    assert "xquad, F1 / EM" in printed.out and "Run 2 of 2: plain_qa on squad, seed 2" in printed.err
    assert json.loads((Path(config.output) / "submission/plain_qa/seed-2/xquad/test-vi.json").read_text("utf-8"))
    before = files(Path(config.output))
    assert benchmark.run(sample) == 0 and "complete, nothing to do" in capsys.readouterr().err
    assert files(Path(config.output)) == before


def test_a_suite_trains_on_translations_and_evaluates_with_them(config: BenchmarkConfig, tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    lines = {lang: [f"{a}\t{b}" for a, b, _ in pairs(lang, "10")] for lang in ("en", "de")}
    labels = [label for *_, label in pairs("en", "10")]

    def table(name: str, *columns: Sequence[str]) -> None:
        rows = ("\t".join(row) + "\n" for row in zip(*columns, strict=True))
        written(folder / name, "".join(rows))

    table("pawsx/train-en.tsv", lines["en"], labels)
    table("pawsx/test-de.tsv", lines["de"], labels)
    table("pawsx/translate-train/en-de-translated.tsv", lines["en"], lines["de"], labels)
    table("pawsx/translate-test/test-de-en-translated.tsv", lines["de"], lines["en"])
    Path(config.suite).write_text("""
    [[methods]]
    recipe = "translate_train_pairs"
    options = { steps = 2, batch_size = 2, max_tokens = 64, max_query_tokens = 32, stride = 8 }
    [[trainings]]
    task = "paws_x"
    [[trainings.tests]]
    task = "paws_x"
    langs = ["de"]
    """)
    assert benchmark.run(replace(config, data=folder)) == 0
    run = Path(config.output) / "translate_train_pairs/paws_x/seed-1"
    assert "en-de-translated.tsv" in (run / "run.json").read_text(encoding="utf-8")
    assert "test-de-en-translated.tsv" in (run / "results/paws_x/report.json").read_text(encoding="utf-8")


@pytest.mark.real_data
def test_real_files_are_found_and_what_is_absent_is_named(shared_data: Path) -> None:
    plan = plan_of(BenchmarkConfig("xtreme", shared_data, ("tiny",)))
    present = {task: len(names) for found in plan.found.values() for task, names in found.present.items()}
    assert present == {"paws_x": 7, "xnli": 0, "wikiann": 0, "xquad": 11, "mlqa": 0, "tydiqa": 9}
    assert [cell.training for cell in plan.cells] == ["tydiqa"]  # the only training file of that name
    assert "the training file of squad, expected as train-v1.1.json" in plan.missing


@pytest.mark.slow
def test_a_real_suite_trains_evaluates_and_resumes_after_kill_9(config: BenchmarkConfig, data: Path) -> None:
    """A small suite in processes of their own: one is killed, and the next ends as one that was not."""
    mine = Path(config.suite)
    mine.write_text(MINE.partition('[[methods]]\nname = "que"')[0] + MINE[MINE.index("[[trainings]]") :])
    shutil.rmtree(data / "MLQA_V1")
    mine.write_text(mine.read_text().rpartition("[[trainings.tests]]")[0])
    options = ["--model", "tiny", "--device", "cpu", "--resamples", "20", "--data", str(data), "--set", "batch_size=2"]

    def start(output: Path) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "training", "benchmark", str(mine), *options, "--output", str(output)]
        return subprocess.Popen(line, stderr=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])

    killed, whole = Path(config.output), Path(config.output + "-whole")
    process = start(killed)
    assert process.stderr
    for line in process.stderr:
        if line.startswith(b"Run 2 of 2"):
            break
    process.kill()
    process.communicate()
    assert list(read_state(killed / "suite.json").done) == [Cell("plain", "squad", 0, 1, 1)]
    for output in (killed, whole):
        process = start(output)
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()[-2_000:]
    for name in (*benchmark.RESULTS, "suite.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
