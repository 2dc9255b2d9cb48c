"""A job's output folder: refused, resumed, complete, replaced. The jobs here write a tiny dataset without Beam."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pipelines.runtime.job_output
from pipelines.runtime.dataset_files import NAMES_OF_A_DATASET, files_of
from pipelines.runtime.job_output import Request, make_dataset
from pipelines.runtime.work_folder import WorkFolder, replace_file
from schemas import manifest as manifests
from schemas.clism import ARROW_SCHEMA, PairCounts
from schemas.errors import ConfigError, InputError, OutputError
from schemas.manifest import InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.runtime.output_folder import LOCK, NEW, files_in, locked, staging
from schemas.shards import write_shard
from schemas.verification import find_problems


def request(tmp_path: Path, seed: int = 0, **changes) -> Request:
    data = tmp_path / "news.en"
    if not data.exists():
        data.write_text("text")
    config = {"seed": seed, "pair": ["en-vi"]}
    planned = Manifest.planned("clism/1", config, {"polyspan": "1"}, None)
    identity = {"config": config, "versions": {"polyspan": "1"}, "inputs": [data.stat().st_mtime_ns]}
    made = Request(str(tmp_path / "out"), False, planned, {"--bitext": [str(data)]}, [str(data)], identity)
    return replace(made, **changes)


class Job:
    """Counts how often it runs; `fails` at its end, `step` after its first step."""

    def __init__(self, request: Request, fails: Exception | None = None, step: Exception | None = None) -> None:
        self.request, self.fails, self.step, self.runs, self.steps = request, fails, step, 0, 0

    def __call__(self, folder: str, work: WorkFolder) -> None:
        self.runs += 1
        work.run_once("read", "00000", self.make)
        if self.step:
            raise self.step
        shards = [write(folder, f"{name}/part-00000-of-00001.arrow", name) for name in ("data", "rejects")]
        if self.fails:
            raise self.fails
        digest = InputFile("news.en", "news.en", 4, "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1")
        index = replace(
            self.request.planned, shards=(shards[0],), rejects=(shards[1],), counts={"en-vi": PairCounts()},
            inputs=(digest,),
        )  # fmt: skip
        for name, text in (("README.md", "card"), (manifests.FILE_NAME, index.to_json())):
            with replace_file(os.path.join(folder, name)) as stream:
                stream.write(text.encode())

    def make(self) -> tuple[None, dict[str, int]]:
        self.steps += 1
        return None, {}


def write(folder: str, name: str, kind: str) -> ShardEntry:
    schema = ARROW_SCHEMA if kind == "data" else Reject.ARROW_SCHEMA
    with replace_file(os.path.join(folder, name)) as stream:
        return ShardEntry(name, *write_shard(stream, pa.Table.from_pylist([], schema=schema), schema))


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_in(folder)}


def siblings(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def test_a_job_leaves_a_dataset_and_nothing_else(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    assert list(find_problems(tmp_path / "out")) == []
    assert sorted(contents(tmp_path / "out")) == [
        "README.md",
        "data/part-00000-of-00001.arrow",
        "manifest.json",
        "rejects/part-00000-of-00001.arrow",
    ]
    assert siblings(tmp_path) == ["news.en", "out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_identical_finished_job_has_nothing_to_do(tmp_path, overwrite, caplog):
    caplog.set_level("INFO")
    first = make_dataset(request(tmp_path), Job(request(tmp_path)))
    again = Job(request(tmp_path))
    assert make_dataset(request(tmp_path, overwrite=overwrite), again) == first
    assert again.runs == 0 and "complete: nothing to do" in caplog.text


def test_a_finished_job_over_changed_inputs_is_refused_even_if_their_size_is_the_same(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    (tmp_path / "news.en").write_text("TEXT")
    with pytest.raises(ConfigError, match=r"inputs: files with other content.*--overwrite"):
        make_dataset(request(tmp_path), Job(request(tmp_path)))


def test_a_damaged_dataset_is_not_taken_for_complete(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    shard = tmp_path / "out" / "data" / "part-00000-of-00001.arrow"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=r"its files: .*part-00000"):
        make_dataset(request(tmp_path), Job(request(tmp_path)))
    make_dataset(request(tmp_path, overwrite=True), Job(request(tmp_path)))
    assert list(find_problems(tmp_path / "out")) == []


def test_a_job_that_died_between_manifest_and_clean_up_is_complete(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("pipelines.runtime.job_output._tidy", lambda folder: 1 / 0)
        make_dataset(request(tmp_path), Job(request(tmp_path)))
    assert (tmp_path / "out" / "work").exists()
    again = Job(request(tmp_path))
    make_dataset(request(tmp_path), again)
    assert again.runs == 0 and not (tmp_path / "out" / "work").exists()


def test_another_job_does_not_replace_a_dataset_unasked(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    before = contents(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"config\.seed: 0 before, 1 now.*--overwrite"):
        make_dataset(request(tmp_path, seed=1), Job(request(tmp_path, seed=1)))
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("error", [InputError("bad input"), ConfigError("bad"), RuntimeError("crash")])
def test_a_failing_job_with_overwrite_leaves_the_old_dataset(tmp_path, error):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    before = contents(tmp_path / "out")
    new = request(tmp_path, seed=1, overwrite=True)
    with pytest.raises(type(error)):
        make_dataset(new, Job(new, fails=error))
    assert contents(tmp_path / "out") == before and list(find_problems(tmp_path / "out")) == []
    make_dataset(new, Job(new))
    assert manifests.load(tmp_path / "out").config["seed"] == 1
    assert siblings(tmp_path) == ["news.en", "out"]


def test_a_job_that_crashed_goes_on_and_one_with_bad_input_begins_anew(tmp_path):
    with pytest.raises(RuntimeError):
        make_dataset(request(tmp_path), Job(request(tmp_path), step=RuntimeError("crash")))
    again = Job(request(tmp_path))
    make_dataset(request(tmp_path), again)
    assert again.steps == 0  # the first step was done
    with pytest.raises(InputError):
        other = request(tmp_path, output=str(tmp_path / "other"))
        make_dataset(other, Job(other, step=InputError("bad")))
    assert not (tmp_path / "other").exists()


def test_a_launch_that_fails_leaves_no_folder(tmp_path):
    def launch(folder: str, work: WorkFolder) -> None:
        raise RuntimeError("the runner is away")

    with pytest.raises(RuntimeError, match="away"):
        make_dataset(request(tmp_path), launch)
    assert siblings(tmp_path) == ["news.en"]


def test_a_stopped_job_whose_inputs_changed_begins_anew(tmp_path):
    with pytest.raises(RuntimeError):
        make_dataset(request(tmp_path), Job(request(tmp_path), step=RuntimeError("crash")))
    changed = request(tmp_path)
    changed = replace(changed, identity={**changed.identity, "inputs": ["newer"]})
    again = Job(changed)
    make_dataset(changed, again)
    assert again.steps == 1 and list(find_problems(tmp_path / "out")) == []


def test_a_second_job_is_refused_while_the_first_one_runs(tmp_path):
    expected = f"another process writes here: process {os.getpid()}"
    with locked(tmp_path / "out"), pytest.raises(ConfigError, match=expected):
        make_dataset(request(tmp_path), Job(request(tmp_path)))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        *("data/part-00000-of-00001.arrow", "rejects/mine", "work/mine", "work/0123456789abcdef/job.json"),
        *("manifest.json", "README.md", LOCK, NEW, ".README.md.partial", "notes.txt"),
    ],
)
def test_foreign_files_at_every_name_that_we_use_are_refused_and_left_alone(tmp_path, name, overwrite):
    foreign = tmp_path / "out" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    job = Job(request(tmp_path))
    with pytest.raises(ConfigError, match=os.path.basename(name)):
        make_dataset(request(tmp_path, overwrite=overwrite), job)
    assert contents(tmp_path / "out") == {name: b"mine"} and job.runs == 0
    assert siblings(tmp_path) == ["news.en", "out"]


@pytest.mark.parametrize("name", ["data/mine.arrow", "rejects/mine", "work/mine", "notes.txt", "model/mine"])
def test_foreign_files_in_a_dataset_are_refused_and_left_alone(tmp_path, name):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    foreign = tmp_path / "out" / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    before = contents(tmp_path / "out")
    with pytest.raises(ConfigError, match=os.path.basename(name)):
        make_dataset(request(tmp_path, seed=1, overwrite=True), Job(request(tmp_path, seed=1)))
    assert contents(tmp_path / "out") == before


def test_foreign_files_in_a_stopped_job_are_kept_when_it_is_begun_anew(tmp_path):
    with pytest.raises(RuntimeError):
        make_dataset(request(tmp_path), Job(request(tmp_path), step=RuntimeError("crash")))
    (work,) = (tmp_path / "out" / "work").iterdir()
    (work / "read" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"read/notes\.txt"):
        make_dataset(request(tmp_path, seed=1, overwrite=True), Job(request(tmp_path, seed=1)))
    assert (work / "read" / "notes.txt").read_text() == "mine"


def test_foreign_files_under_the_name_of_the_replacement_are_refused(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    staging(tmp_path / "out").mkdir()
    (staging(tmp_path / "out") / "mine").write_text("mine")
    with pytest.raises(ConfigError, match=r"\.out\.new holds .*mine"):
        make_dataset(request(tmp_path, seed=1, overwrite=True), Job(request(tmp_path, seed=1)))
    assert (staging(tmp_path / "out") / "mine").read_text() == "mine"


def test_an_input_inside_the_output_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "news.en").write_text("text")
    inside = {"--bitext": [str(tmp_path / "out" / "news.en")]}
    with pytest.raises(ConfigError, match=r"--bitext .* is inside the output folder"):
        make_dataset(request(tmp_path, inputs=inside), Job(request(tmp_path)))


def test_every_file_of_a_dataset_has_a_name_that_is_recognised(tmp_path):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    assert files_of(tmp_path / "out") == set(contents(tmp_path / "out"))
    assert all(NAMES_OF_A_DATASET.fullmatch(name) for name in contents(tmp_path / "out"))


def test_a_full_disk_is_explained_and_the_temporary_file_is_deleted(tmp_path):
    full = pytest.raises(OutputError, match=r"a\.json: No space left on device\. Make room")
    with full, replace_file(str(tmp_path / "a.json")) as stream:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_mark_of_a_job_is_not_taken_for_one(tmp_path):
    mark = tmp_path / "out" / "work" / "0123456789abcdef" / "job.json"
    mark.parent.mkdir(parents=True)
    mark.write_text(json.dumps({"mine": True}))
    assert files_of(tmp_path / "out") is None


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match="out is a file, but --output names a folder"):
        make_dataset(request(tmp_path, overwrite=True), Job(request(tmp_path)))
    assert (tmp_path / "out").read_text() == "mine"


def test_a_dataset_that_another_process_finished_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    make_dataset(request(tmp_path), Job(request(tmp_path)))
    before, finished = contents(tmp_path / "out"), pipelines.runtime.job_output._finished
    answers = iter([lambda _: None, finished])  # at the first look it was not there
    monkeypatch.setattr("pipelines.runtime.job_output._finished", lambda asked: next(answers)(asked))
    with pytest.raises(ConfigError, match=r"config\.seed: 0 before, 1 now"):
        make_dataset(request(tmp_path, seed=1), Job(request(tmp_path, seed=1)))
    assert contents(tmp_path / "out") == before
