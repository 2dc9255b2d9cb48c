"""Every task from its published files to scores and answers: finetune, evaluate, score and predict, as a user types."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schemas.mrc import MrcExample, PairExample, TaggingExample
from tests.training.end_to_end.published import PUBLISHED, Files, Published
from training.cli import main
from training.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parents[3]
PLAIN = {"qa": "plain_qa", "tagging": "plain_tagging", "pairs": "plain_pairs"}
SIZES = ["--max-tokens", "72", "--max-query-tokens", "24", "--stride", "8", "--batch-size", "4", "--device", "cpu"]
# Long enough for a tagger to find names, so that there are entities whose places can be looked at.
STEPS = 16
LEARNING = ["--steps", str(STEPS), "--learning-rate", "0.01", "--warmup-share", "0"]


def mpmr(task: str) -> str:
    named = {"xquad": "squad", "mlqa": "squad", "universal_ner": "conll"}.get(task, task)
    return f"mpmr_{named}"


RUNS = [
    *((task, PLAIN[published.kind]) for task, published in PUBLISHED.items()),
    *((task, mpmr(task)) for task in PUBLISHED),
    ("squad", "clism_qa"),
    ("wikiann", "clism_ner_que"),
    ("squad", "two_stage"),
]


class Done(NamedTuple):
    """What the four commands left behind."""

    task: str
    recipe: str
    published: Published
    files: Files
    run: Path
    finetuned: str  # what was printed
    evaluated: dict[str, Any]
    scored: dict[str, Any]
    asked: list[Any]  # records
    answers: list[dict[str, Any]]


def printed(*arguments: str | Path) -> str:
    """Returns what a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        main([str(each) for each in arguments])
    return out.getvalue()


@pytest.fixture(scope="module", params=RUNS, ids="-".join)
def done(request: pytest.FixtureRequest, xlmr_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    task, recipe = request.param
    published, folder = PUBLISHED[task], tmp_path_factory.mktemp(f"{task} {recipe}")  # paths may hold blanks
    files, run = published.files(folder / "files"), folder / "run"

    method = ["--extractor-inner", "32", "--threshold", "0"] if recipe.startswith("mpmr") else []
    starting = ["--model", xlmr_folder, "--task", task, "--train", *files.train, "--output", run]
    finetuned = printed("finetune", recipe, *starting, *SIZES, *LEARNING, *method)

    judging = ["--task", task, "--gold", *files.gold, "--format", "json", "--resamples", "20"]
    evaluated = json.loads(
        printed("evaluate", run, *judging, *(["--labels", *files.labels] if files.labels else []), "--device", "cpu")
    )
    golds = ["--task", task, "--gold", *(files.labels or files.gold), "--format", "json", "--resamples", "20"]
    scored = json.loads(printed("score", *golds, "--predictions", *predictions(files, published, run, task)))

    asked = [record for path in files.gold for record in records(task, path)]
    (folder / "asked.jsonl").write_text("".join(map(line, asked)), "utf-8")
    printed("predict", run, "--input", folder / "asked.jsonl", "--output", folder / "answers.jsonl")
    answers = [json.loads(each) for each in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    return Done(task, recipe, published, files, run, finetuned, evaluated, scored, asked, answers)


def records(task: str, path: Path) -> Sequence[Any]:
    return TASKS[task].read(path, None)[0]


def predictions(files: Files, published: Published, run: Path, task: str) -> list[Path]:
    """The official files, which are named as the gold files are."""
    suffix = {"qa": ".json", "tagging": ".tsv", "pairs": ".txt"}[published.kind]
    folder = run / "results" / task / "predictions"
    found = {path.name.removesuffix(suffix): path for path in folder.glob(f"*{suffix}")}
    assert len(found) == len(files.gold)
    return [found[gold.name.removesuffix(".json").removesuffix(".tsv")] for gold in files.gold]


def line(record: Any) -> str:
    if isinstance(record, MrcExample):
        values: dict[str, Any] = {"query": record.query, "context": record.context}
    elif isinstance(record, TaggingExample):
        values = {"text": record.text, "tokens": [list(span) for span in record.tokens]}
    else:
        assert isinstance(record, PairExample)
        values = {"sentence1": record.sentence1, "sentence2": record.sentence2}
    return json.dumps({"id": record.id, **values}, ensure_ascii=False) + "\n"


def test_a_run_leaves_a_model_and_a_log(done: Done) -> None:
    run = json.loads((done.run / "run.json").read_text("utf-8"))
    assert (run["recipe"]["name"], run["recipe"]["task"]) == (done.recipe, done.task)
    assert [name.partition(" ")[2] for name in run["data"]] == [path.name for path in done.files.train]
    assert len((done.run / "metrics.jsonl").read_text("utf-8").splitlines()) == STEPS
    assert (done.run / "model" / "polyspan.json").is_file() and not (done.run / "checkpoints").exists()
    assert done.finetuned.startswith(f"Fine-tuned {done.recipe} for {STEPS} steps")
    assert f"evaluate '{done.run}' --task {done.task} --gold" in done.finetuned  # with its blank, to be pasted
    assert (done.run / "baseline" / "model").is_dir() == (done.recipe == "two_stage")


def test_a_report_has_the_languages_and_figures_of_the_task(done: Done) -> None:
    figures = {*done.published.figures, *(["span_f1"] if done.recipe in SPANS_SAID else [])}
    assert sorted(row["name"] for row in done.evaluated["rows"]) == sorted(done.files.rows)
    assert [row["name"] for row in done.evaluated["averages"]] == list(done.files.averages)
    for row in done.evaluated["rows"] + done.evaluated["averages"]:
        assert {name for name, of in row.items() if isinstance(of, dict)} == figures
        assert all(0 <= row[name]["value"] <= 100 for name in figures)
    assert sum(row["examples"] for row in done.evaluated["rows"]) == len(done.asked)


SPANS_SAID = {mpmr(task) for task, published in PUBLISHED.items() if published.kind == "tagging"}


def test_the_official_files_score_as_the_model_was_evaluated(done: Done) -> None:
    def official(report: dict[str, Any]) -> list[dict[str, Any]]:
        rows = [*report["rows"], *report["averages"]]
        return [{name: of for name, of in row.items() if name != "span_f1"} for row in rows]

    assert official(done.scored) == official(done.evaluated)


def test_answers_are_the_texts_at_their_places(done: Done) -> None:
    assert [each["id"] for each in done.answers] == [record.id for record in done.asked]
    found = 0
    for record, answer in zip(done.asked, done.answers, strict=True):
        if done.published.kind == "pairs":
            assert answer["label"] == max(answer["scores"], key=answer["scores"].get)
            assert sorted(answer["scores"]) == sorted(TASKS[done.task].labels)
            found += 1
            continue
        text = record.context if done.published.kind == "qa" else record.text
        spans = answer["answers"] if done.published.kind == "qa" else answer["entities"]
        assert all(text[each["start_char"] : each["end_char"]] == each["text"] != "" for each in spans)
        if done.published.kind == "tagging":
            assert all(each["label"] in TASKS[done.task].labels for each in spans)
            starts = {record.tokens[at].start for at, tag in enumerate(answer["tags"]) if tag.startswith("B-")}
            assert starts == {each["start_char"] for each in spans}
            assert len(answer["tags"]) == len(record.tokens)
        found += len(spans)
    if done.recipe != "clism_ner_que":  # which needs more steps until [QUE] says anything but that there is no answer
        assert found >= len(done.asked) / 2


def test_predict_says_what_evaluate_wrote(done: Done) -> None:
    """Asked for the same texts one after the other, the model gives the answers that were scored."""
    answers = iter(done.answers)
    for path, gold in zip(predictions(done.files, done.published, done.run, done.task), done.files.gold, strict=True):
        of = records(done.task, gold)
        mine = [next(answers) for _ in of]
        content = path.read_text("utf-8")
        if done.published.kind == "qa":
            official = {each["id"]: each["answers"][0]["text"] if each["answers"] else "" for each in mine}
            assert json.loads(content) == official
        elif done.published.kind == "tagging":
            sentences = [block.splitlines() for block in content.removesuffix("\n").split("\n\n")]
            assert sentences == [each["tags"] for each in mine]
        else:
            assert content.splitlines() == [each["label"] for each in mine]


def test_report_compares_runs_of_a_task(done: Done) -> None:
    report = printed("report", done.run, "--format", "json")
    (group,) = json.loads(report)["groups"]
    (run,) = group["runs"]
    assert run["state"] == "finished" and run["settings"]["task"] == done.task
    assert run["results"][done.task]["rows"] == done.evaluated["rows"]


@pytest.mark.parametrize("done", RUNS[:1], indirect=True, ids="-".join)  # once: a process takes seconds to start
def test_a_program_that_waits_for_each_answer_gets_it(done: Done) -> None:
    """In a process of its own, as pipes have it: what is not flushed would wait for more."""
    command = [sys.executable, "-m", "training.cli", "predict", str(done.run), "--interactive"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asked:
        assert asked.stdin and asked.stdout
        for record in done.asked[:3]:
            asked.stdin.write(line(record).encode())
            asked.stdin.flush()
            assert json.loads(asked.stdout.readline())["id"] == record.id
        asked.stdin.close()
    assert asked.returncode == 0
