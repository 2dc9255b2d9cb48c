"""The work folder: a step is done once, and a step that died half-way leaves nothing that counts as done."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.runtime.work_folder import WorkFolder, replace_file

TABLE = pa.table({"title": ["Dog", "Cat"], "row": [0, 1]})


class Step:
    """A step that makes `table`; counts how often it runs, and fails if asked."""

    def __init__(self, table=TABLE, fails: bool = False) -> None:
        self.table, self.fails, self.runs = table, fails, 0

    def __call__(self):
        self.runs += 1
        if self.fails:
            raise RuntimeError("the step died")
        return self.table, {"pages": 2}


@pytest.fixture
def work(tmp_path) -> WorkFolder:
    return WorkFolder(str(tmp_path / "work"))


def test_a_step_is_run_once_and_its_table_and_summary_are_kept(work):
    step = Step()
    assert work.run_once("pages", "en-0", step) == {"pages": 2}
    assert work.run_once("pages", "en-0", step) == {"pages": 2} == work.summary("pages", "en-0")
    assert step.runs == 1
    assert work.table("pages", "en-0") == TABLE
    assert work.table("pages", "en-0", ["row"]).column_names == ["row"]


def test_a_step_without_a_table_keeps_its_summary_alone(work, tmp_path):
    work.run_once("files", "0", Step(table=None))
    assert [path.name for path in (tmp_path / "work" / "files").iterdir()] == ["0.json"]


def test_the_parts_of_a_file_are_read_one_by_one(work):
    work.run_once("texts", "en-0", Step(table=[TABLE.slice(0, 1), TABLE.slice(1, 1), TABLE.slice(0, 0)]))
    assert [work.part("texts", "en-0", index)["title"].to_pylist() for index in range(3)] == [["Dog"], ["Cat"], []]


def test_steps_are_known_by_stage_and_key_and_listed_in_the_order_of_the_input(work):
    steps = {(stage, key): Step() for stage, key in (("pages", "en-1"), ("pages", "en-0"), ("texts", "en-0"))}
    for (stage, key), step in steps.items():
        work.run_once(stage, key, step)
    assert [step.runs for step in steps.values()] == [1, 1, 1]
    assert work.keys("pages") == ["en-0", "en-1"] and work.keys("linked") == []


def test_a_step_that_fails_leaves_nothing_and_runs_again(work, tmp_path):
    with pytest.raises(RuntimeError, match="died"):
        work.run_once("pages", "en-0", Step(fails=True))
    assert work.keys("pages") == [] and not work.has_finished_any()
    assert not list(tmp_path.rglob("*.*"))
    work.run_once("pages", "en-0", Step())
    assert work.keys("pages") == ["en-0"] and work.has_finished_any()


def test_a_step_that_died_between_table_and_summary_runs_again(work, tmp_path, monkeypatch):
    def no_summary(*_, **__) -> str:
        raise RuntimeError("the step died")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("pipelines.runtime.work_folder.json.dumps", no_summary)
        work.run_once("pages", "en-0", Step())
    assert [path.name for path in (tmp_path / "work" / "pages").iterdir()] == ["en-0.arrow"]
    assert work.keys("pages") == []
    step = Step()
    work.run_once("pages", "en-0", step)
    assert step.runs == 1 and work.table("pages", "en-0") == TABLE


def test_a_file_that_is_not_written_to_its_end_does_not_replace_the_old_one(tmp_path):
    path = tmp_path / "pages.json"
    with replace_file(str(path)) as stream:
        stream.write(b"old")
    with pytest.raises(RuntimeError), replace_file(str(path)) as stream:
        stream.write(b"ne")
        raise RuntimeError("the process died")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
