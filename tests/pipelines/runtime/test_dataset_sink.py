"""The dataset sink without Beam: which chunks make a shard, and a manifest that is written last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.runtime import dataset_sink
from pipelines.runtime.dataset_sink import ShardPlan, each_once, plan_shards, write_examples, write_manifest
from pipelines.runtime.job_context import FILES_STAGE, JobContext
from pipelines.runtime.work_folder import WorkFolder, replace_file
from schemas import clism, manifest
from schemas.clism import ARROW_SCHEMA, ClismExample, PairCounts
from schemas.manifest import InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.shards import read_examples
from schemas.verification import find_problems
from tests.schemas.test_shards import EXAMPLE

STAGE = "masked"
OTHER = replace(EXAMPLE, id="9a")


@pytest.fixture
def job(tmp_path) -> JobContext:
    return JobContext(WorkFolder(str(tmp_path / "work")), 0, 10, PairCounts)


def finish_chunk(job: JobContext, key: str, examples: list[ClismExample], rejects: int = 0) -> None:
    """Keeps a chunk of examples and its ledger, as a job's last step does."""
    ledger = job.ledger()
    questions = sum(len(example.questions) for example in examples)
    counts = PairCounts(len(examples) + rejects, len(examples), {}, questions, questions)
    refused = [Reject("no_mention", "pair", f"{key}:{line}", "en-vi", "news", line, "…") for line in range(rejects)]
    ledger.add("en-vi", counts, refused)
    table = pa.Table.from_pylist([example.to_row() for example in examples], schema=ARROW_SCHEMA)
    job.work.run_once(STAGE, key, lambda: (table, ledger.to_json()))


def plans(job: JobContext, rows: list[int], rows_per_shard: int) -> list[tuple[str, ...]]:
    for number, count in enumerate(rows):
        finish_chunk(job, str(number), [EXAMPLE] * count)
    planned = list(plan_shards(job.work.keys(STAGE), STAGE, job, rows_per_shard))
    assert [plan[:2] for plan in planned] == [(number, len(planned)) for number in range(len(planned))]
    return [plan.keys for plan in planned]


@pytest.mark.parametrize(
    "rows, rows_per_shard, expected",
    [
        ([2, 2, 2], 6, [("0", "1", "2")]),
        ([2, 2, 2, 2], 4, [("0", "1"), ("2", "3")]),
        ([2, 2, 2], 4, [("0", "1"), ("2",)]),
        ([0, 0], 4, [("0", "1")]),  # a dataset without examples has one empty shard
        ([], 4, [()]),
        ([9, 1], 4, [("0",), (), ("1",)]),  # chunks are never cut
    ],
)
def test_shards_are_whole_chunks_in_order(job, rows, rows_per_shard, expected):
    assert plans(job, rows, rows_per_shard) == expected


def write_shards(job: JobContext, output: Path) -> list[ShardEntry]:
    finish_chunk(job, "0", [EXAMPLE], rejects=2)
    finish_chunk(job, "1", [OTHER])
    job.work.run_once(FILES_STAGE, "0", lambda: (None, {"inputs": [InputFile("news", "n.en", 4, "ab")._asdict()]}))
    plans_ = [ShardPlan(0, 2, ("0",)), ShardPlan(1, 2, ("1",))]
    return [write_examples(plan, str(output), ARROW_SCHEMA, STAGE, job) for plan in plans_]


def planned() -> Manifest:
    return Manifest.planned(f"{clism.NAME}/{clism.VERSION}", {}, {}, None)


def test_the_manifest_lists_shards_rejects_counts_and_inputs(job, tmp_path):
    shards = write_shards(job, tmp_path / "out")
    write_manifest(["0", "1"], shards[::-1], str(tmp_path / "out"), planned(), (STAGE,), job)
    index = manifest.load(tmp_path / "out")
    assert list(find_problems(tmp_path / "out")) == []
    assert index.shards == tuple(shards) and index.rejects[0].rows == 2
    assert index.counts["en-vi"].pair_rejects == {"no_mention": 2}
    assert index.inputs == (InputFile("news", "n.en", 4, "ab"),)
    assert list(read_examples(tmp_path / "out")) == [EXAMPLE, OTHER]


def test_the_manifest_is_written_last(job, tmp_path, monkeypatch):
    written: list[str] = []

    def noted(path: str):
        written.append(Path(path).name)
        return replace_file(path)

    monkeypatch.setattr(dataset_sink, "replace_file", noted)
    write_manifest([], write_shards(job, tmp_path / "out"), str(tmp_path / "out"), planned(), (STAGE,), job)
    assert written[-2:] == ["README.md", "manifest.json"] and written.count("manifest.json") == 1


def test_a_job_that_lost_records_writes_no_manifest(job, tmp_path):
    shards = write_shards(job, tmp_path / "out")
    with pytest.raises(RuntimeError, match=r"lost or doubled records.*1 rows.*2 examples"):
        write_manifest([], shards[:1], str(tmp_path / "out"), planned(), (STAGE,), job)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_file_that_several_languages_read_is_listed_once():
    news, copy, other = InputFile("a", "n.en", 4, "ab"), InputFile("b", "n.en", 4, "ab"), InputFile("a", "n.vi", 4, "c")
    assert each_once([news, other, copy]) == (news, other)
